"""The blocks of the reference system's documents that record programs, as they stand, in the smallest frame that they need."""

import array
import contextlib
import io
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mscclpp
import mscclpp_rs
from blocks import Block, documents, read
from mscclpp import language
from mscclpp.language import AllReduce, CollectiveProgram, MemoryChannel, Rank, SyncType, TestCollective

DOCUMENTS = {path.name[:3]: read(path) for path in documents()}
# A fragment has no postcondition, and may write to its input.
FRAGMENT = ["M0226", "M0217"]


def block(document: str, number: int) -> Block:
    return DOCUMENTS[document][number - 1]


def names() -> dict[str, object]:
    """Returns what `from mscclpp.language import *` defines."""
    return {name: getattr(language, name) for name in language.__all__}


def is_sum(plan: mscclpp_rs.Plan) -> None:
    """Runs an all-reduce in place on the CPU, and compares all elements."""
    ranks = plan.num_ranks
    inputs = [array.array("f", [rank + at for at in range(64)]) for rank in range(ranks)]
    expected = [sum(rank + at for rank in range(ranks)) for at in range(64)]
    for output in mscclpp_rs.run(plan, inputs):
        assert list(memoryview(output).cast("B").cast("f")) == expected, output


def handshakes(ranks: int, **last: object) -> None:
    """All ranks wait for each other."""
    channels = [MemoryChannel(peer, rank) for rank in range(ranks) for peer in range(ranks) if peer != rank]
    for channel in channels:
        channel.signal(tb=0, **last)
    for channel in channels:
        channel.wait(tb=0, data_sync=SyncType.after)


class Integration(unittest.TestCase):
    def test_000_3_all_reduce_by_a_switch(self) -> None:
        found = block("000", 3).run(names())
        program = found["allreduce_example"]("allreduce_example", 4, 1024, 0, 2**30)
        is_sum(program.plan())

    def test_001_7_and_8_algorithm_of_a_specification(self) -> None:
        found = block("001", 8).run(block("001", 7).run({}))
        algorithm = found["setup_algorithm"](rank=1, world_size=8, nranks_per_node=8)
        self.assertEqual((algorithm.name, algorithm.collective, algorithm.tags), ("allreduce_nvls", "allreduce", {"nvls": 1}))
        spec = mscclpp.AlgoSpec("small", AllReduce(4, 1, True), 4, 4, True, 2, "Simple")
        is_sum(found["allreduce_nvls"](spec).plan())


class Guide(unittest.TestCase):
    def test_002_1_buffers_and_chunks(self) -> None:
        with CollectiveProgram("fragment", TestCollective(1, 2, 2), 1) as program:
            block("002", 1).run(names() | {"rank_id": 0})
        self.assertIn("re sum input[0] <- input[0], input[1]", program.plan(allow=FRAGMENT).show(0))

    def test_002_2_relaxed_signals(self) -> None:
        with CollectiveProgram("fragment", TestCollective(2, 1, 1), 2) as program:
            block("002", 2).run(names())
        self.assertIn("rlxwait memory rank 1", program.plan(allow=FRAGMENT).show(0))

    def test_002_3_all_reduce_by_a_switch(self) -> None:
        with CollectiveProgram("switch", AllReduce(2, 1, True), 2) as program:
            handshakes(2, relaxed=True)
            block("002", 3).run(names() | {"gpu_size": 2})
            handshakes(2, data_sync=SyncType.before)
        is_sum(program.plan())

    def test_002_4_barriers_and_semaphores(self) -> None:
        with CollectiveProgram("fragment", TestCollective(1, 1, 1), 1) as program:
            block("002", 4).run(names())
        self.assertIn("sem_acquire 0", program.plan(allow=FRAGMENT).show(0))

    def test_002_5_the_units_of_the_semaphore_do_not_order_the_loop(self) -> None:
        with CollectiveProgram("fragment", TestCollective(2, 1, 1), 2) as program:
            handshakes(2)
            chunks = {
                "src_chunk": Rank(0).get_input_buffer()[0:1],
                "dst_chunk": language.Buffer(0, 1)[0:1],
                "other_peer_chunk": Rank(1).get_output_buffer()[0:1],
            }
            found = names() | chunks
            # A number, until the block makes it a rank.
            found |= {"rank": 0, "src_rank": 0, "dst_rank": 1, "channel_type": language.Channel.memory}
            block("002", 5).run(found)
        with self.assertRaises(mscclpp_rs.PlanError) as rejected:
            program.plan(allow=FRAGMENT)
        # The semaphore begins at 1, so that the transfer does not wait for the copy.
        self.assertIn("M0210", {finding.code for finding in rejected.exception.findings})

    def test_002_6_calls_of_a_switch_name_no_rank(self) -> None:
        with CollectiveProgram("sketch", AllReduce(2, 1, False), 2), self.assertRaises(mscclpp_rs.PlanError) as rejected:
            block("002", 6).run(names() | {"scratch_buffer_size": 2})
        self.assertEqual([finding.code for finding in rejected.exception.findings], ["M0015"])


class FirstGeneration(unittest.TestCase):
    def test_003_2_and_3_chunks(self) -> None:
        from msccl.language import buffers, collectives, mscclpp

        found = {"chunk": mscclpp.chunk, "Buffer": buffers.Buffer}
        with mscclpp.MSCCLPPProgram("chunks", collectives.AllReduce(2, 4, True), 2, 1):
            block("003", 2).run(found | {"rank": 1, "index": 2, "size": 2})
            part = block("003", 3).run(found)["c"]
            self.assertEqual(len(part.split(2)), 2)
            with self.assertRaises(mscclpp_rs.PlanError):
                mscclpp.Check()


class QuickStart(unittest.TestCase):
    def test_004_2_prints_the_plan_of_an_all_gather(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            block("004", 2).run({})
        plan = mscclpp_rs.Plan.load(printed.getvalue().encode())
        self.assertEqual((plan.name, plan.num_ranks, len(json.loads(printed.getvalue())["gpus"])), ("simple_allgather_2gpus", 2, 2))
        inputs = [array.array("f", [rank + at for at in range(5)]) for rank in range(2)]
        for output in mscclpp_rs.run(plan, inputs):
            self.assertEqual(list(memoryview(output).cast("B").cast("f")), [0, 1, 2, 3, 4, 1, 2, 3, 4, 5])

    def test_004_3_to_7_its_parts(self) -> None:
        found = block("004", 3).run(names() | {"num_gpus": 2, "name": "parts", "src_rank": 0, "dst_rank": 1})
        # Three dots stand for further arguments, and the body is missing.
        begin = block("004", 4)
        self.assertEqual(begin.text.strip(), "with CollectiveProgram(name, collective, num_gpus, ...):")
        exec(begin.text.replace(", ...", "").replace(":", " as program: pass"), found)
        with found["program"]:
            for number in (5, 6):
                block("004", number).run(found)
            found["dst_chunk"] = Rank(1).get_output_buffer()[0:1]
            block("004", 7).run(found)
        self.assertIn("put memory rank 1 output[0] <- output[0]", found["program"].plan(check=False).show(0))


if __name__ == "__main__":
    unittest.main()
