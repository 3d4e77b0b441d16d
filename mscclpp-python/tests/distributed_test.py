"""Runs PyTorch's own tests of backends, torch.testing._internal.distributed.distributed_test, on this one.

Usage: PYTHONPATH=$(scripts/python-package.sh) PYTHON mscclpp-python/tests/distributed_test.py [WORD ...]

With words, only tests whose names contain one of them are run. Prints a line per test: ok, skipped with PyTorch's reason, or failed. Needs
the package expecttest. docs/python.md has the results.
"""

import os
import sys
import tempfile
import time
import unittest

# Which tests apply to a backend is decided by its name when the module is imported: those that apply to gloo are run.
os.environ["BACKEND"] = "gloo"
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="mscclpp-distributed-test-"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Devices of this machine are not for these tests.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch.multiprocessing  # noqa: E402
import torch.testing._internal.distributed.distributed_test as of_torch  # noqa: E402

import mscclpp_rs  # noqa: E402

mscclpp_rs.register_backend()
of_torch.BACKEND = os.environ["BACKEND"] = "mscclpp"


class TestBackend(of_torch.TestDistBackend, of_torch.DistributedTest._DistTestBase):
    """PyTorch's tests, each in copies of this process."""

    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


class Lines(unittest.TestResult):
    """Prints a line per test, at once."""

    def startTest(self, test):
        super().startTest(test)
        self._started = time.monotonic()

    def _line(self, test, text):
        name = test.id().rsplit(".", 1)[1]
        print(f"{text} {name} ({time.monotonic() - self._started:.1f} s)", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._line(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._line(test, f"skipped [{' '.join(reason.split())}]")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._fail(test, error)

    def addError(self, test, error):
        super().addError(test, error)
        self._fail(test, error)

    def _fail(self, test, error):
        lines = [line for line in str(error[1]).splitlines() if "Error" in line or "exception" in line]
        self._line(test, f"failed [{(lines or [str(error[1])])[-1][:200]}]")


def main():
    words = sys.argv[1:]
    names = unittest.defaultTestLoader.getTestCaseNames(TestBackend)
    chosen = [name for name in names if not words or any(word in name for word in words)]
    result = Lines()
    unittest.TestSuite(TestBackend(name) for name in chosen).run(result)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun} tests: {failed} failed, {len(result.skipped)} skipped", flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
