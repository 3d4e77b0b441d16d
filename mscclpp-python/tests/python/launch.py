"""The launcher `python -m mscclpp_rs launch`, without PyTorch."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RANK = """
import os, pathlib, signal, sys, time
rank, folder, mode = int(os.environ["RANK"]), pathlib.Path(sys.argv[1]), sys.argv[2]
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
(folder / f"env-{rank}").write_text(" ".join(os.environ[name] for name in names))
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
(folder / f"rank-{rank}").write_text(str(os.getpid()))
if mode == "fails" and rank == 1 or mode == "stubborn" and rank == 1:
    sys.exit(7)
if mode == "killed" and rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if mode != "succeeds":
    time.sleep(600)
"""


class Messages(unittest.TestCase):
    """Where the library's messages go, as the environment states it."""

    def run_with(self, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MSCCLPP_")}
        command = [sys.executable, "-c", "import mscclpp_rs"]
        return subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=True).stderr

    def test_messages_go_to_standard_error_or_the_file(self):
        warning = "warn: MSCCLPP_LOG_LEVEL=loud: expected one of off, error, warn, info, debug, trace"
        self.assertIn(f"mscclpp: {warning}", self.run_with(MSCCLPP_LOG_LEVEL="loud"))
        self.assertEqual(self.run_with(), "")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "log"
            self.assertEqual(self.run_with(MSCCLPP_LOG_LEVEL="loud", MSCCLPP_LOG_FILE=str(path)), "")
            self.assertIn(warning, path.read_text())


class Launch(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.script = self.folder / "rank.py"
        self.script.write_text(RANK)

    def start(self, *arguments):
        command = [sys.executable, "-m", "mscclpp_rs", "launch", *arguments]
        launcher = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.addCleanup(launcher.kill)
        return launcher

    def launch(self, mode, ranks=3):
        launcher = self.start("-n", str(ranks), str(self.script), str(self.folder), mode)
        error = launcher.communicate()[1]
        return launcher.returncode, error

    def check_ended(self):
        for file in self.folder.glob("rank-*"):
            with self.assertRaises(ProcessLookupError):
                os.kill(int(file.read_text()), 0)

    def test_ranks_have_the_variables_of_torchrun(self):
        status, error = self.launch("succeeds")
        self.assertEqual((status, error), (0, ""))
        found = [(self.folder / f"env-{rank}").read_text().split() for rank in range(3)]
        self.assertEqual([of_rank[:5] for of_rank in found], [[str(r), str(r), "3", "3", "127.0.0.1"] for r in range(3)])
        self.assertEqual(len({of_rank[5] for of_rank in found}), 1)

    def test_failed_rank_ends_the_others(self):
        status, error = self.launch("fails")
        self.assertEqual(status, 7)
        self.assertIn("launch: rank 1 exited with 7; ending the others", error)
        self.check_ended()

    def test_killed_rank_is_128_and_its_signal(self):
        status, error = self.launch("killed")
        self.assertEqual(status, 128 + signal.SIGKILL)
        self.assertIn("rank 1 was ended by SIGKILL", error)
        self.check_ended()

    def test_ranks_that_ignore_the_request_are_killed(self):
        self.assertEqual(self.launch("stubborn")[0], 7)
        self.check_ended()

    def test_signal_of_the_launcher_ends_all_ranks(self):
        launcher = self.start("-n", "2", str(self.script), str(self.folder), "waits")
        while len(list(self.folder.glob("rank-*"))) < 2:
            time.sleep(0.01)
        launcher.send_signal(signal.SIGINT)
        error = launcher.communicate()[1]
        self.assertEqual(launcher.returncode, 128 + signal.SIGINT)
        self.assertIn("launch: SIGINT; ending all ranks", error)
        self.check_ended()

    def test_module_is_run_by_its_name(self):
        launcher = self.start("-n", "2", "-m", "this_module_does_not_exist")
        self.assertIn("No module named this_module_does_not_exist", launcher.communicate()[1])
        self.assertEqual(launcher.returncode, 1)

    def test_invalid_number_of_ranks_is_rejected(self):
        status, error = self.launch("succeeds", ranks=0)
        self.assertEqual(status, 2)
        self.assertIn("expected at least 1 rank, found 0", error)


if __name__ == "__main__":
    unittest.main()
