"""Each house rule goes red on a planted violation and stays green on the clean tree.

    python3 -m unittest discover tools/tests
"""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import functions  # noqa: E402
import house  # noqa: E402
from tree_kit import PURPOSE, TreeTest, header  # noqa: E402

class Layers(TreeTest):
    tool = "layers"
    clean = {
        "include/sluice/sluice.h": header("#include <stdint.h>"),
        "include/sluice/sluice.hpp": header('#include "sluice/sluice.h"'),
        "src/base/result.h": header("#include <variant>"),
        "src/kernels/lanes/lanes.h": header('#include "base/result.h"'),
        "src/kernels/hadamard/hadamard.cc": '#include "kernels/lanes/lanes.h"\n',
        "src/device/device_table.h": header('#include "kernels/lanes/lanes.h"'),
        "src/cuda/sum.cuh": header('#include "kernels/lanes/lanes.h"', "#include <cuda_runtime.h>"),
        "src/cuda/table.cu": '#include "cuda/sum.cuh"\n#include "device/device_table.h"\n',
        "src/round/round.h": header('#include "kernels/lanes/lanes.h"',
                                    '#include "device/device_table.h"'),
        "src/codec/codec.h": header('#include "round/round.h"', '#include "base/result.h"'),
        "src/codec/fixed/fixed.h": header('#include "codec/codec.h"'),
        "src/codec/fixed/fixed_test.cc":
            '#include "codec/fixed/fixed.h"\n#include "tests/support.h"\n',
        "src/codec/topk/topk.h": header('#include "codec/codec.h"'),
        "src/feedback/feedback.h": header('#include "codec/codec.h"'),
        "src/control/control.h": header('#include "codec/codec.h"'),
        "src/wire/frame.h": header('#include "round/round.h"'),
        "src/protocol/worker.h": header('#include "wire/frame.h"'),
        "src/carrier/link.h": header('#include "protocol/worker.h"'),
        "src/carrier/local/local.h": header('#include "carrier/link.h"'),
        "src/carrier/stream/stream.h": header('#include "carrier/link.h"'),
        "src/catalog/catalog.h": header('#include "codec/fixed/fixed.h"',
                                        '#include "carrier/local/local.h"'),
        "src/group/group.h": header('#include "catalog/catalog.h"', '#include "wire/frame.h"'),
        "src/abi/abi.cc": '#include <sluice/sluice.h>\n#include "group/group.h"\n',
        "apps/shared/streams.h": header("#include <vector>"),
        "apps/sluice/npy.h": header("#include <vector>", '#include "apps/shared/streams.h"'),
        "apps/sluice/main.cc": '#include "npy.h"\n#include "apps/sluice/npy.h"\n'
                               '#include "group/group.h"\n#include <sluice/sluice.hpp>\n',
        "apps/sluiced/main.cc": '#include "carrier/stream/stream.h"\n#include "group/group.h"\n'
                                '#include "apps/shared/streams.h"\n',
        "sim/network.h": header('#include "protocol/worker.h"', '#include "codec/codec.h"'),
        "tests/support.h": header('#include "abi/abi.cc"', '#include "apps/sluice/npy.h"'),
        "bench/all.cc": '#include "group/group.h"\n#include "sim/network.h"\n',
    }

    def red(self, files, *expected):
        self.write(self.clean | files)
        code, output = self.run_tool(self.root)
        self.assertEqual(code, 1, output)
        for text in expected:
            self.assertIn(text, output)
        self.assertIn(f"layers: {len(expected)} violations", output)

    def test_clean_tree_is_green(self):
        self.write(self.clean)
        code, output = self.run_tool(self.root)
        self.assertEqual(code, 0, output)
        self.assertIn("layers: 0 violations", output)

    def test_upward_include(self):
        self.red({"src/round/up.cc": '#include "round/round.h"\n#include "codec/codec.h"\n'},
                 "src/round/up.cc:2: layer round may not include codec/codec.h of layer codec"
                 " (accepted: kernels, device, base)")

    def test_every_forbidden_arrow(self):
        wrong = {
            "src/base/a.cc": "sluice/sluice.h",
            "src/kernels/lanes/a.cc": "round/round.h",
            "src/device/a.cc": "round/round.h",
            "src/device/b.cc": "cuda/sum.cuh",
            "src/cuda/a.cu": "round/round.h",
            "src/round/a.cc": "cuda/sum.cuh",
            "src/codec/a.cc": "codec/fixed/fixed.h",
            "src/codec/fixed/a.cc": "feedback/feedback.h",
            "src/feedback/a.cc": "control/control.h",
            "src/wire/a.cc": "codec/codec.h",
            "src/protocol/a.cc": "codec/codec.h",
            "src/carrier/a.cc": "carrier/local/local.h",
            "src/carrier/local/a.cc": "codec/codec.h",
            "src/group/a.cc": "sluice/sluice.h",
            "src/abi/a.cc": "apps/sluice/npy.h",
            "apps/shared/a.cc": "round/round.h",
            "apps/shared/b.cc": "apps/sluice/npy.h",
            "apps/sluice/a.cc": "sim/network.h",
            "apps/sluiced/a.cc": "codec/fixed/fixed.h",
            "apps/sluiced/b.cc": "apps/sluice/npy.h",
            "sim/a.cc": "carrier/local/local.h",
            "bench/a.cc": "apps/sluice/npy.h",
            "src/wire/a_test.cc": "protocol/worker.h",
        }
        self.red({p: f'#include "{name}"\n' for p, name in wrong.items()},
                 *(f"{p}:1: layer " for p in wrong))

    def test_codec_to_codec(self):
        self.red({"src/codec/topk/a.cc": '#include "codec/fixed/fixed.h"\n'},
                 "src/codec/topk/a.cc:1: layer codec/topk may not include")

    def test_carrier_to_carrier(self):
        self.red({"src/carrier/stream/a.cc": '#include "carrier/local/local.h"\n'},
                 "src/carrier/stream/a.cc:1: layer carrier/stream may not include")

    def test_angle_brackets_hide_nothing(self):
        self.red({"src/base/a.cc": "#include <round/round.h>\n"}, "src/base/a.cc:1: layer base")

    def test_only_tests_use_test_support(self):
        self.red({"src/wire/a.cc": '#include "tests/support.h"\n'}, "src/wire/a.cc:1: layer wire")

    def test_cycle(self):
        self.red({"src/base/a.h": header('#include "base/b.h"'),
                  "src/base/b.h": header('#include "base/c.h"'),
                  "src/base/c.h": header('#include "base/a.h"')},
                 "src/base/c.h:3: headers include each other: src/base/a.h -> src/base/b.h ->"
                 " src/base/c.h -> src/base/a.h")

    def test_header_that_includes_itself(self):
        self.red({"src/base/a.h": header('#include "base/a.h"')}, "headers include each other")

    def test_missing_file(self):
        self.red({"src/base/a.cc": '#include "base/gone.h"\n'},
                 'src/base/a.cc:1: "base/gone.h" does not exist')

    def test_missing_public_file(self):
        self.red({"src/abi/a.cc": "#include <sluice/gone.h>\n"}, '"sluice/gone.h" does not exist')

    def test_dots(self):
        self.red({"src/base/x/a.cc": '#include "../result.h"\n'}, "src/base/x/a.cc:1: '..' in")

    def test_unknown_layer(self):
        self.red({"src/util/a.cc": "", "src/b.cc": "", "apps/other/c.cc": ""},
                 "src/util/a.cc:1: belongs to no known layer", "src/b.cc:1: belongs",
                 "apps/other/c.cc:1: belongs")

    def test_comments_and_strings_are_not_includes(self):
        self.write(self.clean | {"src/base/a.cc":
                   '// #include "gone.h"\n/*\n#include "gone.h"\n*/\n'
                   'auto s = R"(\n#include "gone.h"\n)";\n'})
        self.assertEqual(self.run_tool(self.root)[0], 0)

    def test_empty_tree_is_red(self):
        self.assertEqual(self.run_tool(self.root)[0], 1)


def function(lines, signature="int f() {"):
    """A function of so many lines, signature and closing brace counted."""
    return signature + "\n" + "  g();\n" * (lines - 2) + "}\n"


class FunctionFinder(unittest.TestCase):
    def found(self, text):
        code, _ = house.split(text)
        return [(f.name, f.lines) for f in functions.find(code)]

    def test_signatures(self):
        body = " {\n  if (a) { b(); }\n  auto l = [&] { return S{1}; };\n}\n"
        for signature, name in (
                ("int f()", "f"),
                ("void A::f(int x) const noexcept", "f"),
                ("auto f(int a, int b = g({1})) -> std::function<int(int)>", "f"),
                ("template <class T = B<(1 > 2)>> requires C<T> void f(T t)", "f"),
                ("template <class T> void f(T t) requires (sizeof(T) == 4)", "f"),
                ("template <class T> void f(T t) requires requires(T u) { u.x(); }", "f"),
                ("A::A(int a) : a_{a}, b_(a), C<int>{a}, l_{[] { return 1; }}", "A"),
                ("A::A(T... t) : T(t)...", "A"),
                ("A::~A() noexcept(noexcept(x()))", "A"),
                ("bool operator==(const A& a, const A& b)", "operator"),
                ("bool operator<(const A& a, const A& b)", "operator"),
                ("int A::operator()(int x) const", "operator"),
                ("T* A::operator->() const", "operator"),
                ("struct stat f(int x)", "f"),
                ("std::function<void()> f()", "f"),
                ("[[nodiscard]] constexpr int f()", "f"),
                ('extern "C" int f(void)', "f"),
                ("int f() SLUICE_REQUIRES(mutex_)", "f"),
                ("__global__ void __launch_bounds__(256) f(int* x)", "f"),
                ("TEST(Suite, NameIsASentence)", "TEST"),
                ("int main() try", "main"),
                ("inline constexpr auto kTable = [](int n) -> int", "lambda")):
            with self.subTest(signature):
                self.assertEqual(self.found(signature + body + ";int x;\n"), [(name, 4)])

    def test_what_is_no_function(self):
        for text in ("int a[] = {\n1,\n2};", "constexpr std::array<int, 2> k{\n1,\n2};",
                     "alignas(64) constexpr std::array<int, 2> k{\n1,\n2};",
                     "enum class E {\na\n};",
                     "struct alignas(64) A : B<decltype(f())> {\nint x;\n};",
                     "class SLUICE_EXPORT(x) A final {\n};", "namespace a::b {\n}",
                     'extern "C" {\nint f(void);\n}', "concept C = requires(T t) {\nt.f();\n};",
                     "std::function<int(int)> f{\ng};",
                     "INSTANTIATE(A, [](int i) {\nreturn i;\n});",
                     "#define M(x) \\\n  void x() { \\\n  }\n", "struct A a = {\n.x = f(),\n};",
                     "#define M(x) \\\n  \"two \\\nlines\" \\\n  void x() {\n"):
            with self.subTest(text):
                self.assertEqual(self.found(text), [])

    def test_members_and_namespaces(self):
        text = ("namespace {\nclass A : public B {\n public:\n  A() : x_{1} {}\n  int f() const {\n"
                "    return x_;\n  }\n private:\n  int x_ = {2};\n  struct C { void g() {} };\n"
                "};\n}\nvoid h() {\n}\n")
        self.assertEqual(self.found(text), [("A", 1), ("f", 3), ("g", 1), ("h", 2)])

    def test_macros_without_semicolon_are_not_counted(self):
        self.assertEqual(self.found("FOREACH(A, B)\nEXPORT(C)\nvoid f() {\n}\n"), [("f", 2)])

    def test_literals_do_not_confuse(self):
        text = ("void f() {\n  auto a = R\"x(}}}\n{ \" )y\" )x\";\n  auto b = \"}\\\"}\";\n"
                "  auto c = '}'; auto d = '\\''; auto e = 1'000'000;  // }\n  /* } */\n}\n"
                "void g() {\n}\n")
        self.assertEqual(self.found(text), [("f", 7), ("g", 2)])

    def test_conditional_braces(self):
        text = ("#if A\nvoid f(int a) {\n#else\nvoid f() {\n#endif\n#if B\n  if (b) {\n#else\n"
                "  if (c) {\n#endif\n  }\n}\nvoid g() {\n}\n")
        self.assertEqual([name for name, _ in self.found(text)], ["f", "g"])


class Tidy(TreeTest):
    tool = "tidy"

    def green(self, files, *arguments):
        self.write(files)
        code, output = self.run_tool(self.root, "--no-ratios", *arguments)
        self.assertEqual(code, 0, output)
        self.assertIn("tidy: 0 violations", output)

    def red(self, path, text, *expected):
        self.write({path: text})
        code, output = self.run_tool(self.root, "--no-ratios")
        self.assertEqual(code, 1, output)
        for part in expected:
            self.assertIn(f"{path}:{part}", output)
        self.assertIn(f"tidy: {len(expected)} violations", output)

    def test_clean_tree_is_green(self):
        self.green({"src/base/a.h": header("int f();"), "src/base/a.cc": function(70),
                    "tools/script": "#!/bin/sh\n", "docs/style.md": "FIX" "ME\t \n"})

    def test_text(self):
        self.red("src/base/a.cc", "int a;\n//" + "x" * 99 + "\n\tint b;\nint c; \nint d;",
                 "2: line of 101 columns, limit 100", "3: tab", "4: trailing white space",
                 "5: no newline at end of file")

    def test_columns_are_characters(self):
        self.green({"src/base/a.cc": "//" + "÷" * 98 + "\n"})

    def test_known_fault_in_a_comment(self):
        self.red("tests/a.cc", "// FIX" "ME: wrong.\n", "1: FIX" "ME")

    def test_long_files(self):
        self.green({"src/base/a.cc": "int a;\n" * 500, "src/base/a_test.cc": "int a;\n" * 700})
        self.red("src/base/a.cc", "int a;\n" * 501, "501: source file of 501 lines, limit 500")

    def test_long_test_file(self):
        self.red("tests/a.cc", "int a;\n" * 701, "701: test file of 701 lines, limit 700")

    def test_long_function(self):
        self.red("src/base/a.cc", "int x;\n" + function(80),
                 "2: function f of 80 lines, limit 70")

    def test_function_limit_is_exact(self):
        self.red("src/base/a.cc", function(71), "1: function f of 71 lines")

    def test_long_test_body(self):
        self.red("src/base/a_test.cc", function(80, "TEST(A, B) {"), "1: function TEST of 80")

    def test_long_method_with_initialisers(self):
        signature = 'struct A {\n  A()\n  : a_{1}, s_(R"({{)") {'
        self.red("src/base/a.cc", function(80, signature) + "};\n", "2: function A of 81 lines")

    def test_lambdas_and_raw_strings_in_a_short_function(self):
        text = function(70, 'void f() { auto a = [&](int x) { return R"(}{{)"; };')
        self.green({"src/base/a.cc": text + text})

    def test_excused_function(self):
        excuse = "// tidy: long because one kernel is one function.\n"
        self.green({"src/base/a.cu": excuse + function(80),
                    "src/base/b.cc": excuse + "// More.\ntemplate <class T>\n" + function(80),
                    "src/base/c.cc": function(80, "int f() {  " + excuse.rstrip())})

    def test_excuse_without_reason_or_elsewhere(self):
        self.red("src/base/a.cc", "// tidy: long because\n" + function(80), "2: function f")
        self.red("src/base/a.cc", "// tidy: long because x\n\n" + function(80), "3: function f")

    def test_banned_words(self):
        for path, text in (
                ("src/base/a.cc", "void f() { std::cout << 1; }"),
                ("src/base/a.cc", "void f() { std::printf(x); }"),
                ("apps/sluice/main.cc", "void f() { fprintf (x, y); }"),
                ("apps/sluice/main.cc", "void f() { puts(x); }"),
                ("src/base/a.cc", "int f() { return rand(); }"),
                ("src/base/a_test.cc", "void f() { srand(1); }"),
                ("src/base/a.cc", "std::random_device d;"),
                ("src/base/a.cc", "std::mt19937 g;"),
                ("src/base/a.cc", "std::mt19937_64 g;"),
                ("src/base/a.cc", "using C = std::chrono::system_clock;"),
                ("src/carrier/local/a.cc", "void f() { std::this_thread::sleep_for(x); }"),
                ("src/group/a_test.cc", "void f() { std::this_thread::sleep_for(x); }"),
                ("tests/a.cc", "void f() { usleep(1); }"),
                ("src/base/a.cc", "int* f() { return new int; }"),
                ("src/base/a.cc", "void f(int* x) { delete x; }"),
                ("src/base/a.cc", "void f(int* x) { delete[] x; }"),
                ("src/base/a.cc", "void f() { throw 1; }"),
                ("src/cuda/a.cu", "float f(float x) { return __expf(x); }"),
                ("src/cuda/a.cuh", PURPOSE + "float f(float x) { return __fdividef(x, 3); }"),
                ("src/kernels/warp/a.cc", "void f() { __trap(); }"),
                ("src/cuda/a.cu", "void f() { printf(x); }"),
                ("src/base/a.cc", "#include <iostream>")):
            with self.subTest(text):
                self.red(path, text + "\n", f"{1 + text.count(chr(10))}: ")
                (self.root / path).unlink()

    def test_casts_of_wire_bytes(self):
        assertion = "static_assert(true);\n"
        for path in ("src/wire/a.cc", "src/protocol/a.cc"):
            self.red(path, assertion + "auto* x = reinterpret_cast<int*>(y);\n", "2: reinterpret")
            (self.root / path).unlink()
        self.green({"src/base/a.cc": "auto* x = reinterpret_cast<int*>(y);\n"})

    def test_using_namespace_in_a_header(self):
        self.red("src/base/a.h", header("using namespace std;"), "3: using namespace")

    def test_allowed_words(self):
        self.green({
            "src/base/a.cc":
                "#include <new>\n// new, delete, throw, rand(), std::cout\n"
                'const char* s = "printf(new)";\nstruct A { A(const A&) = delete;\n'
                "  void* operator new(std::size_t); };\nvoid f(void* p) { ::new (p) int; }\n"
                "void g(char* b) { snprintf(b, 1, s); }\nusing namespace std;\nint operand(int);\n",
            "src/base/a_test.cc": "#include <iostream>\nstd::mt19937 g;\nauto* x = new int;\n",
            "src/base/a_bench.cc": "void f() { printf(x); }\n",
            "src/cuda/a_bench.cu": "void f() { printf(x); }\n",
            "src/cuda/a.cu": "float f(float x) { return __fmaf_rn(x, x, expf(x)); }\n",
            "src/group/a.cc": "void f() { std::this_thread::sleep_for(x); }\n",
            "apps/sluice/terminal.cc": "void f() { std::printf(x); }\n",
        })

    def test_header_without_pragma(self):
        self.red("src/base/a.h", "// What it is for.\nint f();\n#pragma once\n",
                 "2: header does not begin with #pragma once")

    def test_header_without_purpose(self):
        self.red("tests/a.h", "#pragma once\n" + "int f();\n" * 5 + "// Late.\n", "1: no comment")

    def test_header_forms(self):
        self.green({"src/base/a.h": "// Purpose.\n\n#pragma once\nint f();\n",
                    "src/base/b.h": "/* Purpose. */\n#pragma once\n",
                    "src/kernels/x/x-inl.h": "// Purpose.\n#if defined(A) == defined(B)\n#endif\n"})

    def test_assertions(self):
        enough = "SLUICE_ASSERT(x);\nstatic_assert(y);\n" + "int a;\n" * 98
        self.green({"src/wire/a.cc": enough, "src/protocol/a.cc": enough})
        self.write({"src/wire/a.cc": "SLUICE_DASSERT(x);  // SLUICE_ASSERT(y)\n" + "int a;\n" * 99})
        code, output = self.run_tool(self.root, "--no-ratios")
        self.assertEqual(code, 1)
        self.assertIn("src/wire:1: 10.0 assertions per 1000 lines, limit 20", output)

    def ratio(self, files):
        self.write({p: "int a;\n" * n for p, n in files.items()})
        return self.run_tool(self.root)

    def test_ratios_green(self):
        code, output = self.ratio({
            "src/base/a.cc": 100, "src/base/a_test.cc": 50, "src/codec/fixed/a.cc": 100,
            "src/codec/b_fuzz.cc": 50, "tests/c.cc": 50, "src/base/a_bench.cc": 400,
            "src/round/a.cc": 0, "bench/b.cc": 400})
        self.assertEqual(code, 0, output)
        self.assertIn("tests/library 0.75 (base 0.50, codec 0.50, round -)", output)

    def test_ratio_overall(self):
        code, output = self.ratio({"src/base/a.cc": 100, "src/base/a_test.cc": 74})
        self.assertEqual(code, 1)
        self.assertIn("src:1: 74 test lines to 100 library lines = 0.74, limit 0.75", output)
        self.assertEqual(self.run_tool(self.root, "--no-ratios")[0], 0)

    def test_ratio_of_a_folder(self):
        code, output = self.ratio({"src/base/a.cc": 100, "src/base/a_test.cc": 49,
                                   "tests/c.cc": 200, "src/round/a.cc": 59})
        self.assertEqual(code, 1)
        self.assertIn("src/base:1: 49 test lines", output)
        self.assertIn("tidy: 1 violations", output)

    def test_empty_tree_is_red(self):
        self.assertEqual(self.run_tool(self.root)[0], 1)


@unittest.skipUnless(shutil.which("g++") and shutil.which("gcc"), "needs g++ and gcc")
class Headers(TreeTest):
    tool = "headers"

    def check(self):
        return self.run_tool(self.root / "build", "--root", self.root)

    def test_green_then_remembered_then_red(self):
        self.write({
            "include/sluice/sluice.h": header("int sluice_version(void);"),
            "src/base/a.h": header("#include <cstddef>", "inline std::size_t a() { return 1; }"),
            "src/base/b.h": header('#include "base/a.h"', '#include "sluice/sluice.h"'),
            "src/base/c-inl.h": "not C++\n", "src/base/d.cuh": "not C++\n",
        })
        code, output = self.check()
        self.assertEqual(code, 0, output)
        self.assertIn("headers: 0 failed of 4, 0 remembered", output)
        self.assertIn("headers: 0 failed of 4, 4 remembered", self.check()[1])
        self.write({"src/base/a.h": header("inline std::size_t a() { return 1; }")})
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("--- src/base/a.h (c++20)", output)
        self.assertIn("headers: 2 failed of 4, 0 remembered", output)
        self.assertIn("headers: 2 failed of 4, 2 remembered", self.check()[1])

    def test_public_header_is_c(self):
        self.write({"include/sluice/sluice.h": header("inline bool f() { return true; }")})
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("--- include/sluice/sluice.h (c99)", output)
        self.assertIn("1 failed of 2", output)

    def test_foreign_folders_come_from_the_build(self):
        self.write({"src/base/a.h": header("#include <foreign.h>"),
                    "third/include/foreign.h": "#pragma once\n"})
        self.assertEqual(self.check()[0], 1)
        commands = [{"directory": str(self.root / "build"), "file": "a.cc",
                     "command": "c++ -isystem ../third/include -c a.cc"}]
        self.write({"build/compile_commands.json": json.dumps(commands)})
        code, output = self.check()
        self.assertEqual(code, 0, output)


class Files(TreeTest):
    def test_walk_leaves_out_builds(self):
        self.write({"src/a.cc": "", "build/b.cc": "", "build-debug/c.cc": "", ".git/d.cc": "",
                    "src/builder/e.cc": ""})
        self.assertEqual(list(house.files(self.root)), ["src/a.cc", "src/builder/e.cc"])

    @unittest.skipUnless(shutil.which("git"), "needs git")
    def test_git_leaves_out_what_is_ignored_or_deleted(self):
        self.write({"a.cc": "", "b.cc": "", "c.cc": "", ".gitignore": "b.cc\n"})
        for command in (["init", "-q"], ["add", "a.cc"]):
            subprocess.run(["git", "-C", str(self.root), *command], check=True)
        (self.root / "a.cc").unlink()
        self.assertEqual(house.files(self.root), [".gitignore", "c.cc"])


if __name__ == "__main__":
    unittest.main()
