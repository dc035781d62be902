// Shows values where the pointer is. Without it everything on the page can still be read.
(() => {
  "use strict";
  const tip = document.getElementById("tip");
  let cursor = null;

  const hide = () => {
    tip.hidden = true;
    if (cursor) cursor.classList.remove("on");
    cursor = null;
  };

  const show = (text, event) => {
    tip.textContent = text;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, room)) + "px";
    const above = event.clientY - tip.offsetHeight - 14;
    tip.style.top = (above > 8 ? above : event.clientY + 18) + "px";
  };

  const digits = (value) => String(Number(value.toPrecision(4)));

  // Of every visible line, the point nearest to the pointer. The inverse of charts.path().
  const nearest = (plot, event) => {
    const pair = (name) => plot.dataset[name].split(" ").map(Number);
    const [x0, x1] = pair("x"), [y0, y1] = pair("y"), [width, height] = pair("units");
    const box = plot.getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width * width;
    const lines = [];
    for (const group of plot.querySelectorAll("g[data-name]")) {
      if (getComputedStyle(group).display === "none") continue;
      const points = group.querySelector(".line").getAttribute("d").slice(1).split("L")
        .map((text) => text.split(",").map(Number));
      const [x, y] = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      lines.push(group.dataset.name + ": " + digits(y1 - y / height * (y1 - y0)) +
                 " at " + digits(x0 + x / width * (x1 - x0)) + " " + plot.dataset.unit);
    }
    return [lines.join("\n"), 100 * at / width];
  };

  const point = (event) => {
    hide();
    const mark = event.target.closest("[data-tip]"), plot = event.target.closest("svg.lines");
    if (mark) {
      show(mark.dataset.tip, event);
    } else if (plot) {
      const [text, percent] = nearest(plot, event);
      if (!text) return;
      cursor = plot.querySelector(".cursor");
      cursor.setAttribute("x1", percent + "%");
      cursor.setAttribute("x2", percent + "%");
      cursor.classList.add("on");
      show(text, event);
    }
  };

  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") hide();  // A finger leaves when it is lifted.
  });
  document.addEventListener("scroll", hide, {passive: true});
})();
