"""Names of Microsoft's package that need no other rank: registry, collections, compilation, default plans, and the import."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import types
import unittest
from typing import Any
from unittest import mock

import mscclpp
import mscclpp_rs
from mscclpp._core.environment import Environment
from mscclpp.default_algos import allgather_multi_nodes, allreduce_multi_nodes, reducescatter_multi_nodes
from mscclpp.dsl import jit
from mscclpp.language import *
from mscclpp_rs import Plan, PlanError, SelectorCall


def spec(collective: Collective, per_node: int, **options: Any) -> AlgoSpec:
    shared = {"protocol": "LL", "instances": 1, "auto_sync": False, "use_double_scratch_buffer": True}
    ranks, in_place = collective.num_ranks, collective.inplace
    return AlgoSpec("plan", collective, per_node, ranks, in_place, **(shared | options))


def swap(spec: AlgoSpec) -> CollectiveProgram:
    with CollectiveProgram.from_spec(spec) as program:
        for rank in range(2):
            channel = MemoryChannel(1 - rank, rank)
            channel.signal(tb=0, relaxed=True)
            channel.wait(tb=0, relaxed=True, data_sync=SyncType.after)
            channel.put(Rank(1 - rank).get_output_buffer()[:], Rank(rank).get_input_buffer()[:], tb=0)
            channel.signal(tb=0, data_sync=SyncType.before)
            channel.wait(tb=0, data_sync=SyncType.after)
    return program


def without_transfer(spec: AlgoSpec) -> CollectiveProgram:
    with CollectiveProgram.from_spec(spec) as program:
        pass
    return program


class Import(unittest.TestCase):
    def test_import_beside_microsofts_distribution_fails_with_the_reason(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            metadata = pathlib.Path(folder) / "mscclpp-0.9.0.dist-info" / "METADATA"
            metadata.parent.mkdir()
            metadata.write_text("Metadata-Version: 2.1\nName: mscclpp\nVersion: 0.9.0\n")
            path = os.pathsep.join([os.environ["PYTHONPATH"], folder])
            run = [sys.executable, "-c", "import mscclpp"]
            output = subprocess.run(run, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        self.assertNotEqual(output.returncode, 0)
        self.assertIn("ImportError: the distribution mscclpp 0.9.0 of Microsoft is installed", output.stderr)
        self.assertIn("pip uninstall", output.stderr)

    def test_import_beside_another_version_fails_with_both(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            metadata = pathlib.Path(folder) / "mscclpp_compat-9.8.7.dist-info" / "METADATA"
            metadata.parent.mkdir()
            metadata.write_text("Metadata-Version: 2.1\nName: mscclpp-compat\nVersion: 9.8.7\n")
            path = os.pathsep.join([os.environ["PYTHONPATH"], folder])
            run = [sys.executable, "-c", "import mscclpp"]
            output = subprocess.run(run, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        self.assertIn(f"mscclpp-compat 9.8.7 needs mscclpp-rs 9.8.7, found {mscclpp.__version__}", output.stderr)

    def test_all_names_exist(self) -> None:
        for name in mscclpp.__all__:
            self.assertTrue(hasattr(mscclpp, name), name)
        self.assertEqual(mscclpp.version["version"], mscclpp.__version__)

    def test_import_takes_no_torch(self) -> None:
        run = [sys.executable, "-c", "import sys, mscclpp; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"]
        self.assertEqual(subprocess.run(run).returncode, 0)


class Compilation(unittest.TestCase):
    def test_algorithm_is_the_plan_of_the_program(self) -> None:
        algo = mscclpp.compile(swap, AlgoSpec("swap", SendRecv(2, 1, False), 2, 2, False, 1, "Simple"), rank=1)
        self.assertEqual((algo.name, algo.collective, algo.constraint.world_size), ("swap", "sendrecv", 2))
        self.assertTrue(algo.is_dsl_algorithm())
        with self.assertRaises(TypeError):
            algo.set_message_size_range(0, 1)
        with self.assertRaisesRegex(ValueError, r"expected a rank in 0\.\.2 of plan swap, found 2"):
            mscclpp.compile(swap, AlgoSpec("swap", SendRecv(2, 1, False), 2, 2, False, 1, "Simple"), rank=2)

    def test_incorrect_program_is_rejected(self) -> None:
        given = AlgoSpec("none", SendRecv(2, 1, False), 2, 2, False, 1, "Simple")
        with self.assertRaises(PlanError) as raised:
            mscclpp.compile(without_transfer, given, 0)
        self.assertIn("M02", raised.exception.findings[0].code)
        with self.assertRaises(TypeError):
            mscclpp.compile(lambda spec: None, given, 0)
        with self.assertRaises(ValueError):
            mscclpp.compile("swap", given, 0)  # type: ignore[arg-type]

    def test_capsules_of_the_references_library_are_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, found None"):
            mscclpp.Algorithm.create_from_native_capsule(None)


COPY = """
#include "mscclpp_native.h"
KERNEL(256) allreduce_nothing(KERNEL_PARAM mscclpp::NativeCall call) {
  static_assert(sizeof(mscclpp::NativeCall) == 72 + 32 + 48 * 72, "as native.py writes it");
  static_assert(sizeof(mscclpp::MemoryChannel) == 72, "as native.py writes it");
  call.to_output(0, 0, call.output_bytes + STEP);
}
SIM_KERNEL(allreduce_nothing, mscclpp::NativeCall)
"""


class CompileNative(unittest.TestCase):
    """Without devices. Kernels run in `examples/native_algorithm.py`, on simulated devices."""

    def test_missing_file_is_reported(self) -> None:
        with self.assertRaises(FileNotFoundError):
            mscclpp.compile_native(name="none", file="none.cu")

    def test_file_and_source_exclude_each_other(self) -> None:
        for options in ({}, {"file": __file__, "source": COPY}):
            with self.assertRaisesRegex(ValueError, "expected a file or a source"):
                mscclpp.compile_native("both", **options)

    @unittest.skipIf(mscclpp_rs._native.has_devices(), "there are devices")
    def test_machine_without_devices_is_refused_with_the_reason(self) -> None:
        with self.assertRaisesRegex(mscclpp_rs.UnsupportedError, "expected a CUDA device, found none"):
            mscclpp.compile_native("copy", source=COPY, defines={"STEP": "0"})

    def test_missing_compiler_is_reported_with_what_to_install(self) -> None:
        program = "import mscclpp\nmscclpp.compile_native.compile_image('copy', source='', capability=(9, 0))"
        for value, text in (("/none/libnvrtc.so", "MSCCLPP_NVRTC names"), ("", "install NVRTC")):
            environment = os.environ | {"MSCCLPP_NVRTC": value, "LD_LIBRARY_PATH": ""}
            run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
            if value == "" and run.returncode == 0:
                # The loader finds it on this machine.
                continue
            self.assertIn("mscclpp_rs._errors.", run.stderr)
            self.assertIn(text, run.stderr)

    def test_image_of_a_device_of_another_machine(self) -> None:
        compile_image = mscclpp.compile_native.compile_image
        try:
            compile_image("empty", source="", capability=(9, 0))
        except mscclpp_rs.Error as error:
            self.skipTest(str(error))
        code, log = compile_image("copy", source=COPY, defines={"STEP": "0"}, capability=(9, 0))
        self.assertTrue(code.startswith(b"\x7fELF"), code[:16])
        self.assertIn("allreduce_nothing", log)
        with self.assertRaisesRegex(mscclpp_rs.Error, "copy.cu.*STEP"):
            compile_image("copy", source=COPY, capability=(9, 0))
        with self.assertRaisesRegex(mscclpp_rs.Error, "compute capability"):
            compile_image("copy", source=COPY, capability=(3, 0))


class DefaultPlans(unittest.TestCase):
    def test_programs_are_checked_plans(self) -> None:
        for program in (
            allgather_multi_nodes(spec(AllGather(4, 1, False), 2)),
            allreduce_multi_nodes(spec(AllReduce(4, 1, True), 2), 2),
            reducescatter_multi_nodes(spec(ReduceScatter(4, 1, True), 2, auto_sync=True)),
            reducescatter_multi_nodes(spec(ReduceScatter(4, 1, True), 2, auto_sync=True), thread_block_group_size=2),
        ):
            plan = program.plan()
            self.assertEqual((plan.num_ranks, plan.ranks_per_node, plan.check()), (4, 2, ()))
        for call in (
            lambda: allreduce_multi_nodes(spec(AllReduce(4, 1, True), 2), 0),
            lambda: allreduce_multi_nodes(spec(AllGather(4, 1, True), 2), 1),
        ):
            with self.assertRaises(ValueError):
                call()

    def test_install_writes_the_plans(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "default").mkdir()
            (pathlib.Path(folder) / "default" / "mine.json").write_text("{}")
            environment = os.environ | {"MSCCLPP_CACHE_DIR": folder}
            run = [sys.executable, "-m", "mscclpp", "--install"]
            output = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
            written = sorted(path.name for path in (pathlib.Path(folder) / "default").iterdir())
            self.assertEqual(len(written), 5)
            self.assertEqual(len(output.stdout.split()), 4)
            plan = json.loads((pathlib.Path(folder) / "default" / "allreduce_2nodes_1K_64K.json").read_text())
            self.assertEqual((plan["min_message_size"], plan["max_message_size"], len(plan["gpus"])), (1024, 65536, 16))


class Selection(unittest.TestCase):
    def setUp(self) -> None:
        self.registry = mscclpp.ExecutionPlanRegistry()
        self.registry.clear()
        self.addCleanup(self.registry.clear)
        for name, smallest, largest, tags in (("small", 0, 1023, {"a"}), ("large", 1024, 1 << 30, {"a": 2, "b": 1})):
            options = {"min_msg_size": smallest, "max_msg_size": largest, "tags": tags, "in_place": False, "rank": 1}
            mscclpp.plan.register(jit.compile(swap, name, "sendrecv", 2, 2, **options))

    def select(self, size: int, **options: int) -> str | None:
        world = {"world_size": 2, "n_ranks_per_node": 2} | options
        found = self.registry.select(collective="sendrecv", message_size=size, **world)
        return None if found is None else found.plan.name

    def test_plan_serves_its_world_and_sizes(self) -> None:
        self.assertEqual([self.select(size) for size in (1023, 1024, 1 << 31)], ["small", "large", None])
        self.assertIsNone(self.select(16, world_size=4))
        self.assertIsNone(self.registry.select("allreduce", 2, 2, message_size=16))

    def test_selectors_are_asked_in_order(self) -> None:
        requests = []

        def selector(plans: Any, request: Any) -> Any:
            requests.append((request.collective, request.message_size, request.in_place, sorted(plans)))
            return next((plan for plan in plans[request.collective] if "b" in plan.tags), None)

        mscclpp.plan.set_selector(selector)
        self.assertEqual([self.select(16), self.select(4096)], [None, "large"])
        self.registry.set_default_selector(lambda plans, request: plans[request.collective][0])
        self.assertEqual(self.select(16), "small")
        self.assertEqual(requests[0], ("sendrecv", 16, True, ["sendrecv"]))

    def test_selectors_that_return_something_else_are_reported(self) -> None:
        for found in ("small", True, self.registry.get_plans("sendrecv")):
            mscclpp.plan.set_selector(lambda plans, request, found=found: found)
            with self.assertRaisesRegex(TypeError, "expected the selector to return an ExecutionPlanHandle or None"):
                self.select(16)
        mscclpp.plan.set_selector(lambda plans, request: 1 / 0)
        with self.assertRaises(ZeroDivisionError):
            self.select(16)

    def test_ids_are_those_of_plans(self) -> None:
        (small, large) = self.registry.get_plans("sendrecv")
        self.assertIs(self.registry.get(small.id), small)
        self.assertEqual((small.tags, large.tags), ({"a": 1}, {"a": 2, "b": 1}))
        other = mscclpp.ExecutionPlanHandle.create(small.id, 2, 2, large.plan)
        with self.assertRaisesRegex(ValueError, "expected an id that no plan has"):
            self.registry.register_plan(other)
        with self.assertRaises(TypeError):
            self.registry.register_plan(large.plan)
        with self.assertRaisesRegex(ValueError, "found 'gossip'"):
            jit.compile(swap, "swap", "gossip", 2, 2)

    def test_collection_selects_with_both_selectors(self) -> None:
        mscclpp.AlgorithmCollectionBuilder.reset()
        self.addCleanup(mscclpp.AlgorithmCollectionBuilder.reset)
        builder = mscclpp.AlgorithmCollectionBuilder()
        self.assertIs(builder, mscclpp.ext.AlgorithmCollectionBuilder())
        algo = mscclpp.compile(swap, AlgoSpec("swap", SendRecv(2, 1, False), 2, 2, False, 1, "Simple"), 0)
        builder.add_algorithm_builder(algo)
        builder.set_algorithm_selector(lambda algorithms, request: None)
        builder.set_fallback_algorithm_selector(lambda algorithms, request: algorithms["sendrecv"]["swap"])
        collection = builder.build()
        self.assertIs(collection.select(mscclpp.Request("sendrecv", 2, 2, 16)), algo)
        builder.set_algorithm_selector(lambda algorithms, request: "swap")
        with self.assertRaisesRegex(TypeError, "expected the selector to return an Algorithm or None, found 'swap'"):
            builder.build().select(mscclpp.Request("sendrecv", 2, 2, 16))
        self.assertEqual(collection.get_by_collective("sendrecv"), [algo])
        builder.set_algorithm_selector(lambda algorithms, request: algorithms["sendrecv"]["swap"] if request.message_size > 8 else None)
        builder.set_fallback_algorithm_selector(lambda algorithms, request: None)
        (name,) = builder._of_calls
        call = SelectorCall("sendrecv", "f32", None, "any", 16, 16, 0, 2, 2, False, False, False, False)
        self.assertEqual(builder._select(call, ["send_recv", name]), name)
        self.assertIsNone(builder._select(call._replace(input_bytes=8), ["send_recv", name]))
        self.assertIsNone(builder._select(call, ["send_recv"]))
        default = builder.build_default_algorithms(0, 0, 0)
        self.assertEqual((len(default), default[0].name), (12, "default_allreduce_nvls_packet"))
        for name in (algorithm.name for algorithm in default):
            self.assertEqual(Plan.builtin(name, 2).num_ranks, 2)
        with self.assertRaises(ValueError):
            builder.add_algorithm_builder(default[0])
        with self.assertRaises(ValueError):
            collection.register_algorithm("allreduce", "swap", algo)


class Names(unittest.TestCase):
    def test_names_that_are_left_out_say_what_to_use_instead(self) -> None:
        for module, name, instead in [
            (mscclpp, "ProxyService", "CommGroup"),
            (mscclpp, "Fifo", "CommGroup"),
            (mscclpp, "numa", "mscclpp launch --bind"),
        ]:
            with self.assertRaisesRegex(AttributeError, instead):
                getattr(module, name)
        with self.assertRaisesRegex(AttributeError, "no attribute 'nothing'$"):
            mscclpp.nothing  # noqa: B018

    def test_arguments_are_packed_as_the_driver_takes_them(self) -> None:
        array = memoryview(bytearray(8))
        address = ctypes.c_size_t(1 << 40)
        tensor = types.SimpleNamespace(data_ptr=lambda: 0x1122334455667788)
        of_device = types.SimpleNamespace(__cuda_array_interface__={"data": (16, False)})
        found = mscclpp.utils.pack(1, True, address, b"xy", tensor, of_device)
        self.assertEqual(found, struct.pack("=iiQ2sQQ", 1, 1, 1 << 40, b"xy", 0x1122334455667788, 16))
        with self.assertRaisesRegex(TypeError, "expected a number, bytes, an array or a tensor, found <memory"):
            mscclpp.utils.pack(array)

    def test_variables_are_read_once_and_cannot_be_changed(self) -> None:
        variables = {"MSCCLPP_NPKIT_DUMP_DIR": "folder", "MSCCLPP_IB_GID_INDEX": "3", "MSCCLPP_CUDAIPC_USE_DEFAULT_STREAM": "true"}
        with mock.patch.dict(os.environ, variables):
            found = Environment()
        self.assertEqual((found.npkit_dump_dir, found.ib_gid_index, found.cuda_ipc_use_default_stream, found.ibv_mode), ("folder", 3, 1, "host"))
        with self.assertRaises(AttributeError):
            found.debug = "INFO"  # type: ignore[misc]
        self.assertIs(mscclpp.env(), mscclpp.env())
        with mock.patch.dict(os.environ, {"MSCCLPP_IB_GID_INDEX": "x"}), self.assertRaisesRegex(ValueError, "expected a number, found 'x'"):
            Environment()

    def test_modules_of_default_algorithms_have_their_functions(self) -> None:
        from mscclpp.comm import CommGroup
        from mscclpp.default_algos.allreduce_multi_nodes import allreduce_multi_nodes as of_module
        from mscclpp.dsl import presets

        self.assertIs(of_module, allreduce_multi_nodes)
        self.assertIs(CommGroup, mscclpp.CommGroup)
        handle = jit.compile(presets.allreduce_nvls, "nvls", "allreduce", 4, 4, instances=2, tags={"nvls"})
        self.assertEqual((handle.tags, handle.plan.collective), ({"nvls": 1}, "allreduce"))


if __name__ == "__main__":
    unittest.main()
