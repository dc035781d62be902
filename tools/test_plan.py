#!/usr/bin/env python3
"""The parts of ./test, and their order. Called by ./test, when everything is installed.

    tools/test_plan.py PYTHON [--full]

PYTHON: the one of the virtual environment. --full: the whole conformance product, long fuzzing,
clang-tidy over everything, and nothing is remembered.
"""

import argparse
import os
import pathlib
import sys
import time

sys.dont_write_bytecode = True
import house  # noqa: E402
from part_runner import SECONDS, Part, Runner, gtest_cases, unittest_cases  # noqa: E402

CORES = os.cpu_count() or 1
DEBIAN_PYTHON = "/usr/bin/python3"
LIBRARY = "build/release/libsluice.so"
APPS = ("build/bin/sluice", "build/bin/sluiced", "build/bin/sluice_sim", "build/bin/stream_echo")
PACKAGES = "PyPI's torch and others, in build/venv"
COMPILER = "nvcc of CUDA 13, from PyPI where there is none"
CUDA = "build/release/libsluice_cuda.so"
SOURCES = ("src", "include", "apps", "sim", "cmake", "CMakeLists.txt", "CMakePresets.json")
# What the apps, the libraries and the test binaries are linked from.
RELEASE = ("sluice", "sluice_shared", "sluice_cuda", "sluice_app", "sluiced", "sluice_cli",
           "sluiced_parts")
TEST_LIBRARIES = ("sluice_simulator", "sluice_support", "sluice_sim", "stream_echo", "kernel_bench")
# Statistics and large products of cases: the same code over again, many times.
SAME_CODE = ("*Acceptance*", "LosslessSmall*", "LosslessBytes.One*", "PeelingSuccess*",
             "SketchPatterns*", "LhcLoss*")


def build(name, preset, *targets, after=()):
    return Part(f"build {name} without a warning", ("tools/build", preset, *targets), after=after,
                is_build=True)


def builds(full):
    yield build("release", "release", *RELEASE, after=(COMPILER,))
    # What the part about kernels looks at.
    yield build("PTX of the kernels", "release", "cuda_ptx",
                after=("build release without a warning",))
    yield build("the tests' libraries", "release", *TEST_LIBRARIES,
                after=("build release without a warning",))
    yield build("tests", "tests", "unit_tests", "conformance_tests",
                after=("build the tests' libraries without a warning",))
    yield build("asan", "asan", "unit_tests", "conformance_tests", "fuzzers",
                after=("build tests without a warning",))
    # With that build's commands, because the precompiled headers must be clang's own.
    yield Part("clang-tidy", ("tools/clang_tidy", "build/asan", *(["--all"] if full else [])),
               after=("build asan without a warning",), is_build=True)
    yield build("tsan", "tsan", "thread_tests", after=("clang-tidy",))
    if full:
        yield build("guided fuzzers", "fuzz", "fuzzers",
                    after=("build tsan without a warning",))


def packages(python):
    yield Part(COMPILER, ("bash", "-c", "source tools/setup.sh && cuda_compiler"))
    folder = os.path.dirname(os.path.dirname(python))
    yield Part(PACKAGES, ("bash", "-c", f'source tools/setup.sh && python_environment {folder}'
                          ' "which the package is tested with" "${PYTHON_PACKAGES[@]}"'))


def house_rules():
    released = ("build the tests' libraries without a warning",)
    yield Part("tools check themselves",
               ("python3", "-m", "unittest", "discover", "tools/tests"), unittest_cases,
               inputs=("tools", "docs", "README.md", "src", "apps", "sim", "python"))
    yield Part("layers point one way", ("tools/layers",),
               inputs=("tools", *SOURCES, "tests", "bench"))
    yield Part("style limits", ("tools/tidy",))
    yield Part("every header compiles alone", ("tools/headers", "build/release"), after=released,
               inputs=("tools", *SOURCES, "tests", "bench"))


def c_plus_plus(full):
    product = (("SLUICE_CONFORMANCE", "full" if full else "pairwise"),)
    if full:
        product += (("SLUICE_SIM_SEEDS", "10000"),)
    data = ("tests/data", "src/codec/tide/golden")
    after = ("build tests without a warning",)
    yield Part("unit tests", ("build/bin/unit_tests",), gtest_cases, after, shards=CORES,
               inputs=("build/bin/unit_tests", *data), environment=product)
    yield Part("conformance", ("build/bin/conformance_tests",), gtest_cases, after, shards=CORES,
               inputs=("build/bin/conformance_tests", *data), environment=product)
    asan = ("build asan without a warning",)
    yield Part("unit tests under asan",
               ("build/asan/unit_tests", "--gtest_filter=-" + ":".join(SAME_CODE)), gtest_cases,
               asan, shards=CORES, inputs=("build/asan/unit_tests", *data), environment=product)
    yield Part("conformance under asan", ("build/asan/conformance_tests",), gtest_cases, asan,
               shards=CORES, inputs=("build/asan/conformance_tests", *data), environment=product)
    yield Part("fuzzers replay their corpora", ("tools/fuzz", "build/asan/fuzzers"), after=asan,
               inputs=("tools/fuzz", "build/asan/fuzzers", "tests/corpus"))
    if full:
        yield Part("fuzzers, for an hour",
                   ("tools/fuzz", "build/fuzz/fuzzers", "--seconds", "3600"),
                   after=("build guided fuzzers without a warning",))
    yield Part("threads under tsan", ("build/tsan/thread_tests",), gtest_cases,
               ("build tsan without a warning",), shards=CORES,
               inputs=("build/tsan/thread_tests", *data), environment=product)


def cuda():
    yield Part("CUDA kernels compile; their PTX has no trap, no fma",
               ("tests/cuda/run", "build/release"), unittest_cases,
               ("build PTX of the kernels without a warning",),
               inputs=(CUDA, "build/release/libsluice.a", "build/release/cuda/*.ptx",
                       "build/release/cuda/build.json", *SOURCES, "tests/cuda"))


def apps(python):
    released = ("build release without a warning",)
    with_sim = ("build the tests' libraries without a warning",)
    yield Part("install and find_package", ("tests/install/run", "build/release"), after=released,
               inputs=(LIBRARY, CUDA, "build/release/libsluice.a", *SOURCES, "tests/install",
                       "examples"))
    # The names by which the release build called the compilers, so that ccache knows the objects.
    defines = ("SLUICE_CUDA=ON", "SLUICE_CUDA_ARCHITECTURES=90")
    yield Part("wheel", ("env", "CC=gcc", "CXX=g++", "tests/install/wheel", python,
                         "--no-build-isolation",
                         *(f"--config-settings=cmake.define.{d}" for d in defines)),
               after=(*released, PACKAGES),
               inputs=(*SOURCES, "python", "pyproject.toml", "tests/install"))
    yield Part("benchmarks run", ("build/bin/kernel_bench", "--benchmark_min_time=0.001"),
               after=with_sim, inputs=("build/bin/kernel_bench",),
               environment=(("SLUICE_BENCH_COUNT", "65536"),))
    yield Part("command line", ("tests/cli/run", "build/bin/sluice"), unittest_cases, with_sim,
               inputs=(*APPS, LIBRARY, "tests/cli", "tests/decoder", "tests/data", "docs", "tools",
                       "src/codec/*/README.md"))
    yield Part("lab", ("tests/lab/run",), unittest_cases, released,
               inputs=(*APPS[:2], "tools", "tests/lab"))


def torch(python):
    released = ("build release without a warning", PACKAGES)
    package = (LIBRARY, "python", "tools/setup.sh")
    whole = (*package, *APPS[:2], "tests/recipes", "tests/training", "bench", "tools", "examples",
             "docs", "README.md", "include")
    yield Part("package with the current torch", ("python/tests/run", python, "-v"), unittest_cases,
               released, inputs=package)
    yield Part("guides and examples", ("tests/recipes/run", python), unittest_cases, released,
               inputs=whole)
    # What takes time there are waits for ranks that fail, which the torch above has waited for.
    yield Part("package with Debian's torch",
               ("python/tests/run", DEBIAN_PYTHON, "-v", "-k", "test_core", "-k", "test_torch.",
                "-k", "test_resume"), unittest_cases, released, inputs=package)
    yield Part("training lab", ("tests/training/run",), unittest_cases, released, inputs=whole)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("python")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    root, started = house.ROOT, time.monotonic()
    # Long ones first, so that the last minutes have something to do.
    parts = [*packages(arguments.python), *builds(arguments.full), *torch(arguments.python),
             *apps(arguments.python), *cuda(), *house_rules(), *c_plus_plus(arguments.full)]
    runner = Runner(parts, root, root / "build" / "test-logs", remembers=not arguments.full,
                    seconds=4 * 3600 if arguments.full else SECONDS)
    bad = runner.run()
    outcomes = runner.outcomes.values()
    if bad:
        print("\nFailed:\n" + "\n".join(f"   {part.name}" for part in bad))
    print(f"\n{time.monotonic() - started:.0f} seconds, {sum(o.cores for o in outcomes):.0f}"
          f" core-seconds on {CORES} cores")
    print(f"{sum(o.passed for o in outcomes)} passed, {sum(o.failed for o in outcomes)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
