"""Programs of the language: their plans, and what is rejected and how."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import pickle
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from typing import Any

from mscclpp.language import *
from mscclpp_rs import Finding, Location, Plan, PlanError

FILE = str(pathlib.Path(__file__))


def line_of(text: str) -> int:
    """Returns the number of the only line of this file that contains a text, which is not this call's."""
    lines = pathlib.Path(__file__).read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if line.strip().endswith(f"# {text}")]
    assert len(found) == 1, (text, found)
    return found[0]


def swap(*, last_wait: bool = True, **options: Any) -> CollectiveProgram:
    """Two ranks send each other their inputs."""
    with CollectiveProgram("swap", SendRecv(2, 1, False), 2, **options) as program:
        for rank in range(2):
            peer = 1 - rank
            channel = MemoryChannel(peer, rank)
            channel.signal(tb=0, relaxed=True)
            channel.wait(tb=0, relaxed=True, data_sync=SyncType.after)
            channel.put(Rank(peer).get_output_buffer()[0:1], Rank(rank).get_input_buffer()[0:1], tb=0)
            channel.signal(tb=0, data_sync=SyncType.before)
            if last_wait or rank == 0:
                channel.wait(tb=0, data_sync=SyncType.after)
    return program


class Fragment(unittest.TestCase):
    """Tests of operations of a program of two ranks that is never complete."""

    def setUp(self) -> None:
        program = CollectiveProgram("fragment", TestCollective(2, 4, 4), 2, protocol="LL")
        program.__enter__()
        self.addCleanup(program.__exit__, None, None, None)
        self.program = program
        self.rank = Rank(0)
        self.input, self.output = self.rank.get_input_buffer(), self.rank.get_output_buffer()
        self.scratch = Buffer(0, 2)
        self.remote = Rank(1).get_output_buffer()
        self.channel = MemoryChannel(1, 0)

    def rejects(self, code: str, call: Callable[[], object]) -> Finding:
        """Checks that a call is rejected with one finding, in this file, and that the program is rejected for it."""
        with self.assertRaises(PlanError) as raised:
            call()
        (finding,) = raised.exception.findings
        self.assertEqual(finding.code, code)
        self.assertIsInstance(finding.place, Location)
        self.assertEqual(finding.place.file, FILE)
        self.assertGreater(finding.place.column, 0)
        with self.assertRaises(PlanError) as raised:
            self.program.to_json()
        self.assertEqual(raised.exception.findings, (finding,))
        return finding

    def rejects_all(self) -> set[str]:
        """Returns the rules of the findings for which the program is rejected."""
        with self.assertRaises(PlanError) as raised:
            self.program.to_json()
        return {finding.code for finding in raised.exception.findings}


class Plans(unittest.TestCase):
    def test_plan_has_the_operations_of_the_program(self) -> None:
        plan = json.loads(swap().to_json())
        names = [operation["name"] for operation in plan["gpus"][1]["threadblocks"][0]["ops"]]
        self.assertEqual(plan["name"], "swap")
        self.assertEqual(names, ["nop", "rlxsignal", "nop", "rlxwait", "nop", "put", "nop", "signal", "wait", "nop"])

    def test_json_twice_gives_equal_text(self) -> None:
        program = swap(instances=4)
        self.assertEqual(program.to_json(), program.to_json())
        self.assertEqual(program.to_json(indent=None, separators=(",", ":")).count("\n"), 0)

    def test_json_function_is_that_of_the_program(self) -> None:
        with CollectiveProgram("copy", TestCollective(1, 1, 1), 1) as program:
            rank = Rank(0)
            rank.copy(rank.get_output_buffer()[0:1], rank.get_input_buffer()[0:1], tb=0)
            text = JSON()
        self.assertEqual(text, program.to_json())

    def test_spec_gives_nodes_and_tags(self) -> None:
        spec = AlgoSpec("swap", SendRecv(2, 1, False), 1, 2, False, 1, "Simple", tags={"fast": 3})
        with CollectiveProgram.from_spec(spec) as program:
            for rank in range(2):
                channel = PortChannel(1 - rank, rank)
                channel.signal(tb=0)
                channel.wait(tb=0)
                channel.put_with_signal_and_flush(
                    Rank(1 - rank).get_output_buffer()[:], Rank(rank).get_input_buffer()[:], tb=0
                )
                channel.wait(tb=0)
        plan = json.loads(program.to_json())
        self.assertEqual((plan["ranks_per_node"], plan["tags"]), (1, {"fast": 3}))

    def test_slices_and_instances_divide_chunks(self) -> None:
        with CollectiveProgram("copy", TestCollective(1, 4, 4), 1, instances=2) as program:
            rank = Rank(0)
            rank.copy(rank.get_output_buffer()[2:], rank.get_input_buffer()[:2], tb=0)
        (gpu,) = json.loads(program.to_json(check=False))["gpus"]
        self.assertEqual((gpu["input_chunks"], len(gpu["threadblocks"])), (8, 2))

    def test_a_collective_of_its_own_has_its_buffers(self) -> None:
        class Halves(Collective):
            name = "halves"

            def init_buffers(self) -> Any:
                return self._buffers(2, 1)

        with CollectiveProgram("halves", Halves(1, 1, False), 1) as program:
            rank = Rank(0)
            rank.copy(rank.get_output_buffer()[0:1], rank.get_input_buffer()[1:2], tb=0)
        plan = program.plan(allow=["M0226"])
        self.assertIsInstance(plan, Plan)
        self.assertEqual(json.loads(plan.to_json())["collective"], "custom")


class Findings(unittest.TestCase):
    def test_missing_signal_names_the_lines_of_both_ranks(self) -> None:
        with CollectiveProgram("wait", TestCollective(2, 1, 1), 2) as program:
            MemoryChannel(1, 0)
            channel = MemoryChannel(0, 1)
            channel.wait(tb=0)  # the wait
        with self.assertRaises(PlanError) as raised:
            program.to_json()
        finding = raised.exception.findings[0]
        self.assertEqual((finding.code, finding.slug), ("M0201", "unmatched-wait"))
        self.assertEqual((finding.place.file, finding.place.line), (FILE, line_of("the wait")))
        self.assertIn(f"{FILE}:{line_of('the wait')}:13", str(raised.exception))

    def test_race_names_both_accesses(self) -> None:
        with CollectiveProgram("race", TestCollective(1, 2, 1), 1) as program:
            rank = Rank(0)
            rank.copy(rank.get_output_buffer()[:], rank.get_input_buffer()[0:1], tb=0)  # the first write
            rank.copy(rank.get_output_buffer()[:], rank.get_input_buffer()[1:2], tb=1)  # the second write
        with self.assertRaises(PlanError) as raised:
            program.to_json()
        text = str(raised.exception)
        for what in ("the first write", "the second write"):
            self.assertIn(f"{FILE}:{line_of(what)}:13", text)

    def test_checks_are_skipped_on_request(self) -> None:
        self.assertIn("rlxwait", swap(last_wait=False).to_json(check=False))

    def test_finding_has_rule_and_help(self) -> None:
        with self.assertRaises(PlanError) as raised:
            swap(last_wait=False).to_json()
        finding = raised.exception.findings[0]
        self.assertRegex(finding.code, r"^M\d{4}$")
        self.assertTrue(finding.slug and finding.rule and finding.message and finding.help)

    def test_exceptions_have_their_findings_in_other_processes(self) -> None:
        with self.assertRaises(PlanError) as raised:
            swap(last_wait=False).to_json()
        found = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((str(found), found.findings), (str(raised.exception), raised.exception.findings))
        self.assertEqual(copy.deepcopy(raised.exception).findings, raised.exception.findings)
        with self.assertRaisesRegex(ValueError, "there is no rule M9999"):
            Finding("M9999", "", None, None, [])

    def test_plan_error_is_a_runtime_error(self) -> None:
        # Programs of the reference handle this class.
        self.assertTrue(issubclass(PlanError, RuntimeError))


class Operations(Fragment):
    def test_rank_that_does_not_exist_is_rejected(self) -> None:
        self.rejects("M0002", lambda: Rank(2))

    def test_numbers_that_no_rank_has_are_rejected(self) -> None:
        # 2^32 - 1 is the recorder's number of ranks that it has rejected.
        for number in (-1, 2**32 - 1, 2**63, 2**64, 2**200):
            for call in (Rank, lambda rank: MemoryChannel(rank, 0), lambda rank: SwitchChannel([0, rank], BufferType.input)):
                with self.subTest(number), self.assertRaisesRegex(PlanError, rf"expected a rank in 0\.\.2, found {number}"):
                    call(number)
        self.assertEqual(self.rejects_all(), {"M0002"})

    def test_numbers_of_any_size_are_rejected_by_their_rules(self) -> None:
        huge = 2**64
        switch = SwitchChannel([0, 1], BufferType.output).at_rank(0)
        for code, call in [
            ("M0011", lambda: self.channel.signal(tb=huge)),
            ("M0011", lambda: self.rank.barrier([0, huge])),
            ("M0004", lambda: switch.reduce(huge, 1, self.output[0:1], tb=0)),
        ]:
            with self.subTest(code), self.assertRaisesRegex(PlanError, code) as raised:
                call()
            self.assertIn(str(huge), str(raised.exception))

    def test_channel_to_itself_is_rejected(self) -> None:
        self.rejects("M0014", lambda: MemoryChannel(0, 0))
        with self.assertRaises(PlanError):
            PortChannel(1, 1)

    def test_chunk_of_another_rank_is_rejected(self) -> None:
        self.rejects("M0007", lambda: self.rank.copy(self.remote[0:1], self.input[0:1], tb=0))

    def test_chunks_of_different_sizes_are_rejected(self) -> None:
        self.rejects("M0008", lambda: self.rank.copy(self.output[0:2], self.input[0:1], tb=0))

    def test_overlapping_copy_is_rejected(self) -> None:
        self.rejects("M0009", lambda: self.rank.copy(self.input[0:2], self.input[1:3], tb=0))

    def test_empty_chunk_is_rejected(self) -> None:
        self.rejects("M0006", lambda: self.rank.copy(self.output[1:1], self.input[1:1], tb=0))

    def test_forged_chunk_is_rejected(self) -> None:
        for code, chunk in [
            ("M0004", Chunk(0, BufferType.scratch, 2, 1)),
            ("M0004", Chunk(0, BufferType.output, 4, 1)),
            ("M0004", Chunk(0, BufferType.output, -1, 1)),
            ("M0004", Chunk(0, BufferType.output, 2**64, 1)),
            ("M0002", Chunk(9, BufferType.output, 0, 1)),
            ("M0002", Chunk(-9, BufferType.output, 0, 1)),
            ("M0002", Chunk(2**32 - 1, BufferType.output, 0, 1)),
        ]:
            with self.subTest(chunk), self.assertRaises(PlanError) as raised:
                self.rank.copy(chunk, self.input[0:1], tb=0)
            self.assertEqual([finding.code for finding in raised.exception.findings], [code])

    def test_slices_beyond_a_buffer_are_rejected(self) -> None:
        finding = self.rejects("M0004", lambda: self.input[3:5])
        self.assertRegex(finding.message, r"chunks 3\.\.5 are outside of the input of rank 0, which has 4")
        self.program.__exit__(None, None, None)
        with self.assertRaisesRegex(PlanError, "chunks 0..3 are outside of the scratch"):
            self.scratch[:3]
        self.program.__enter__()
        for key in [slice(-1, 1), slice(2, 1), slice(0, 4, 2)]:
            with self.assertRaises(ValueError):
                self.input[key]
        for key in [0, "a", slice("a", "b")]:
            with self.assertRaises(TypeError):
                self.input[key]

    def test_negative_thread_block_is_rejected(self) -> None:
        self.rejects("M0011", lambda: self.channel.signal(tb=-1))

    def test_group_with_a_block_twice_is_rejected(self) -> None:
        with self.assertRaises(ValueError):
            ThreadBlockGroup([0, 0])
        group = ThreadBlockGroup([0, 1])
        self.assertEqual((group.numtb(), group.get_internal_id(1)), (2, 1))
        with self.assertRaises(ValueError):
            group.get_internal_id(2)

    def test_barrier_with_a_block_twice_is_rejected(self) -> None:
        self.rejects("M0013", lambda: self.rank.barrier([1, 1]))

    def test_empty_reduction_is_rejected(self) -> None:
        self.rejects("M0010", lambda: self.rank.reduce(self.input[0:1], [], tb=0))

    def test_plain_data_as_packets_of_a_port_is_rejected(self) -> None:
        # DIFF-23 of docs/differences.md.
        port, remote = PortChannel(1, 0), Buffer(1, 1)
        finding = self.rejects("M0019", lambda: port.put_packets(remote[0:1], self.input[0:1], tb=0))
        self.assertIn("input chunk 0 of rank 0", finding.message)

    def test_packets_outside_of_scratch_are_rejected(self) -> None:
        for call in [
            lambda: self.channel.put_packets(self.remote[0:1], self.input[0:1], tb=0),
            lambda: self.rank.copy_packets(self.output[0:1], self.input[0:1], tb=0),
            lambda: self.rank.unpack_packets(self.output[0:1], self.input[0:1], tb=0),
            lambda: self.rank.reduce(self.output[0:1], [self.input[0:1]], tb=0, packet=True),
            lambda: self.channel.read_put_packets(Buffer(1, 1)[0:1], self.input[0:1], tb=0),
        ]:
            with self.assertRaises(PlanError) as raised:
                call()
            self.assertEqual(raised.exception.findings[0].code, "M0019")

    def test_nested_loop_is_rejected(self) -> None:
        LoopIterationContext(1024, 1).__enter__()
        self.rejects("M0016", lambda: LoopIterationContext(1024, 1).__enter__())

    def test_invalid_loop_is_rejected(self) -> None:
        for unit, chunks in [(0, 1), (1000, 1), (1024, 0), (-16, 1), (1024, -1)]:
            with self.subTest(unit=unit, chunks=chunks), self.assertRaises(PlanError) as raised:
                with LoopIterationContext(unit, chunks):
                    pass
            self.assertIn("M0017", [finding.code for finding in raised.exception.findings])
            self.program._end_pipeline()

    def test_rank_outside_of_a_switch_channel_is_rejected(self) -> None:
        channel = SwitchChannel([0], BufferType.input)
        self.rejects("M0015", lambda: channel.at_rank(1))

    def test_switch_range_beyond_the_buffer_is_rejected(self) -> None:
        switch = SwitchChannel([0, 1], BufferType.input).at_rank(0)
        self.rejects("M0004", lambda: switch.reduce(4, 1, self.output[0:1], tb=0))

    def test_wrong_types_are_type_errors(self) -> None:
        port = PortChannel(1, 0)
        for call in [
            lambda: Rank("0"),
            lambda: Rank(None),
            lambda: Rank(True),
            lambda: Buffer(0, "2"),
            lambda: Buffer(0, -1),
            lambda: MemoryChannel(1),  # type: ignore[call-arg]
            lambda: self.channel.signal(),
            lambda: self.channel.signal(tb=None),
            lambda: self.channel.signal(tb="0"),
            lambda: self.channel.signal(tb=0, data_sync="sometimes"),
            lambda: self.channel.signal(tb=0, relax=True),
            lambda: self.channel.put(self.remote, self.input, tb=0),
            lambda: self.channel.put(self.remote[0:1], None, tb=0),
            lambda: self.channel.put(self.remote[0:1], Chunk(0, "i", 0, 1), tb=0),
            lambda: self.channel.put(self.remote[0:1], self.input[0:1]),
            lambda: self.channel.put(self.remote[0:1], self.input[0:1], tb=0, tb_group=ThreadBlockGroup([0])),
            lambda: self.channel.put(self.remote[0:1], self.input[0:1], tb_group=[0, 1]),
            lambda: self.channel.reduce(self.input[0:1], self.remote, tb=0),
            lambda: self.channel.put(self.remote[0:1], self.input[0:1], tb=0, iteration=None),
            lambda: self.channel.reduce(self.input[0:1], [self.remote[0:1]], tb=0, reduce_op="total"),
            lambda: self.channel.flush(tb=0),
            lambda: port.put(self.remote[0:1], self.input[0:1]),
            lambda: port.signal(tb=0, relaxed=True),
            lambda: self.rank.barrier([None]),
            lambda: self.rank.barrier(None),
            lambda: SwitchChannel([0, 1], "i"),
            lambda: SwitchChannel(None, BufferType.input),
            lambda: Semaphore(0, None),
            lambda: LoopIterationContext("a", 1).__enter__(),
            lambda: CollectiveProgram("p", "allreduce", 2),
            lambda: CollectiveProgram("p", AllReduce(2, 1, True), 2, instances="2"),
            lambda: CollectiveProgram("p", AllReduce(2, 1, True), 2, instance=2),
            lambda: CollectiveProgram("p", AllReduce(2, 1, True), 2, tags={"a": "b"}),
            lambda: CollectiveProgram("p", AllReduce(2, 1, True), 2, replication_policy=None),
            lambda: CollectiveProgram("p", AllReduce(2, 1, True), 2, replication_policy="none"),
        ]:
            with self.assertRaises((TypeError, AttributeError)):
                call()

    def test_thread_block_of_another_integer_type_is_accepted(self) -> None:
        class Index:
            def __index__(self) -> int:
                return 0

        self.channel.signal(tb=Index())  # type: ignore[arg-type]


class Programs(unittest.TestCase):
    def test_invalid_options_are_rejected(self) -> None:
        for options in [
            {"instances": 0},
            {"num_threads_per_block": 0},
            {"num_threads_per_block": 4096},
            {"buffer_alignment": 3},
            {"min_message_size": 2, "max_message_size": 1},
            {"instances": 2, "replication_policy": ReplicationPolicy.none},
            {"nranks_per_node": 3},
        ]:
            with self.subTest(options), self.assertRaises(PlanError) as raised:
                swap(**options)
            self.assertEqual(raised.exception.findings[0].code, "M0003")
        with self.assertRaisesRegex(ValueError, "expected protocol Simple or LL, found simple"):
            swap(protocol="simple")
        with self.assertRaises(ValueError):
            CollectiveProgram("p", AllReduce(4, 1, True), 2)

    def test_numbers_that_are_too_large_are_rejected(self) -> None:
        for call in [
            lambda: swap(max_message_size=2**64),
            lambda: swap(instances=2**40),
            lambda: swap(instances=-1),
            lambda: CollectiveProgram("p", AllReduce(2**17, 1, True), 2**17),
            lambda: CollectiveProgram("p", AllReduce(2, 2**31, True), 2),
        ]:
            with self.assertRaises((TypeError, ValueError, PlanError)):
                call()

    def test_use_outside_of_a_program_is_rejected(self) -> None:
        for call in [lambda: Rank(0), lambda: MemoryChannel(1, 0), lambda: Buffer(0, 1), JSON]:
            with self.assertRaisesRegex(PlanError, "there is no program"):
                call()

    def test_operation_after_the_plan_is_rejected(self) -> None:
        with CollectiveProgram("swap", SendRecv(2, 1, False), 2) as program:
            channel = MemoryChannel(1, 0)
            program.to_json(check=False)
            with self.assertRaisesRegex(PlanError, "the program is complete"):
                channel.signal(tb=0)
        with self.assertRaisesRegex(PlanError, "the program is complete"):
            channel.wait(tb=0)

    def test_handles_of_another_program_are_rejected(self) -> None:
        with CollectiveProgram("first", TestCollective(2, 1, 1), 2):
            channel = SwitchChannel([0, 1], BufferType.input)
        with CollectiveProgram("second", TestCollective(2, 1, 1), 2) as second:
            with self.assertRaisesRegex(PlanError, "of another program"):
                second._call(channel._handle, "at", 0)

    def test_error_in_a_program_leaves_no_program(self) -> None:
        with self.assertRaises(ZeroDivisionError), CollectiveProgram("p", TestCollective(1, 1, 1), 1):
            1 / 0
        with self.assertRaisesRegex(PlanError, "there is no program"):
            Rank(0)

    def test_programs_may_be_nested(self) -> None:
        with CollectiveProgram("outer", TestCollective(1, 1, 1), 1) as outer:
            inner = swap()
            Rank(0).copy(Rank(0).get_output_buffer()[:], Rank(0).get_input_buffer()[:], tb=0)
        self.assertEqual(json.loads(outer.to_json())["name"], "outer")
        self.assertEqual(inner.to_json(), swap().to_json())

    def test_a_program_may_be_entered_within_itself(self) -> None:
        with CollectiveProgram("p", TestCollective(1, 1, 1), 1) as program:
            with program:
                Rank(0)
            Rank(0)
        with self.assertRaisesRegex(PlanError, "there is no program"):
            Rank(0)

    def test_operations_after_a_failed_loop_are_outside_of_it(self) -> None:
        with CollectiveProgram("copy", TestCollective(1, 1, 1), 1) as program:
            with self.assertRaises(ZeroDivisionError), LoopIterationContext(1024, 1):
                1 / 0
            Rank(0).copy(Rank(0).get_output_buffer()[:], Rank(0).get_input_buffer()[:], tb=0)
        self.assertNotIn("pipeline", program.to_json())

    def test_threads_record_at_the_same_time(self) -> None:
        expected, found = swap().to_json(), []
        start = threading.Barrier(4)

        def work() -> None:
            start.wait()
            found.extend(swap().to_json() for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(found), set(found)), (80, {expected}))

    def test_programs_are_made_in_any_thread(self) -> None:
        program = swap()
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(program.to_json()))
        thread.start()
        thread.join()
        self.assertEqual(found, [swap().to_json()])


class Unchecked(unittest.TestCase):
    """Plans that the checks reject, as JSON."""

    PROGRAM = """
from mscclpp.language import *
with CollectiveProgram("nothing", SendRecv(2, 1, False), 2):
    {}
    print(JSON())
"""
    FIRST_GENERATION = """
from msccl.language.collectives import AllGather
from msccl.language.mscclpp import *
with MSCCLPPProgram("nothing", AllGather(2, 1, False), 2, 1):
    Json()
"""

    def run_program(self, text: str, value: str | None) -> subprocess.CompletedProcess[str]:
        environment = {key: one for key, one in os.environ.items() if key != "MSCCLPP_UNCHECKED_JSON"}
        environment |= {} if value is None else {"MSCCLPP_UNCHECKED_JSON": value}
        return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False)

    def test_refusal_names_the_variable(self) -> None:
        for text in (self.PROGRAM.format("pass"), self.FIRST_GENERATION):
            for value in (None, "", "0"):
                run = self.run_program(text, value)
                self.assertEqual((run.returncode, run.stdout), (1, ""))
                self.assertIn("[M0214 wrong-result]", run.stderr)
                self.assertIn("set MSCCLPP_UNCHECKED_JSON=1", run.stderr)

    def test_variable_makes_warnings_of_findings(self) -> None:
        for text in (self.PROGRAM.format("pass"), self.FIRST_GENERATION):
            run = self.run_program(text, "1")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(json.loads(run.stdout)["name"], "nothing")
            self.assertIn("warning: ", run.stderr)
            self.assertIn("[M0214 wrong-result]", run.stderr)

    def test_wrong_operation_has_no_plan(self) -> None:
        wrong = "Rank(0).copy(Rank(0).get_output_buffer()[0:9], Rank(0).get_input_buffer()[0:9], tb=0)"
        run = self.run_program(self.PROGRAM.format(f"try: {wrong}\n    except Exception: pass"), "1")
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertNotIn("MSCCLPP_UNCHECKED_JSON", run.stderr)


if __name__ == "__main__":
    unittest.main()
