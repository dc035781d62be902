"""Which GPUs the build makes code for, as cmake/cuda.cmake turns the option into flags of nvcc."""

import re
import unittest

from build_kit import ROOT, Scratch, run


class Architectures(Scratch):
    def code(self, *define):
        """Numbers that there is code for, and those that there is PTX of."""
        text = (ROOT / "cmake/cuda.cmake").read_text(encoding="utf-8")
        functions = text.split("\nif(NOT SLUICE_CUDA MATCHES", 1)[0]
        script = self.write("code.cmake", "cmake_minimum_required(VERSION 3.25)\n" + functions +
                            '\nsluice_cuda_code(code)\nmessage("${code}")\n')
        done = run("cmake", *define, "-P", script)
        self.succeed(done)
        return (re.findall(r"code=sm_(\w+)", done.stderr),
                re.findall(r"arch=compute_(\w+),code=compute_\1", done.stderr))

    def test_ptx_is_of_the_newest_and_of_hopper(self):
        """A GPU has code of its own generation, else PTX that is no newer than it is."""
        self.assertEqual(self.code(), (["75", "80", "86", "90", "100", "120"], ["90", "120"]))

    def test_ptx_is_of_what_was_asked_for(self):
        for given, code, ptx in (("90", ["90"], ["90"]), ("80;75", ["75", "80"], ["80"]),
                                 ("100;90;90", ["90", "100"], ["90", "100"])):
            with self.subTest(given):
                self.assertEqual(self.code(f"-DSLUICE_CUDA_ARCHITECTURES={given}"), (code, ptx))


if __name__ == "__main__":
    unittest.main()
