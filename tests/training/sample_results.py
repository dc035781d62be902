"""Results as the training lab writes them: made up, the same every time, and with every oddity.

    python3 tests/training/sample_results.py >results.json
"""

import copy
import functools
import json
import math
import random
import sys

HOSTILE = '</script><img src=x onerror="window.hit=1"><script>window.hit=2</script>&amp;\'"<b>'
# name, title, kind, codec, carrier, MB sent per step, step and communication seconds of the GPT,
# what its loss is multiplied with, error per layer.
CONFIGURATIONS = (
    ("ddp-fp32", "DDP, Gloo float32", "baseline", None, None, 11.04, 0.60, 0.55, 1.0, 3e-15),
    ("ddp-bf16", "DDP, bf16 hook", "baseline", None, None, 5.53, 0.36, 0.29, 1.0005, 4e-6),
    ("powersgd-r2", "DDP, PowerSGD rank 2", "baseline", None, None, 0.61, 0.29, 0.09, 1.012, 0.55),
    ("tide4-torch", "tide:bits=4", "sluice", "tide:bits=4", "torch",
     1.47, 0.19, 0.11, 1.002, 1.2e-2),
    ("tide2-torch", "tide:bits=2", "sluice", "tide:bits=2", "torch", 0.80, 0.17, 0.08, 1.009, 0.16),
    ("tide4-stream", "tide:bits=4 over UDP", "sluice", "tide:bits=4", "stream",
     1.52, 0.16, 0.10, 1.002, 1.2e-2),
    ("sign-torch", "sign, EF", "sluice", "sign", "torch", 0.41, 0.16, 0.06, 1.06, 0.8),
)
COMPUTE_S, FORWARD_S, OPTIMIZER_S = 0.12, 0.035, 0.015
LAYERS = [("tokens.weight", 32768), ("places.weight", 8192)] + [
    (f"blocks.{block}.{part}", count) for block in range(4) for part, count in (
        ("norm1.weight", 128), ("qkv.weight", 49152), ("qkv.bias", 384), ("out.weight", 16384),
        ("norm2.weight", 128), ("up.weight", 65536), ("down.weight", 65536), ("down.bias", 128))
] + [("norm.weight", 128), ("head.weight", 32768)]


def loss_at(step, start, end):
    return end + (start - end) * math.exp(-step / 28) + 0.25 * (end / 2.8) / (1 + step / 12)


def seed_of(draw, number, spec, steps, scale, start, end, target):
    step_s = [scale * spec[6] * draw.uniform(0.96, 1.05) for _ in range(steps)]
    factor = spec[8] * draw.uniform(0.999, 1.001)
    held_out, heads = [], []
    for step in range(0, steps + 1, 6):
        loss = loss_at(step, start, end) * (factor if step else 1) * draw.uniform(0.998, 1.002)
        held_out.append([step, round(sum(step_s[:step]), 3), round(loss, 4)])
        heads.append([round(0.9 * loss, 4), round(0.1 * loss * spec[8] ** (step / 10) / 0.3, 4)])
    reached = next((point for point in held_out if point[2] <= target), None)
    return {"seed": number, "target": target, "final_loss": held_out[-1][2],
            "seconds_to_target": reached and reached[1], "steps_to_target": reached and reached[0],
            "train_seconds": round(sum(step_s), 3), "steps": steps,
            "step_seconds": [round(s, 4) for s in step_s], "held_out": held_out,
            "heads": heads,
            "sent_bytes_per_step": spec[5] * scale * 1e6,
            "received_bytes_per_step": spec[5] * scale * 1.01e6, "failed": None}


def trace_of(spec, scale, buckets):
    """Buckets go one after the other, from when the backward pass has filled them."""
    compute, wire = scale * COMPUTE_S, scale * spec[7] / buckets
    forward, optimizer = scale * FORWARD_S, scale * OPTIMIZER_S
    backward_end, free, spans = compute - optimizer, 0.0, []
    for bucket in range(buckets):
        ready = forward + (backward_end - forward) * (bucket + 1) / buckets
        start, free = ready, max(free, ready) + wire
        spans.append({"what": f"bucket {bucket}", "from": start, "to": free})
    end = max(free, backward_end)
    spans = [{"what": "forward", "from": 0.0, "to": forward},
             {"what": "backward", "from": forward, "to": backward_end},
             {"what": "wait", "from": backward_end, "to": end},
             {"what": "optimizer", "from": end, "to": end + optimizer}] + spans
    step = end + optimizer
    return {"compute_s": compute, "communication_s": scale * spec[7], "step_s": step,
            "exposed_s": step - compute, "spans": spans}


def job(draw, name, title, seeds, scale, start, end, layers, buckets, **more):
    steps = 120
    target = round(loss_at(0.9 * steps, start, end), 4)
    configurations = [
        {"name": spec[0], "title": spec[1], "kind": spec[2], "codec": spec[3], "carrier": spec[4],
         "feedback": "ef" if spec[0] == "sign-torch" else "none",
         "seeds": [seed_of(draw, number, spec, steps, scale, start, end, target)
                   for number in seeds],
         "trace": trace_of(spec, scale, buckets),
         "layers": [{"name": layer, "count": count,
                     "vnmse": spec[9] * draw.lognormvariate(0, 0.6) * (4 if count < 400 else 1)}
                    for layer, count in layers]}
        for spec in CONFIGURATIONS]
    return {"name": name, "title": title, "buckets": buckets, "steps": steps,
            "rate_why": "chosen so that communication that nothing hides is about 80% of a step of"
                        " plain DDP: a step computes for 0.120 s and takes 0.600 s",
            "target_share": 0.9, "configurations": configurations, **more}


def make():
    """Two jobs: one with three seeds, one with one, a failed seed and figures that are missing."""
    draw = random.Random(5)
    gpt = job(draw, "gpt", "a small GPT on the sources of Python's library", (1, 2, 3), 1.0,
              5.55, 2.72, LAYERS, 9, parameters=1_840_000, batch="8 x 64 bytes per worker",
              loss_name="held-out loss (nats per byte)", rate="83.2mbit", dense_share=0.79,
              heads=[{"name": "left", "weight": 1.0}, {"name": "right", "weight": 0.3}])
    cnn = job(draw, "cnn", "a small residual network on made-up images", (1,), 0.4, 2.31, 0.62,
              [(f"layer{i}.conv.weight", 9216) for i in range(9)], 3, parameters=310_000,
              batch="32 images per worker", loss_name="held-out loss (nats per image)",
              rate="35mbit", dense_share=0.84)
    sign = gpt["configurations"][-1]
    sign["seeds"][1] |= dict.fromkeys(("final_loss", "seconds_to_target", "train_seconds",
                                       "sent_bytes_per_step", "received_bytes_per_step")) | {
        "failed": "rank 2 was ended by SIGKILL", "held_out": sign["seeds"][1]["held_out"][:4]}
    cnn["configurations"][2] |= {"trace": None, "layers": []}
    cnn["configurations"][1]["seeds"][0]["sent_bytes_per_step"] = None
    return {"schema": 1,
            "made": {"when": "2026-11-16T07:00:00Z", "command": "./run --quick", "sluice": "0.5.0",
                     "torch": "2.15.0", "python": "3.11.2", "machine": "AMD EPYC 9R14, 2 cores",
                     "seconds": 312.4},
            "network": {"mode": "namespaces", "why": None, "workers": 4}, "jobs": [gpt, cnn]}


@functools.cache
def small_made():
    found = make()
    gpt = found["jobs"][0]
    found["jobs"], gpt["configurations"] = [gpt], [gpt["configurations"][i] for i in (0, 3)]
    for configuration in gpt["configurations"]:
        configuration["seeds"] = configuration["seeds"][:1]
        for key in ("held_out", "heads"):
            configuration["seeds"][0][key] = configuration["seeds"][0][key][::10]
        configuration["seeds"][0]["step_seconds"] = [0.5]
        configuration["layers"] = configuration["layers"][:2]
        configuration["trace"]["spans"] = configuration["trace"]["spans"][:5]
    return found


def small():
    """One job, two configurations, one seed: few enough figures to take each away."""
    return copy.deepcopy(small_made())


if __name__ == "__main__":
    json.dump(make(), sys.stdout)
