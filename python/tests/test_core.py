"""The package without a framework: values, kinds of arrays, errors, what sluice.info says.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python -m unittest -v \
        python/tests/test_core.py
"""

import array
import copy
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import sluice
from sluice import _library, info

try:
    import torch
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).parents[2]
WORKERS = 4
U32 = 2.0**-24  # Half a unit in the last place of 1: what one rounding to float32 may lose.


def gradients(shape=(1000,), workers=WORKERS, dtype=np.float32, seed=1):
    draws = np.random.default_rng(seed)
    return [draws.standard_normal(shape).astype(dtype) for _ in range(workers)]


def rank_order_mean(arrays):
    """As f32 computes it: float32 sums in order of rank, divided once."""
    total = arrays[0].astype(np.float32)
    for values in arrays[1:]:
        total = (total + values.astype(np.float32)).astype(np.float32)
    return total / np.float32(len(arrays))


def exact_mean(arrays):
    return np.mean([values.astype(np.float64) for values in arrays], axis=0)


def float32_bound(arrays):
    """Of a float32 sum in any order and one scaling: (n - 1 sums + 1 division) roundings."""
    energy = np.sum([np.abs(values.astype(np.float64)) for values in arrays], axis=0)
    n = len(arrays)
    return n * U32 / (1 - n * U32) * energy / n + np.finfo(np.float32).smallest_subnormal


def nmse(mean, arrays):
    """Error energy over the workers' mean energy."""
    error = np.sum((mean.astype(np.float64) - exact_mean(arrays))**2)
    return error / np.mean([np.sum(values.astype(np.float64)**2) for values in arrays])


class Values(unittest.TestCase):
    def test_f32_is_the_sum_in_order_of_rank(self):
        for workers in (1, 2, 3, 4, 7, 8):
            arrays = gradients(workers=workers)
            mean = sluice.reduce(arrays, "f32")
            np.testing.assert_allclose(mean, rank_order_mean(arrays), rtol=2 * U32, atol=0)
            error = np.abs(mean.astype(np.float64) - exact_mean(arrays))
            self.assertTrue(np.all(error <= float32_bound(arrays)), workers)

    def test_power_of_two_workers_are_bit_exact(self):
        for workers in (1, 2, 4, 8):
            arrays = gradients(workers=workers)
            np.testing.assert_array_equal(sluice.reduce(arrays, "f32"), rank_order_mean(arrays))

    def test_dense_codecs_keep_their_bounds(self):
        # |mean of errors|^2 <= mean of |error|^2, so relative errors per value bound the nmse: one
        # rounding of each value, float32 sums, one rounding of the sum, of unit u.
        arrays = gradients((50_000,))
        sums = WORKERS * U32 / (1 - WORKERS * U32)
        for name, u in (("f32", 0.0), ("bf16", 2.0**-8), ("fp16", 2.0**-11)):
            bound = ((1 + u) * (1 + sums) * (1 + u) - 1)**2
            self.assertLessEqual(nmse(sluice.reduce(arrays, name), arrays), bound, name)

    def test_every_codec_says_more_than_nothing(self):
        # That the right arrays arrive; the conformance tests hold each codec to its own bound.
        dense = gradients((50_000,))
        few = np.random.default_rng(2).random(50_000) < 0.02
        thin = [np.where(few, array, 0).astype("f4") for array in dense]
        for name in sluice.codecs():
            arrays = thin if name == "lhc" else dense  # which is for little else
            nothing = nmse(np.zeros(50_000), arrays)
            self.assertLess(nmse(sluice.reduce(arrays, name), arrays), nothing, name)

    def test_the_default_is_tide_with_4_bits(self):
        arrays = gradients()
        np.testing.assert_array_equal(sluice.reduce(arrays), sluice.reduce(arrays, "tide:bits=4"))

    def test_more_bits_are_nearer(self):
        arrays = gradients((20_000,))
        errors = [nmse(sluice.reduce(arrays, f"tide:bits={bits}"), arrays) for bits in (1, 2, 4)]
        self.assertGreater(errors[0], errors[1])
        self.assertGreater(errors[1], errors[2])

    def test_seed_and_step_name_the_randomness(self):
        arrays = gradients()
        base = sluice.reduce(arrays, seed=5, step=9)
        np.testing.assert_array_equal(base, sluice.reduce(arrays, seed=5, step=9))
        self.assertFalse(np.array_equal(base, sluice.reduce(arrays, seed=6, step=9)))
        self.assertFalse(np.array_equal(base, sluice.reduce(arrays, seed=5, step=10)))
        sluice.reduce(arrays, seed=2**64 - 1, step=2**64 - 1)

    def test_arguments_stay_as_they_are(self):
        arrays = gradients()
        before = [values.copy() for values in arrays]
        mean = sluice.reduce(arrays, "f32")
        mean[:] = 0
        np.testing.assert_array_equal(arrays, before)


class Kinds(unittest.TestCase):
    def test_shapes_are_kept(self):
        for shape in ((), (1,), (0,), (3, 0, 2), (7,), (5, 6), (2, 3, 4, 5)):
            arrays = gradients(shape) if shape else [np.float32(i) + np.zeros((), "f4")
                                                     for i in range(WORKERS)]
            mean = sluice.reduce(arrays, "f32")
            self.assertEqual(mean.shape, shape)
            np.testing.assert_array_equal(mean, rank_order_mean(arrays))

    def test_other_floats_are_converted_and_come_back(self):
        for dtype in (np.float16, np.float64, ">f4", ">f8"):
            arrays = gradients(dtype=dtype)
            mean = sluice.reduce(arrays, "f32")
            self.assertEqual(mean.dtype, np.dtype(dtype).newbyteorder("="))
            np.testing.assert_array_equal(mean, rank_order_mean(arrays).astype(dtype))

    def test_float64_beyond_float32_is_infinite(self):
        with np.errstate(over="ignore"):
            mean = sluice.reduce([np.array([1e300]), np.array([1e300])], "f32")
        self.assertEqual(mean[0], np.inf)

    def test_non_contiguous_and_read_only_arrays_work(self):
        wide = gradients((40, 60))
        for view in (lambda a: a.T, lambda a: a[::2, ::3], lambda a: a[::-1], lambda a: a[:, 5]):
            arrays = [view(values) for values in wide]
            for values in arrays:
                values.flags.writeable = False
            np.testing.assert_array_equal(sluice.reduce(arrays, "f32"), rank_order_mean(arrays))

    def test_misaligned_arrays_work(self):
        raw = [np.concatenate([[np.uint8(0)], values.view(np.uint8)]) for values in gradients()]
        arrays = [values[1:].view(np.float32) for values in raw]
        self.assertFalse(arrays[0].flags.aligned)
        np.testing.assert_array_equal(sluice.reduce(arrays, "f32"), rank_order_mean(gradients()))

    def test_sequences_buffers_rows_and_generators_work(self):
        rows = np.array([[1, 2, 3], [3, 4, 8]], np.float32)
        wanted = np.array([2, 3, 5.5], np.float32)
        for arrays in (rows, list(rows), tuple(rows), (row for row in rows), rows.tolist(),
                       [array.array("f", row) for row in rows],
                       [memoryview(row) for row in rows]):
            mean = sluice.reduce(arrays, "f32")
            self.assertIsInstance(mean, np.ndarray)
            np.testing.assert_array_equal(mean, wanted)

    def test_an_unknown_library_gets_its_own_kind_back(self):
        mean = sluice.reduce([Foreign(values) for values in gradients()], "f32")
        self.assertIsInstance(mean, Foreign)
        np.testing.assert_array_equal(mean.values, rank_order_mean(gradients()))

    def test_an_object_with_array_alone_gives_numpy(self):
        mean = sluice.reduce([OnlyArray(values) for values in gradients()], "f32")
        self.assertIsInstance(mean, np.ndarray)
        np.testing.assert_array_equal(mean, rank_order_mean(gradients()))

    def test_an_array_on_another_device_is_refused(self):
        foreign = Foreign(gradients()[0])
        foreign.device = (2, 1)
        with self.assertRaisesRegex(ValueError, r"arrays\[0\] is on DLPack device \(2, 1\).*host"):
            sluice.reduce([foreign], "f32")


class Foreign:
    """An array of a library that knows DLPack and nothing of NumPy."""

    device = (1, 0)

    def __init__(self, values):
        self.values = values

    @property
    def dtype(self):
        return self.values.dtype

    def __dlpack__(self, **options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return self.device

    def __array_namespace__(self):
        return mock.Mock(from_dlpack=lambda mean: Foreign(np.from_dlpack(mean)))


class OnlyArray:
    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def tensors(self, dtype=None, shape=(30, 40)):
        return [torch.from_numpy(values).to(dtype or torch.float32)
                for values in gradients(shape)]

    def test_tensors_give_a_tensor(self):
        mean = sluice.reduce(self.tensors(), "f32")
        self.assertIsInstance(mean, torch.Tensor)
        self.assertEqual(mean.dtype, torch.float32)
        np.testing.assert_array_equal(mean.numpy(), rank_order_mean(gradients((30, 40))))

    def test_half_widths_and_doubles_come_back(self):
        for dtype in (torch.bfloat16, torch.float16, torch.float64):
            tensors = self.tensors(dtype)
            mean = sluice.reduce(tensors, "f32")
            self.assertEqual(mean.dtype, dtype)
            wanted = rank_order_mean([t.float().numpy() for t in tensors])
            self.assertTrue(torch.equal(mean, torch.from_numpy(wanted).to(dtype)), dtype)

    def test_views_and_parameters_work(self):
        for view in (lambda t: t.t(), lambda t: t[::2, 3:], torch.nn.Parameter):
            tensors = [view(t) for t in self.tensors()]
            mean = sluice.reduce(tensors, "f32")
            wanted = rank_order_mean([t.detach().numpy() for t in tensors])
            np.testing.assert_array_equal(mean.numpy(), wanted)
            self.assertFalse(mean.requires_grad)

    def test_other_dtypes_devices_and_layouts_are_refused(self):
        with self.assertRaisesRegex(ValueError, "int64.*accepted: float32"):
            sluice.reduce([torch.arange(3)])
        with self.assertRaisesRegex(ValueError, "accepted: (torch.strided|arrays in host)"):
            sluice.reduce([torch.ones(3, 3).to_sparse()])
        with self.assertRaises(ValueError):
            sluice.reduce([torch.ones(3, device="meta")])


class BadInputs(unittest.TestCase):
    def refuse(self, pattern, *arguments, **options):
        with self.assertRaisesRegex(ValueError, pattern):
            sluice.reduce(*arguments, **options)

    def test_no_arrays(self):
        self.refuse("arrays is empty; accepted: one array per worker", [])

    def test_too_many_workers(self):
        self.refuse("4097.*4096", np.zeros((4097, 1), np.float32))

    def test_different_shapes(self):
        self.refuse(r"arrays\[1\] is float32 of shape \(4,\), arrays\[0\].*\(3,\)",
                    [np.zeros(3, "f4"), np.zeros(4, "f4")])
        self.refuse("all alike", [np.zeros((2, 3), "f4"), np.zeros((3, 2), "f4")])

    def test_different_dtypes(self):
        self.refuse(r"arrays\[1\] is float64", [np.zeros(3, "f4"), np.zeros(3, "f8")])

    def test_dtypes_that_are_no_floats(self):
        for dtype in (object, "i4", "?", "c8", "U3", "M8[s]"):
            self.refuse(r"arrays\[0\] is of dtype .*; accepted: float32, ",
                        [np.zeros(3, dtype)])
        self.refuse("accepted: float32", [None])
        self.refuse("accepted: float32", "text")

    def test_unknown_codecs_and_options(self):
        arrays = gradients()
        self.refuse("nope.*accepted.*tide", arrays, "nope")
        self.refuse("bits", arrays, "tide:bits=99")
        self.refuse("colour", arrays, "tide:colour=red")
        self.refuse("accepted: a SPEC", arrays, "f32\0")
        self.refuse("accepted: a SPEC", arrays, None)

    def test_seeds_and_steps_out_of_range(self):
        self.refuse("seed is -1; accepted: 0 to", gradients(), seed=-1)
        self.refuse("step is 18446744073709551616", gradients(), step=2**64)
        with self.assertRaises(TypeError):
            sluice.reduce(gradients(), seed=0.5)

    def test_an_error_leaves_the_next_call_alone(self):
        self.refuse("nope", gradients(), "nope")
        np.testing.assert_array_equal(sluice.reduce(gradients(), "f32"),
                                      rank_order_mean(gradients()))


class Library(unittest.TestCase):
    def run_python(self, code, **environment):
        paths = [str(pathlib.Path(sluice.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              check=False, env={**os.environ, "PYTHONPATH": ":".join(paths),
                                                **environment})

    def test_versions(self):
        self.assertRegex(sluice.__version__, r"^\d+\.\d+\.\d+$")
        self.assertEqual(_library.load().sluice_abi_version(), _library.ABI_VERSION)
        with self.assertRaises(AttributeError):
            sluice.nothing_of_the_kind

    @unittest.skipUnless((ROOT / "CMakeLists.txt").is_file(), "not in the tree")
    def test_versions_are_those_of_the_tree(self):
        project = re.search(r"project\(sluice VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
        self.assertEqual(sluice.__version__, project[1])
        header = (ROOT / "include/sluice/sluice.h").read_text()
        abi = re.search(r"#define SLUICE_ABI_VERSION (\d+)", header)
        self.assertEqual(_library.ABI_VERSION, int(abi[1]))

    def test_codecs_and_carriers(self):
        self.assertLessEqual({"f32", "tide", "thc"}, set(sluice.codecs()))
        self.assertIn("local", sluice.carriers())

    def test_codecs_know_their_options(self):
        few = [np.float32([0, 0, 1, 0]), np.float32([0, 0, 3, 0])]
        for codec in sluice.codecs():
            self.assertEqual((str(codec), codec.name), (codec, codec))
            self.assertTrue(codec.summary)
            for option in codec.options:
                with self.subTest(f"{codec}: {option}"):
                    shown = f"{option.default:g}" if option.kind == "real" else option.default
                    self.assertTrue(str(option).startswith(f"{option.key}={shown} ("))
                    self.assertTrue(option.help)
                    # The default is accepted and changes nothing; what is beyond is refused.
                    spec = f"{codec}:{option.key}="
                    np.testing.assert_array_equal(sluice.reduce(few, f"{spec}{option.default}"),
                                                  sluice.reduce(few, codec))
                    wrong = ("nothing" if option.kind == "choice"
                             else option.kind == "integer" and option.maximum + 1
                             or 2 * option.maximum)
                    with self.assertRaises(ValueError):
                        sluice.reduce(few, f"{spec}{wrong}")
                    if option.kind == "choice":
                        self.assertIn(option.default, option.choices)
                        self.assertIsNone(option.minimum)
                    else:
                        self.assertTrue(option.minimum <= option.default <= option.maximum)
                        self.assertEqual(option.choices, ())

    def test_a_codec_can_be_copied_and_sent(self):
        for codec in sluice.codecs():
            for other in (copy.deepcopy(codec), pickle.loads(pickle.dumps(codec))):
                self.assertEqual((other, other.summary, other.options),
                                 (codec, codec.summary, codec.options))

    def test_a_missing_library_is_named_at_the_first_use(self):
        done = self.run_python("import sluice; print('imported'); sluice.codecs()",
                               SLUICE_LIBRARY="/nowhere/libsluice.so")
        self.assertIn("imported", done.stdout)
        self.assertRegex(done.stderr, "LibraryError: .*/nowhere/libsluice.so.*SLUICE_LIBRARY")

    def test_a_file_that_is_no_library_is_named(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"not a library")
            file.flush()
            done = self.run_python("import sluice; sluice.codecs()", SLUICE_LIBRARY=file.name)
        self.assertRegex(done.stderr, f"LibraryError: .*cannot load {file.name}")

    def test_another_library_is_named(self):
        maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
        library = re.search(r"/\S*/libc[.-]\S*", maps)[0]
        done = self.run_python("import sluice; sluice.codecs()", SLUICE_LIBRARY=library)
        self.assertRegex(done.stderr, f"LibraryError: .*{library} is no libsluice.so")

    def test_another_abi_version_is_named(self):
        done = self.run_python("from sluice import _library; _library.ABI_VERSION = 99\n"
                               "import sluice; sluice.codecs()")
        wanted = f"{sluice.__version__} with ABI version .*, this package needs ABI version 99"
        self.assertRegex(done.stderr, f"LibraryError: .*libsluice.*{wanted}")


class Info(unittest.TestCase):
    def run_info(self, *arguments, **environment):
        paths = [str(pathlib.Path(sluice.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        return subprocess.run([sys.executable, "-m", "sluice.info", *arguments], text=True,
                              capture_output=True, check=False,
                              env={**os.environ, "PYTHONPATH": ":".join(paths), **environment})

    def test_text_says_what_is_here(self):
        done = self.run_info(SLUICE_FORCE_KERNEL="scalar")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for pattern in (f"^sluice +{sluice.__version__}$", "^codecs +f32, ", "^kernels +scalar$",
                        f"^numpy +{re.escape(np.__version__)}$", "^library +/",
                        "SLUICE_FORCE_KERNEL=scalar"):
            self.assertRegex(done.stdout, re.compile(pattern, re.MULTILINE))

    def test_json_parses_and_agrees(self):
        done = self.run_info("--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        said = json.loads(done.stdout)
        self.assertEqual(said, info.gather())
        self.assertEqual(said["codecs"], sluice.codecs())
        self.assertEqual(said["torch"], torch and torch.__version__)
        self.assertIsNone(said["error"])

    def gpu_line(self, status, refusals=("",)):
        """What the line about GPUs says where the library's functions give this."""
        with mock.patch.object(_library, "gpu_status", return_value=status), \
                mock.patch.object(_library, "gpu_refusals", return_value=list(refusals)):
            lines = info._text(info.gather()).splitlines()
        return next(line for line in lines if line.startswith("GPU codecs   "))[13:]

    def test_gpu_codecs_are_said_with_the_reason(self):
        self.assertEqual(self.gpu_line("gpu: no driver"), "no: gpu: no driver")
        self.assertEqual(self.gpu_line(None), "unknown: this library is too old to say")
        why = "device 1: no kernel image is available for execution on the device"
        self.assertEqual(self.gpu_line("", [why]), f"no: {why}")
        with mock.patch.dict(os.environ, SLUICE_CUDA_LIBRARY="emulated"):
            self.assertRegex(self.gpu_line("", ["", why]), rf"^yes \(.*\), but not on all: {why}$")

    def test_every_gpu_is_opened_and_given_back(self):
        freed, codes = [], [0, 2, 0, _library.INVALID_ARGUMENT]
        library = mock.Mock(sluice_device_open=mock.Mock(side_effect=codes))
        library.sluice_last_error.return_value = b"device 1: no code"
        library.sluice_device_free = mock.Mock(side_effect=freed.append)
        with mock.patch.object(_library, "load", return_value=library):
            self.assertEqual(_library.gpu_refusals(), ["", "device 1: no code", ""])
        self.assertEqual(len(freed), 2)

    def test_gpus_are_counted_and_named(self):
        def set_to(value):
            return lambda at: setattr(at._obj, "value", value) or 0

        def name(text, size, ordinal):
            text.value = b"NVIDIA H200"
            return 0

        driver = mock.Mock(cuInit=lambda flags: 0, cuDriverGetVersion=set_to(13000),
                           cuDeviceGetCount=set_to(2), cuDeviceGetName=name)
        with mock.patch.dict(os.environ, SLUICE_CUDA_LIBRARY=""), \
                mock.patch.object(info.ctypes, "CDLL", return_value=driver):
            self.assertEqual(self.gpu_line(""),
                             "yes (2 devices, NVIDIA H200, driver of CUDA 13.0)")
            driver.cuDeviceGetCount = set_to(1)
            driver.cuDeviceGetName = lambda text, size, ordinal: 1
            self.assertEqual(self.gpu_line(""), "yes (1 device, device 0, driver of CUDA 13.0)")
            driver.cuInit = lambda flags: 100
            self.assertEqual(self.gpu_line(""), "yes (the driver does not say on what)")
        with mock.patch.dict(os.environ, SLUICE_CUDA_LIBRARY="emulated"):
            self.assertEqual(self.gpu_line(""),
                             "yes (emulated on the host: SLUICE_CUDA_LIBRARY)")

    def test_the_library_says_why_there_are_no_gpu_codecs(self):
        said = _library.gpu_status()
        if said is None:
            self.skipTest("a library without sluice_gpu_status")
        line = json.loads(self.run_info("--json").stdout)["gpu_codecs"]
        self.assertRegex(line, r"^yes \(." if said == "" else "^no: .")

    def test_an_old_library_does_not_know_about_gpus(self):
        with mock.patch.object(_library, "load", return_value=object()):
            self.assertIsNone(_library.gpu_status())

    def test_without_a_library_it_still_answers(self):
        done = self.run_info("--json", SLUICE_LIBRARY="/nowhere/libsluice.so")
        self.assertEqual(done.returncode, 1)
        said = json.loads(done.stdout)
        self.assertIsNone(said["sluice"])
        self.assertIn("/nowhere/libsluice.so", said["error"])
        self.assertEqual(said["environment"]["SLUICE_LIBRARY"], "/nowhere/libsluice.so")


if __name__ == "__main__":
    unittest.main()
