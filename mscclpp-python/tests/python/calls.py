"""Calls of the reference's interface by the ranks of a job on the CPU: what they return, and what is rejected and how.

The tests run in order, and all ranks make the same calls.
"""

from __future__ import annotations

import os
import signal
import time
import unittest
from typing import Any

import torch
import torch.distributed as dist

import mscclpp
import mscclpp.utils
from mscclpp.language import *
from mscclpp_rs import Error, Plan

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GROUP: mscclpp.CommGroup


def algorithm(plan: Plan) -> mscclpp.Algorithm:
    return mscclpp.Algorithm(id=plan.digest, execution_plan=mscclpp.ExecutionPlan.from_plan(plan, RANK))


def execute(algo: mscclpp.Algorithm, input: torch.Tensor, output: torch.Tensor, **options: Any) -> int:
    arguments: dict[str, Any] = {
        "comm": GROUP.communicator,
        "input_buffer": input.data_ptr(),
        "output_buffer": output.data_ptr(),
        "input_size": input.nbytes,
        "output_size": output.nbytes,
        "dtype": mscclpp.utils.torch_dtype_to_mscclpp_dtype(input.dtype),
    }
    return algo.execute(**(arguments | options))


def values(elements: int, rank: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return (torch.arange(elements) % 11 + 3 * rank + 1).to(dtype)


class Calls(unittest.TestCase):
    def test_group_has_the_ranks_of_the_job(self) -> None:
        self.assertEqual((GROUP.my_rank, GROUP.nranks, GROUP.nranks_per_node), (RANK, SIZE, SIZE))
        self.assertEqual(GROUP.nranks_per_ipc_domain, SIZE)
        self.assertIsNone(GROUP.communicator.native.device)
        GROUP.barrier()

    def test_ranks_send_arrays(self) -> None:
        given, received = values(5, RANK).numpy(), torch.zeros(5, dtype=torch.int32).numpy()
        GROUP.send(given, (RANK + 1) % SIZE, 7)
        GROUP.recv(received, (RANK - 1) % SIZE, 7)
        self.assertEqual(received.tolist(), values(5, (RANK - 1) % SIZE).tolist())
        GROUP.send(given, (RANK + 1) % SIZE, 8)
        with self.assertRaisesRegex(ValueError, "expected 8 bytes of rank .* with tag 8, found 20"):
            GROUP.recv(torch.zeros(2, dtype=torch.int32).numpy(), (RANK - 1) % SIZE, 8)

    def test_every_collective_has_its_result(self) -> None:
        inputs = [values(4 * SIZE, rank) for rank in range(SIZE)]
        total = torch.stack(inputs).sum(dim=0).to(torch.int32)
        expected = {
            "allreduce_packets": total,
            "allreduce_ring": total,
            "allgather_ring": torch.cat(inputs),
            "reducescatter_ring": total[4 * RANK : 4 * RANK + 4],
            "alltoall_direct": torch.cat([given[4 * RANK : 4 * RANK + 4] for given in inputs]),
            "send_recv": inputs[(RANK - 1) % SIZE],
            "broadcast_packets": inputs[0],
        }
        for name, result in expected.items():
            with self.subTest(name):
                output = torch.zeros_like(result)
                plan = Plan.builtin(name, SIZE, in_place=False)
                self.assertEqual(execute(algorithm(plan), inputs[RANK], output), 0)
                self.assertEqual(output.tolist(), result.tolist())

    def test_in_place_calls_name_the_buffer_or_the_part(self) -> None:
        plan = Plan.builtin("allgather_ring", SIZE, in_place=True)
        for whole in (False, True):
            buffer = torch.zeros(4 * SIZE, dtype=torch.int32)
            part = buffer[4 * RANK : 4 * RANK + 4]
            part.copy_(values(4, RANK))
            address = buffer.data_ptr() if whole else part.data_ptr()
            self.assertEqual(execute(algorithm(plan), part, buffer, input_buffer=address), 0)
            self.assertEqual(buffer.tolist(), torch.cat([values(4, rank) for rank in range(SIZE)]).tolist())

    def test_calls_without_elements_are_served_by_plans_of_both_kinds(self) -> None:
        input, output = torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=torch.int32)
        for in_place in (False, True):
            algo = algorithm(Plan.builtin("allreduce_ring", SIZE, in_place=in_place))
            self.assertEqual(execute(algo, input, output), 0)

    def test_types_and_reductions_are_those_of_the_call(self) -> None:
        algo = algorithm(Plan.builtin("allreduce_all_pairs", SIZE))
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.uint8):
            buffer = values(64, RANK, dtype)
            self.assertEqual(execute(algo, buffer, buffer, op=mscclpp.ReduceOp.MIN), 0)
            self.assertEqual(buffer.tolist(), values(64, 0, dtype).tolist())

    def test_builtin_algorithms_take_blocks_and_threads(self) -> None:
        collection = mscclpp.AlgorithmCollectionBuilder().build_default_algorithms(0, 0, RANK)
        (algo,) = [algo for algo in collection if algo.name == "default_allreduce_rsag_zero_copy"]
        self.assertTrue(algo.is_native_algorithm() and not algo.is_dsl_algorithm())
        algo.set_message_size_range(16, 1 << 20)
        self.assertEqual(algo.message_size_range, (16, 1 << 20))
        for blocks, threads in ((0, 0), (2, 256), (4, 1024)):
            buffer = values(640, RANK)
            result = execute(algo, buffer, buffer, op=mscclpp.ReduceOp.SUM, nblocks=blocks, nthreads_per_block=threads)
            self.assertEqual(result, 0)
            self.assertEqual(buffer.tolist(), sum(values(640, rank) for rank in range(SIZE)).tolist())

    def test_default_algorithms_refuse_what_their_counterparts_refuse(self) -> None:
        collection = mscclpp.AlgorithmCollectionBuilder().build_default_algorithms(0, 64, RANK)
        default = {algo.name.removeprefix("default_"): algo for algo in collection}
        for name, elements, blocks, threads, is_served in (
            ("allreduce_packet", 16, 0, 0, True),
            ("allreduce_packet", 16, SIZE - 1, 64, True),
            ("allreduce_packet", 16, 113, 64, False),
            ("allreduce_allpair_packet", 16, 2, 48, False),
            ("allreduce_rsag", 16, 2, 64, True),
            ("allreduce_rsag", 17, 2, 64, False),
            ("allreduce_rsag_pipeline", 1000, 8, 64, True),
            ("allreduce_fullmesh", 1000, 64, 1024, True),
            ("allreduce_fullmesh", 16, 65, 64, False),
            ("allreduce_rsag_zero_copy", 16, 2, 0, True),
        ):
            with self.subTest(name, elements=elements, blocks=blocks, threads=threads):
                buffer = values(elements, RANK)
                options = {"op": mscclpp.ReduceOp.SUM, "nblocks": blocks, "nthreads_per_block": threads}
                if is_served:
                    self.assertEqual(execute(default[name], buffer, buffer, **options), 0)
                    self.assertEqual(buffer.tolist(), sum(values(elements, rank) for rank in range(SIZE)).tolist())
                    continue
                with self.assertLogs("mscclpp", "WARNING") as logged:
                    result = execute(default[name], buffer, buffer, **options)
                self.assertEqual(result, mscclpp.CommResult.COMM_INVALID_ARGUMENT)
                self.assertIn("expected", logged.output[0])
                self.assertEqual(buffer.tolist(), values(elements, RANK).tolist())

    def test_unsupported_calls_return_a_code_on_all_ranks(self) -> None:
        collection = mscclpp.AlgorithmCollectionBuilder().build_default_algorithms(0, 0, RANK)
        (nvls,) = [algo for algo in collection if algo.name == "default_allreduce_nvls_zero_copy"]
        buffer = values(64, RANK)
        with self.assertLogs("mscclpp", "WARNING") as logged:
            self.assertEqual(execute(nvls, buffer, buffer), mscclpp.CommResult.COMM_INVALID_USAGE)
        self.assertIn("multicast hardware", logged.output[0])
        self.assertFalse(mscclpp.is_nvls_supported())
        limited = Plan.builtin("allreduce_ring", SIZE, in_place=True).to_json().replace('"min_message_size": 0', '"min_message_size": 4096')
        with self.assertLogs("mscclpp", "WARNING"):
            self.assertNotEqual(execute(algorithm(Plan.load(limited.encode())), buffer, buffer), 0)
        # The communicator serves further calls.
        self.assertEqual(execute(algorithm(Plan.builtin("allreduce_ring", SIZE, in_place=True)), buffer, buffer), 0)

    def test_invalid_calls_are_rejected_before_memory_is_used(self) -> None:
        algo = algorithm(Plan.builtin("allreduce_ring", SIZE, in_place=False))
        buffer, output = values(64, RANK), values(64, RANK)
        for options in (
            {"input_buffer": 0},
            {"input_buffer": buffer.data_ptr() + 1},
            {"input_size": 3},
            {"output_size": 128},
            {"input_size": 2**63, "output_size": 2**63},
            {"output_buffer": buffer.data_ptr() + 4},
        ):
            with self.subTest(options), self.assertRaises(Error) as raised:
                execute(algo, buffer, output, **options)
            self.assertEqual((raised.exception.kind, raised.exception.rank), ("invalid-input", RANK))
        for options in (
            {"dtype": mscclpp.DataType.float8_e4m3fnuz},
            {"dtype": 99},
            {"op": 99},
            {"accum_dtype": mscclpp.DataType.float32},
            {"extras": {"a": 1}},
        ):
            with self.subTest(options), self.assertRaises(ValueError):
                execute(algo, buffer, output, **options)
        for options in ({"input_size": -4}, {"input_buffer": -1}, {"stream": -1}, {"input_buffer": 2**64}):
            with self.subTest(options), self.assertRaises((OverflowError, ValueError)):
                execute(algo, buffer, output, **options)
        custom = Plan.builtin("allreduce_ring", SIZE).to_json().replace('"allreduce"', '"custom"')
        with self.assertLogs("mscclpp", "WARNING") as logged:
            code = execute(algorithm(Plan.load(custom.encode(), check=False)), buffer, output)
        self.assertEqual(code, mscclpp.CommResult.COMM_INVALID_USAGE)
        self.assertIn("found custom", logged.output[0])

    def test_executor_runs_compiled_programs(self) -> None:
        def swap(spec: AlgoSpec) -> CollectiveProgram:
            with CollectiveProgram.from_spec(spec) as program:
                for rank in range(SIZE):
                    after, before = MemoryChannel((rank + 1) % SIZE, rank), None
                    before = after if SIZE == 2 else MemoryChannel((rank - 1) % SIZE, rank)
                    before.signal(tb=0, relaxed=True)
                    after.wait(tb=0, relaxed=True, data_sync=SyncType.after)
                    target = Rank((rank + 1) % SIZE).get_output_buffer()
                    after.put(target[:], Rank(rank).get_input_buffer()[:], tb=0)
                    after.signal(tb=0, data_sync=SyncType.before)
                    before.wait(tb=0, data_sync=SyncType.after)
            return program

        spec = AlgoSpec("swap", SendRecv(SIZE, 1, False), SIZE, SIZE, False, 2, "Simple", tags={"fast": 1})
        algo = mscclpp.compile(swap, spec, RANK)
        self.assertEqual((algo.name, algo.collective, algo.tags), ("swap", "sendrecv", {"fast": 1}))
        self.assertEqual(algo.buffer_mode.name, "OUT_OF_PLACE")
        executor = mscclpp.Executor(GROUP.communicator)
        for elements in (64, 1000):
            given, output = values(elements, RANK), torch.zeros(elements, dtype=torch.int32)
            arguments = (given.data_ptr(), output.data_ptr(), given.nbytes, output.nbytes, mscclpp.DataType.int32)
            executor.execute(RANK, *arguments, algo.execution_plan)
            self.assertEqual(output.tolist(), values(elements, (RANK - 1) % SIZE).tolist())
            executor.reset()
        with self.assertRaises(ValueError):
            executor.execute(RANK + 1, *arguments, algo.execution_plan)
        with self.assertRaises(ValueError):
            executor.execute(RANK, *arguments, algo.execution_plan, 0, 2)
        for call in (
            lambda: mscclpp.Executor(GROUP),
            lambda: executor.execute(RANK, *arguments, algo.execution_plan.plan),
            lambda: execute(algo, given, output, comm=GROUP),
            lambda: mscclpp.Algorithm(execution_plan=algo.execution_plan.plan),
        ):
            with self.assertRaisesRegex(TypeError, "expected (the communicator of a CommGroup|an ExecutionPlan)"):
                call()

    def test_executor_takes_packets_of_both_sizes(self) -> None:
        plan = mscclpp.ExecutionPlan.from_plan(Plan.builtin("allreduce_packets", SIZE, in_place=False), RANK)
        executor = mscclpp.Executor(GROUP.communicator)
        for packets in (mscclpp.PacketType.LL8, mscclpp.PacketType.LL16):
            # Odd numbers of packets of 4 bytes of data, too.
            for elements in (SIZE, 3 * SIZE, 1000):
                given, output = values(elements, RANK), torch.zeros(elements, dtype=torch.int32)
                arguments = (given.data_ptr(), output.data_ptr(), given.nbytes, output.nbytes, mscclpp.DataType.int32)
                executor.execute(RANK, *arguments, plan, 0, packets)
                self.assertEqual(output.tolist(), sum(values(elements, rank) for rank in range(SIZE)).tolist())

    def test_buffers_are_tensors_of_the_host(self) -> None:
        buffer = mscclpp.RawGpuBuffer(64)
        self.assertEqual((buffer.nelems(), buffer.bytes(), buffer.device_id()), (64, 64, -1))
        tensor = torch.utils.dlpack.from_dlpack(buffer.to_dlpack(data_type=str(torch.float16), shape=[4, 8]))
        self.assertEqual((tensor.data_ptr(), tuple(tensor.shape), tensor.dtype), (buffer.data(), (4, 8), torch.float16))
        for call in (
            lambda: mscclpp.RawGpuBuffer(0),
            lambda: buffer.to_dlpack("torch.complex64"),
            lambda: buffer.to_dlpack("torch.float16", strides=[1]),
            lambda: mscclpp.RawGpuBuffer(3).to_dlpack("torch.float16"),
            lambda: mscclpp.GpuBuffer((4, 0)),
        ):
            with self.assertRaises(ValueError):
                call()
        for call in (
            lambda: buffer.to_dlpack("torch.uint8"),
            lambda: mscclpp.RawGpuBuffer(64).to_dlpack("torch.float32", shape=[3]),
            lambda: mscclpp.RawGpuBuffer(64).to_dlpack("torch.float32", shape=[-1]),
        ):
            with self.assertRaises(ValueError):
                call()
        raw = torch.utils.dlpack.from_dlpack(mscclpp.RawGpuBuffer(64).to_dlpack(data_type="fp8_e4m3b15", shape=[8, 8]))
        self.assertEqual((raw.dtype, tuple(raw.shape)), (torch.uint8, (8, 8)))
        self.assertEqual(mscclpp.GpuBuffer((2, 3), dtype="float32").shape, (2, 3))
        self.assertEqual(mscclpp.GpuBuffer(torch.tensor(4)).shape, (4,))
        for options in ({"order": "F"}, {"strides": (4, 8)}):
            with self.assertRaises(ValueError):
                mscclpp.GpuBuffer((2, 3), **options)

    def test_interrupted_call_raises_and_all_ranks_learn_of_it(self) -> None:
        group = mscclpp.CommGroup(torch_group=dist.group.WORLD)
        algo, buffer = algorithm(Plan.builtin("allreduce_ring", SIZE, in_place=True)), values(64, RANK)
        self.assertEqual(execute(algo, buffer, buffer, comm=group.communicator), 0)
        if RANK == 0:
            # No other rank makes this call.
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                execute(algo, buffer, buffer, comm=group.communicator)
            # A second on an idle machine; without the check of signals it is the timeout of calls.
            self.assertLess(time.monotonic() - begin, 15)
        dist.barrier()
        with self.assertRaises(Error) as raised:
            execute(algo, buffer, buffer, comm=group.communicator)
        self.assertEqual(raised.exception.root_cause, 0)

    def test_invalid_groups_are_rejected(self) -> None:
        for options in (
            {"mpi_comm": object(), "torch_group": dist.group.WORLD},
            {"torch_group": dist.group.WORLD, "interfaceIpPortTrio": "lo:127.0.0.1:1"},
            {"interfaceIpPortTrio": "lo:127.0.0.1:1"},
            {"interfaceIpPortTrio": "lo:127.0.0.1:1", "rank": 2, "size": 2},
            {"interfaceIpPortTrio": "lo:127.0.0.1", "rank": 0, "size": 2},
            {"interfaceIpPortTrio": "lo:127.0.0.1:99999", "rank": 0, "size": 2},
        ):
            with self.subTest(options), self.assertRaises(ValueError):
                mscclpp.CommGroup(**options)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    GROUP = mscclpp.CommGroup(torch_group=dist.group.WORLD, rank=RANK, size=SIZE)
    # The others do not wait for a rank that leaves a test early.
    unittest.main(failfast=True)
