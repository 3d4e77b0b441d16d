"""The early spellings of the language, and its first generation: each gives the plan of today's spelling, or is refused by name."""

import array
import contextlib
import io
import unittest

import mscclpp_rs
from msccl.language.buffers import Buffer as Chunks
from msccl.language.collectives import AllGather as GatheredChunks
from msccl.language.collectives import AllReduce as ReducedChunks
from msccl.language.mscclpp import Check, Json, MSCCLPPProgram, chunk, rank
from msccl.language.types import ChannelType as Access
from msccl.language.types import DataFormat
from msccl.topologies import fully_connected
from mscclpp.language import *
from mscclpp_rs import PlanError

RANKS = 4


def plan(body, collective=None):
    with CollectiveProgram("spellings", collective or TestCollective(2, 2, 2), 2) as program:
        body()
    return program.plan(check=False)


class Spellings(unittest.TestCase):
    def same(self, early, today, collective=None):
        self.assertEqual(plan(early, collective).text(), plan(today, collective).text())

    def test_synchronizations_are_named_by_text_and_by_their_first_names(self):
        def early():
            channel = Channel(1, 0, Channel.memory)
            channel.relaxedSignal(tb=0, data_sync="before")
            channel.relaxedWait(tb=0, sync="both")
            channel.signal(tb=0, sync="none")
            semaphore = Rank.Semaphore(rank=0, size=3)
            semaphore.release(tb=0, sync="after")
            semaphore.acquire(tb=0, data_sync=SyncType.none)

        def today():
            channel = MemoryChannel(1, 0)
            channel.signal(tb=0, data_sync=SyncType.before, relaxed=True)
            channel.wait(tb=0, relaxed=True)
            channel.signal(tb=0, data_sync=SyncType.none)
            semaphore = Semaphore(0, 0)
            semaphore.release(tb=0, data_sync=SyncType.after)
            semaphore.acquire(tb=0, data_sync=SyncType.none)

        self.same(early, today)

    def test_loops_reductions_and_switches_have_their_first_names(self):
        def early():
            one, other = Rank(0).get_input_buffer()[0:1], Rank(0).get_input_buffer()[1:2]
            with Loop.iteration(unit=2**20, num_chunks=1) as iter:
                Rank(0).copy(Buffer(0, 1)[0:1], one, tb=0, iter_context=iter)
            Rank(0).reduce(one, other, op="max", tb=0)
            switch = SwitchChannel([0, 1], buffer=Buffer.input).at_rank(0)
            switch.group_load_reduce(0, size=1, dst_chunk=one, tb=0, op="sum")
            switch.group_store(one, 0, size=1, tb=0)

        def today():
            one, other = Rank(0).get_input_buffer()[0:1], Rank(0).get_input_buffer()[1:2]
            with LoopIterationContext(2**20, 1):
                Rank(0).copy(Buffer(0, 1)[0:1], one, tb=0)
            Rank(0).reduce(one, [other], tb=0, reduce_op=ReduceOperationType.max)
            switch = SwitchChannel([0, 1], BufferType.input).at_rank(0)
            switch.reduce(0, 1, one, 0)
            switch.broadcast(one, 0, 1, 0)

        self.same(early, today)

    def test_what_the_first_names_cannot_mean_is_refused(self):
        def check(expected, text, call):
            with self.assertRaisesRegex(expected, text), CollectiveProgram("refused", TestCollective(2, 2, 2), 2):
                call()

        check(PlanError, "M0015", lambda: SwitchChannel([0, 1], buffer=Buffer.input).group_store(0, size=1, tb=0))
        check(TypeError, "expected a BufferType", lambda: SwitchChannel([0, 1]))
        check(TypeError, "expected Channel.memory or Channel.port", lambda: Channel(1, 0, "fast"))
        check(TypeError, "expected a SyncType", lambda: MemoryChannel(1, 0).signal(tb=0, sync="sometimes"))
        check(TypeError, "found both or neither", lambda: Rank.Semaphore(0))
        check(TypeError, "found both", lambda: MemoryChannel(1, 0).signal(tb=0, data_sync="after", sync="none"))
        part = Chunk(0, BufferType.input, 0, 1)
        ops = {"op": "sum", "reduce_op": ReduceOperationType.max}
        check(TypeError, "found both", lambda: Rank(0).reduce(part, part, tb=0, **ops))
        other = LoopIterationContext(16, 1)
        check(ValueError, "iter_context", lambda: Rank(0).copy(Buffer(0, 1)[0:1], part, tb=0, iter_context=other))


def all_gather(ranks, handshake=True):
    others = [(one, peer) for one in range(ranks) for peer in range(ranks) if peer != one]
    if handshake:
        for one, peer in others:
            chunk(one, Chunks.input, 0).signal(peer, Chunks.output, one, sendtb=0)
        for one, peer in others:
            chunk(one, Chunks.output, peer).wait(peer, Chunks.input, 0, recvtb=0)
    for one, peer in others:
        mine = chunk(one, Chunks.input, 0)
        mine.put(peer, Chunks.output, one, sendtb=0, chan_type=Access.sm)
        mine.signal(peer, Chunks.output, one, sendtb=0)
    for one, peer in others:
        chunk(one, Chunks.output, peer).wait(peer, Chunks.input, 0, recvtb=0)


class FirstGeneration(unittest.TestCase):
    def test_all_gather_is_right(self):
        with MSCCLPPProgram("allgather", GatheredChunks(RANKS, 1, True), RANKS, 1) as program:
            all_gather(RANKS)
            self.assertTrue(Check())
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                Json()
        plan = mscclpp_rs.Plan.load(printed.getvalue().encode())
        self.assertEqual(plan.digest, program.plan().digest)
        outputs = mscclpp_rs.run(plan, [array.array("i", [rank, rank + 10]) for rank in range(RANKS)])
        expected = [value for rank in range(RANKS) for value in (rank, rank + 10)]
        self.assertEqual([memoryview(output).tolist() for output in outputs], [expected] * RANKS)

    def test_all_names_are_those_of_the_package_and_texts_name_members(self):
        names = {}
        exec("from msccl.language import *\nfrom msccl.topologies import *\nfrom msccl.language.collectives import SendRecv", names)

        def plan(scratch, output, proxy):
            with names["MSCCLPPProgram"]("swap", names["fully_connected"](2), names["SendRecv"](2, 1, False), 1) as program:
                parts = [names["chunk"](rank, names["Buffer"].input, 0) for rank in range(2)]
                for rank, part in enumerate(parts):
                    for call in (part.put, part.signal, part.flush):
                        call(1 - rank, scratch, 0, sendtb=0, chan_type=proxy)
                for rank in range(2):
                    part = names["chunk"](rank, scratch, 0)
                    part.wait(1 - rank, names["Buffer"].input, 0, recvtb=0, chan_type=proxy)
                    part.copy(rank, output, 0, sendtb=0)
            return program._made(check=False).text()

        members = (names["Buffer"].scratch, names["Buffer"].output, names["ChannelType"].proxy)
        self.assertEqual(plan("scratch", "output", "proxy"), plan(*members))

    def test_packets_reductions_and_references_are_recorded(self):
        with MSCCLPPProgram("allreduce", fully_connected(2), ReducedChunks(2, 2, True), 1, protocol="LL") as program:
            for one in range(2):
                whole = chunk(one, Chunks.input, 0, 2)
                first, second = whole.split(2)
                self.assertIsNot(first.group(second), whole)
                whole.put_packet(1 - one, Chunks.scratch, 0, sendtb=0, src_format=DataFormat.raw)
            for one in range(2):
                chunk(one, Chunks.input, 0, 2).reduce_packet(chunk(one, Chunks.intermediate, 0, 2), recvtb=0)
            # Launches would reuse the packets' memory.
            with self.assertRaises(PlanError) as rejected:
                Check()
        self.assertEqual({finding.code for finding in rejected.exception.findings}, {"M0211"})
        self.assertTrue(all(finding.place.file == __file__ for finding in rejected.exception.findings))
        self.assertIsNotNone(program)

    def test_findings_have_their_lines(self):
        with MSCCLPPProgram("allgather", GatheredChunks(RANKS, 1, True), RANKS, 1):
            all_gather(RANKS, handshake=False)
            with self.assertRaises(PlanError) as rejected:
                Check()
        finding = rejected.exception.findings[0]
        self.assertEqual((finding.code, finding.place.file), ("M0212", __file__))
        with MSCCLPPProgram("outside", GatheredChunks(2, 1, True), 2, 1):
            chunk(0, Chunks.input, 3).put(1, Chunks.output, 0, sendtb=0)
            with self.assertRaisesRegex(PlanError, "M0004"):
                Json()

    def test_calls_without_a_program_or_a_thread_block_are_refused(self):
        with self.assertRaisesRegex(PlanError, "there is no program"):
            chunk(0, Chunks.input, 0)
        with self.assertRaisesRegex(PlanError, "there is no program"):
            rank(0).barrier([0])
        with MSCCLPPProgram("refused", GatheredChunks(2, 1, True), 2, 1):
            mine = chunk(0, Chunks.input, 0)
            with self.assertRaisesRegex(ValueError, "thread block as sendtb"):
                mine.put(1, Chunks.output, 0)
            with self.assertRaisesRegex(TypeError, "expected a Buffer"):
                mine.put(1, "outputs", 0, sendtb=0)
            with self.assertRaisesRegex(TypeError, "expected a ChunkRef"):
                mine.reduce(0, recvtb=0)
        with self.assertRaisesRegex(TypeError, "expected a Collective"):
            MSCCLPPProgram("refused", 2, 2, 1)


if __name__ == "__main__":
    unittest.main()
