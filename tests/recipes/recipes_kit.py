"""What the tests of recipes share: where things are, and how an example is run."""

import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# torch 2.15 on a busy machine: a thread of its own outlives Python, in 1 of 20 jobs, with or
# without Sluice.
KNOWN_FAULT, ATTEMPTS = "terminate called without an active exception", 4
LIMIT_SECONDS = 240  # of an example: what takes longer hangs
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # Containers often forbid what it tries first, and it says so for every process.
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def needs(*modules):
    """Skips, by name, what this Python lacks."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        return unittest.skip(f"not installed: {', '.join(missing)}")
    if "torch" in modules:
        import torch

        if int(torch.__version__.split(".")[0]) < 2:
            return unittest.skip(f"torchrun of torch {torch.__version__} fails on Python 3.11")
    return lambda test: test


def environment(more):
    """Without the Sluice options and the rendezvous of whoever runs the tests."""
    ours = ("SLUICE_LIBRARY", "SLUICE_FORCE_KERNEL")
    theirs = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    kept = {name: value for name, value in os.environ.items()
            if name in ours or not (name in theirs or name.startswith("SLUICE_"))}
    return {**kept, **ENVIRONMENT, **(more or {})}


class RecipeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-recipes-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_command(self, *command, variables=None, attempts=1):
        """Its output. Ends within the limit, or the test fails and nothing of it stays behind."""
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder,
            env=environment(variables), start_new_session=True,
        ) as job:
            try:
                out, _ = job.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                out, _ = job.communicate()
                self.fail(f"hangs: {command}\n{out}")
        if job.returncode != 0 and KNOWN_FAULT in out and attempts > 1:
            return self.run_command(*command, variables=variables, attempts=attempts - 1)
        self.assertEqual(job.returncode, 0, f"{command}\n{out}")
        return out

    def torchrun(self, script, *arguments, ranks=2, variables=None):
        # A port of its own, so that jobs on one machine do not meet.
        return self.run_command(
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
            "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0",
            str(ROOT / script), *arguments, variables=variables, attempts=ATTEMPTS)
