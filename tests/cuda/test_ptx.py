"""Kernels compute what the host computes: PTX has no fused operation that nobody asked for, and no
trap. Made by target cuda_ptx with the flags of the library."""

import unittest

import ptx
from build_kit import MADE, ROOT, Scratch, configured, lines_of, needs_cuda, nvcc, run

PROBE = ROOT / "tests/cuda/flags_probe.cu"
SOURCES = sorted((ROOT / "src/cuda").glob("*.cu"))
HEADERS = sorted((ROOT / "src/cuda").glob("*.cuh"))


@needs_cuda
class Kernels(Scratch):
    def test_every_file_has_ptx_without_a_problem(self):
        self.assertTrue(SOURCES)
        for source in SOURCES:
            with self.subTest(source.name):
                text = (MADE / f"{source.stem}.ptx").read_text(encoding="utf-8")
                self.assertEqual(ptx.problems(text, lines_of), [])

    def test_the_oldest_gpu_has_code_too(self):
        """It lacks instructions, and holds fewer threads: seen by ptxas alone."""
        for source in ("tide_check.cu", "tide_measure.cu", "plain.cu"):
            with self.subTest(source):
                build = configured()
                self.succeed(run(build["nvcc"], *build["flags"], "-arch=sm_75", "-cubin",
                                 ROOT / "src/cuda" / source, "-o", self.folder / "old.cubin"))

    def test_every_header_compiles_alone(self):
        for header in HEADERS:
            with self.subTest(header.name):
                alone = self.write("alone.cu", f'#include "{header.relative_to(ROOT)}"\n')
                self.succeed(nvcc("-ptx", alone, "-o", self.folder / "alone.ptx"))


@needs_cuda
class Flags(Scratch):
    """flags_probe.cu with the flags of the build, and with one of them left out."""

    def problems(self, *more, without=(), source=PROBE):
        made = self.folder / "probe.ptx"
        self.succeed(nvcc("-lineinfo", *more, "-ptx", source, "-o", made, without=without))
        return ptx.problems(made.read_text(encoding="utf-8"), lines_of)

    def test_nothing_is_fused_flushed_or_approximate(self):
        text = (MADE / "flags_probe.ptx").read_text(encoding="utf-8")
        self.assertEqual(ptx.problems(text, lines_of), [])
        for word in ("mul.rn.f32", "add.rn.f32", "mul.rn.f64", "div.rn.f32", "sqrt.rn.f32"):
            self.assertIn(word, text)
        self.assertEqual(text.count("fma."), 1)  # which the source asks for

    def test_a_fused_product_is_seen_where_the_flag_is_missing(self):
        found = "\n".join(self.problems(without=("-fmad=false",)))
        self.assertIn("fuses_unless_told", found)
        self.assertIn("fuses_doubles_unless_told", found)
        self.assertIn("nobody has asked for this fused multiply-add", found)
        self.assertNotIn("fuses_because_told", found)

    def test_fast_mathematics_is_seen(self):
        for flag in ("-ftz=true", "-prec-div=false", "-prec-sqrt=false"):
            without = tuple(f"{flag.split('=')[0]}={value}" for value in ("true", "false"))
            with self.subTest(flag):
                self.assertIn("is not what the host computes",
                              "\n".join(self.problems(flag, without=without)))

    def test_a_trap_is_seen(self):
        source = self.write("trap.cu", "__global__ void f(int* x) { if (*x > 3) __trap(); }\n")
        found = self.problems(source=source)
        self.assertEqual(len(found), 1, found)
        self.assertIn("trap.cu:1: _Z1fPi: `trap;`: ends the context", found[0])

    def host_fuses(self, *more):
        """On a host that has the instruction, which the build does not ask for."""
        made = self.folder / "probe.o"
        self.succeed(nvcc("-Xcompiler=-mfma", *more, "-c", PROBE, "-o", made))
        return "vfmadd" in self.succeed(run("objdump", "-d", made))

    def test_the_host_fuses_nothing_either(self):
        self.assertFalse(self.host_fuses())
        self.assertTrue(self.host_fuses("-Xcompiler=-ffp-contract=fast"))


HEAD = """.visible .entry _Z1fPf(
  .param .u64 _Z1fPf_param_0
)
{
  .loc  1 2 3
  @%p1 fma.rn.f32   %f3, %f1, %f1, %f2;
  .loc  1 4 3, function_name $L__info_string0, inlined_at 1 9 5
  fma.rn.f32   %f3, %f1, %f1, %f2;
  ret;
}
  .file  1 "/a.cu"
"""


class Reading(unittest.TestCase):
    """What ptx.problems() makes of a text; needs no compiler."""

    def found(self, text, *lines):
        return ptx.problems(text, lambda path: list(lines))

    def test_a_fused_operation_is_accepted_where_its_statement_asks_for_it(self):
        asks = ("", "x = a + __fmaf_rn(a,", "  a, b);", "y = std::fma(x, x, z);")
        self.assertEqual(self.found(HEAD, *asks), [])
        found = self.found(HEAD, "", "x = a * a + b;", "__fmaf_rn(a, a, b);", "y = x * x + z;")
        self.assertEqual([line.split(":")[1] for line in found], ["2", "4"])
        self.assertIn("/a.cu:2: _Z1fPf: `@%p1 fma.rn.f32 %f3, %f1, %f1, %f2;`", found[0])

    def test_a_fused_operation_from_nowhere_is_refused(self):
        self.assertEqual(len(self.found("\tfma.rn.f64 %fd1, %fd1, %fd2, %fd3;\n")), 1)

    def test_what_is_refused(self):
        for code in ("trap;", "@%p2 trap;", "brkpt;", "call.uni __assertfail, (x);",
                     "mul.f32 %f1, %f2, %f3;", "sub.f64 %fd1, %fd2, %fd3;",
                     "add.sat.f32 %f1, %f2, %f3;", "add.rn.ftz.f32 %f1, %f2, %f3;",
                     "div.full.f32 %f1, %f2, %f3;", "rcp.approx.f32 %f1, %f2;",
                     "mad.rn.f32 %f1, %f2, %f3, %f4;", "fma.rn.bf16x2 %r1, %r2, %r3, %r4;"):
            with self.subTest(code):
                self.assertEqual(len(self.found(f"\t{code}\n")), 1)

    def test_what_is_accepted(self):
        for code in ("mul.rn.f32 %f1, %f2, %f3;", "add.s32 %r1, %r2, %r3;",
                     "mad.lo.s32 %r1, %r2, %r3, %r4;", "mul.wide.u32 %rd1, %r1, 4;",
                     "div.rn.f32 %f1, %f2, %f3;", "// trap;", ".entry _Z4trapPf("):
            with self.subTest(code):
                self.assertEqual(self.found(f"\t{code}\n"), [])


if __name__ == "__main__":
    unittest.main()
