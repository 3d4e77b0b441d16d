"""Plans: loading, checking, printing and running them. Tests of numpy and PyTorch are skipped where these are missing."""

from __future__ import annotations

import array
import errno
import json
import os
import pathlib
import pickle
import random
import re
import tempfile
import threading
import unittest
from typing import Any

import mscclpp_rs
from mscclpp_rs import Finding, Plan, PlanError

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]
try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

SEED = random.randrange(1 << 32)
REFERENCE_NAMES = ["default_allreduce_packet", "default_allreduce_nvls_packet", "default_allgather_fullmesh2"]


def broken() -> bytes:
    """Returns a plan without one of its signals."""
    plan = json.loads(Plan.builtin("allreduce_all_pairs", 2).to_json())
    operations = plan["gpus"][1]["threadblocks"][0]["ops"]
    last = max(index for index, operation in enumerate(operations) if operation["name"].endswith("signal"))
    del operations[last]
    return json.dumps(plan).encode()


class Loading(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.plan = Plan.builtin("allreduce_ring", 4)

    def test_files_of_all_formats_give_the_plan(self) -> None:
        for extension in ("json", "plan", "mscclpp"):
            path = self.folder / f"ring.{extension}"
            self.plan.save(path)
            for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
                self.assertEqual(Plan.load(source), self.plan)

    def test_missing_file_is_an_os_error_with_its_name(self) -> None:
        missing = self.folder / "none.json"
        with self.assertRaises(FileNotFoundError) as raised:
            Plan.load(missing)
        self.assertEqual((raised.exception.errno, raised.exception.filename), (errno.ENOENT, str(missing)))
        self.assertEqual(raised.exception.strerror, os.strerror(errno.ENOENT))
        for call in (
            lambda: Plan.load(self.folder),
            lambda: self.plan.save(self.folder / "no folder" / "ring.json"),
        ):
            with self.assertRaisesRegex(OSError, re.escape(str(self.folder))):
                call()

    def test_exceptions_of_paths_are_raised(self) -> None:
        class Failing:
            def __fspath__(self) -> str:
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            Plan.load(Failing())
        with self.assertRaises(UnicodeEncodeError):
            Plan.load("\ud800")

    def test_other_extensions_and_sources_are_rejected(self) -> None:
        with self.assertRaisesRegex(ValueError, "json, .plan or .mscclpp, found .*ring.txt"):
            self.plan.save(self.folder / "ring.txt")
        for source in (None, 1, [1, 2]):
            with self.assertRaises(TypeError):
                Plan.load(source)

    def test_bytes_that_are_no_plan_are_rejected(self) -> None:
        image = bytearray(self.plan.to_bytes())
        image[len(image) // 2] ^= 1
        for source in (b"", b"{}", b"[]", b"plan", b"\xff\0", bytes(image)):
            with self.assertRaises(PlanError) as raised:
                Plan.load(source)
            self.assertTrue(raised.exception.findings)

    def test_mutated_files_never_end_the_process(self) -> None:
        generator = random.Random(SEED)
        files = [self.plan.to_json(pretty=False).encode(), self.plan.text().encode(), self.plan.to_bytes()]
        for _ in range(60):
            data = bytearray(generator.choice(files))
            for _ in range(generator.randrange(1, 5)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            try:
                Plan.load(data)
            except PlanError as error:
                self.assertTrue(error.findings, f"seed {SEED}")

    def test_unknown_key_is_an_error_only_if_strict(self) -> None:
        text = self.plan.to_json().replace("{", '{"colour": 1,', 1)
        self.assertEqual(Plan.load(text.encode()), self.plan)
        with self.assertRaises(PlanError) as raised:
            Plan.load(text.encode(), strict=True)
        self.assertEqual(raised.exception.findings[0].slug, "unknown-key")

    def test_incorrect_plan_loads_only_without_checks(self) -> None:
        with self.assertRaises(PlanError) as raised:
            Plan.load(broken())
        finding = raised.exception.findings[0]
        self.assertEqual(finding.code, "M0201")
        self.assertIsInstance(finding.place, str)
        plan = Plan.load(broken(), check=False)
        self.assertEqual(plan.check(), raised.exception.findings)
        with self.assertRaisesRegex(ValueError, "expected a rule such as M0226, found `M9999`"):
            Plan.load(broken(), allow=["M9999"])


class Properties(unittest.TestCase):
    def test_properties_are_those_of_the_plan(self) -> None:
        plan = Plan.builtin("allreduce_packets", 4)
        self.assertEqual((plan.name, plan.collective, plan.num_ranks), ("allreduce_packets", "allreduce", 4))
        self.assertEqual((plan.protocol, plan.ranks_per_node), ("LL", 4))
        rank = json.loads(plan.to_json())["gpus"][0]
        self.assertEqual(plan.chunks(), (rank["input_chunks"], rank["output_chunks"], rank["scratch_chunks"]))
        self.assertEqual(plan.check(), ())
        self.assertIn("allreduce of 4 ranks", repr(plan).replace(" in place", ""))
        with self.assertRaisesRegex(ValueError, r"expected a rank in 0\.\.4, found 4"):
            plan.chunks(4)

    def test_equal_plans_are_equal_and_hash_alike(self) -> None:
        first, second, other = (Plan.builtin(name, 2) for name in ("allreduce_ring", "allreduce_ring", "allgather_ring"))
        self.assertEqual(first, second)
        self.assertEqual(len({first, second, other}), 2)
        self.assertEqual(first.digest, second.digest)
        self.assertEqual(pickle.loads(pickle.dumps(first)), first)

    def test_text_loads_and_show_has_one_rank(self) -> None:
        plan = Plan.builtin("allreduce_ring", 3)
        self.assertEqual(Plan.load(plan.text().encode()), plan)
        self.assertEqual(str(plan), plan.text())
        self.assertLess(len(plan.show(1)), len(plan.show()))
        with self.assertRaises(ValueError):
            plan.show(3)

    def test_plan_for_the_reference_has_only_its_keys(self) -> None:
        plan = Plan.builtin("allreduce_hierarchical", 4, ranks_per_node=2)
        self.assertIn("ranks_per_node", json.loads(plan.to_json()))
        self.assertNotIn("ranks_per_node", json.loads(plan.to_json(for_reference=True)))

    def test_builtin_algorithms_are_found_by_name(self) -> None:
        self.assertIn("allreduce_ring", Plan.builtin_names())
        for name in REFERENCE_NAMES:
            self.assertEqual(Plan.builtin(name, 2).num_ranks, 2)
        for call in (
            lambda: Plan.builtin("nonsense", 2),
            lambda: Plan.builtin("allreduce_ring", 0),
            lambda: Plan.builtin("allreduce_hierarchical", 4),
            lambda: Plan.builtin("allreduce_ring", 4, ranks_per_node=3),
            lambda: Plan.builtin("allreduce_ring", 2, arguments={"nonsense": 1}),
        ):
            with self.assertRaises(ValueError):
                call()
        for call in (lambda: Plan.builtin("allreduce_ring", -1), lambda: Plan.builtin("allreduce_ring", "2")):
            with self.assertRaises((TypeError, OverflowError)):
                call()

    def test_finding_is_a_value(self) -> None:
        plan = Plan.load(broken(), check=False)
        first, second = plan.check()[0], plan.check()[0]
        self.assertIsInstance(first, Finding)
        self.assertEqual(first, second)
        with self.assertRaises(AttributeError):
            first.code = "M0001"


class Runs(unittest.TestCase):
    def test_arrays_of_the_standard_library_are_reduced(self) -> None:
        for typecode, dtype in (("f", "float32"), ("d", "float64"), ("i", "int32"), ("B", "uint8"), ("q", "int64")):
            with self.subTest(dtype):
                inputs = [array.array(typecode, [rank + 1, 2, 3, 4, 5]) for rank in range(3)]
                outputs = mscclpp_rs.run(Plan.builtin("allreduce_packets", 3), inputs)
                self.assertEqual([output.tolist() for output in outputs], [[6, 6, 9, 12, 15]] * 3)
                self.assertEqual(outputs[0].format, typecode)
                self.assertEqual(inputs[0].tolist(), [1, 2, 3, 4, 5])

    def test_every_collective_has_its_result(self) -> None:
        ranks = 4
        inputs = [array.array("i", [100 * rank + index for index in range(8)]) for rank in range(ranks)]
        flat = [list(given) for given in inputs]
        sums = [sum(column) for column in zip(*flat)]
        expected = {
            "allreduce_ring": [sums] * ranks,
            "allgather_ring": [sum(flat, [])] * ranks,
            "reducescatter_ring": [sums[2 * rank : 2 * rank + 2] for rank in range(ranks)],
            "alltoall_direct": [[flat[peer][2 * rank + k] for peer in range(ranks) for k in (0, 1)] for rank in range(ranks)],
            "send_recv": [flat[(rank - 1) % ranks] for rank in range(ranks)],
            "broadcast_packets": [flat[0]] * ranks,
        }
        for name, results in expected.items():
            with self.subTest(name):
                outputs = mscclpp_rs.run(Plan.builtin(name, ranks), inputs)
                self.assertEqual([output.tolist() for output in outputs], results)

    def test_reduction_and_accumulator_are_used(self) -> None:
        inputs = [array.array("i", [3, -4]), array.array("i", [-5, 6])]
        plan = Plan.builtin("allreduce_all_pairs", 2)
        for op, expected in (("min", [-5, -4]), ("max", [3, 6]), ("prod", [-15, -24]), ("sum", [-2, 2])):
            self.assertEqual(mscclpp_rs.run(plan, inputs, op=op)[1].tolist(), expected)
        # 0.5 and 1 as halves: the type may be named, for bytes.
        halves = [bytes([0, 0x38, 0, 0x3C])] * 2
        outputs = mscclpp_rs.run(plan, halves, dtype="float16", accumulate="f32")
        self.assertEqual(outputs[0].tobytes(), bytes([0, 0x3C, 0, 0x40]))
        with self.assertRaises(ValueError):
            mscclpp_rs.run(plan, inputs, accumulate="f32")

    def test_inputs_that_do_not_fit_are_rejected(self) -> None:
        plan = Plan.builtin("allreduce_ring", 2)
        good = array.array("f", [1.0, 2.0])
        for inputs in ([], [good], [good] * 3, [good, good[:1]]):
            with self.assertRaises(ValueError):
                mscclpp_rs.run(plan, inputs)
        for inputs in ([good, array.array("d", [1.0])], [good, None], [1, 2], ["ab", "cd"]):
            with self.assertRaises(TypeError):
                mscclpp_rs.run(plan, inputs)
        for options in ({"op": "xor"}, {"dtype": "float33"}, {"dtype": "complex64"}, {"accumulate": "f8"}, {"count": 3}):
            with self.subTest(options), self.assertRaises((ValueError, mscclpp_rs.Error)):
                mscclpp_rs.run(plan, [good, good], **options)
        for dtype in ("float3", "float8_e4m3fnuz", "int16"):
            with self.assertRaisesRegex(ValueError, f"expected a data type such as float32, found `{dtype}`"):
                mscclpp_rs.run(plan, [good, good], dtype=dtype)
        with self.assertRaises(TypeError):
            mscclpp_rs.run(plan, [good, good], dtype=float)
        with self.assertRaises((OverflowError, ValueError)):
            mscclpp_rs.run(plan, [good, good], count=-1)
        with self.assertRaises(ValueError):
            mscclpp_rs.run(Plan.builtin("reducescatter_ring", 2), [array.array("f", [1.0] * 3)] * 2)
        with self.assertRaises(ValueError):
            mscclpp_rs.run(plan, [memoryview(array.array("f", [1.0] * 4))[::2]] * 2)

    def test_types_have_the_names_of_pytorch_too(self) -> None:
        # 1 and 2, whose sum is 3.
        inputs = [bytes([0x38]), bytes([0x40])]
        outputs = mscclpp_rs.run(Plan.builtin("allreduce_all_pairs", 2), inputs, dtype="float8_e4m3fn")
        self.assertEqual(outputs[0].tobytes(), bytes([0x44]))
        self.assertEqual(mscclpp_rs.sizes(Plan.builtin("allgather_ring", 2), 8, dtype="float8_e5m2"), (4, 8))

    def test_deadlock_is_an_error(self) -> None:
        plan = Plan.load(broken(), check=False)
        with self.assertRaises(mscclpp_rs.Error) as raised:
            mscclpp_rs.run(plan, [array.array("f", [1.0] * 4)] * 2)
        self.assertEqual(raised.exception.kind, "stalled")

    def test_sizes_and_times(self) -> None:
        plan = Plan.builtin("allgather_ring", 4)
        self.assertEqual(mscclpp_rs.sizes(plan, 8), (2, 8))
        with self.assertRaises(mscclpp_rs.Error):
            mscclpp_rs.sizes(plan, 7)
        timing = mscclpp_rs.time(plan, 64, warmup=1, launches=3)
        self.assertEqual(len(timing.seconds), 3)
        self.assertTrue(0 < timing.minimum <= timing.median)
        for options in ({"launches": 0}, {"warmup": -1}):
            with self.assertRaises(ValueError):
                mscclpp_rs.time(plan, 64, **options)

    def test_threads_run_plans_at_the_same_time(self) -> None:
        plan = Plan.builtin("allreduce_ring", 2)
        results: list[list[float]] = []

        def work(value: int) -> None:
            outputs = mscclpp_rs.run(plan, [array.array("f", [value] * 1000)] * 2)
            results.append([value, *set(outputs[0].tolist())])

        threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(results), [[float(value), 2.0 * value] for value in range(4)])


@unittest.skipIf(numpy is None, "numpy is missing")
class Numpy(unittest.TestCase):
    def test_arrays_keep_type_and_shape(self) -> None:
        for dtype in ("float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"):
            inputs = [numpy.arange(12, dtype=dtype).reshape(3, 4) + rank for rank in range(2)]
            outputs = mscclpp_rs.run(Plan.builtin("allreduce_all_pairs", 2), [given.astype(dtype) for given in inputs])
            for output in outputs:
                numpy.testing.assert_array_equal(output, inputs[0] + inputs[1])
                self.assertEqual((output.dtype.name, output.shape), (dtype, (3, 4)))

    def test_outputs_of_another_length_are_flat(self) -> None:
        outputs = mscclpp_rs.run(Plan.builtin("allgather_ring", 2), [numpy.full((2, 2), rank) for rank in range(2)])
        self.assertEqual(outputs[1].tolist(), [0] * 4 + [1] * 4)

    def test_rows_of_an_array_are_inputs(self) -> None:
        outputs = mscclpp_rs.run(Plan.builtin("allreduce_ring", 2), numpy.arange(8, dtype=numpy.float32).reshape(2, 4))
        self.assertEqual(outputs[1].tolist(), [4, 6, 8, 10])

    def test_sums_of_truth_values_are_truth_values(self) -> None:
        inputs = [numpy.array([True, False]), numpy.array([True, False])]
        for output in mscclpp_rs.run(Plan.builtin("allreduce_ring", 2), inputs):
            self.assertEqual(output.view(numpy.uint8).tolist(), [1, 0])

    def test_arrays_that_are_not_contiguous_are_rejected(self) -> None:
        with self.assertRaisesRegex(ValueError, "contiguous"):
            mscclpp_rs.run(Plan.builtin("allreduce_ring", 2), [numpy.zeros((4, 4)).T[::2]] * 2)

    def test_objects_with_dlpack_alone_are_read(self) -> None:
        class Exported:
            def __init__(self, content: Any) -> None:
                self.content = content

            def __dlpack__(self, **options: Any) -> Any:
                return self.content.__dlpack__(**options)

            def __dlpack_device__(self) -> Any:
                return self.content.__dlpack_device__()

        outputs = mscclpp_rs.run(Plan.builtin("allreduce_ring", 2), [Exported(numpy.ones(4, numpy.float32))] * 2)
        self.assertEqual(outputs[0].tolist(), [2.0] * 4)


@unittest.skipIf(torch is None, "PyTorch is missing")
class Torch(unittest.TestCase):
    def test_tensors_keep_type_and_shape(self) -> None:
        plan = Plan.builtin("allreduce_all_pairs", 2)
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32, torch.int64, torch.uint8):
            inputs = [(torch.arange(6).reshape(2, 3) + rank).to(dtype) for rank in range(2)]
            for output in mscclpp_rs.run(plan, inputs):
                self.assertTrue(torch.equal(output, inputs[0] + inputs[1]))
                self.assertEqual(output.dtype, dtype)

    def test_rows_of_a_tensor_are_inputs(self) -> None:
        outputs = mscclpp_rs.run(Plan.builtin("allreduce_ring", 2), torch.arange(8.0).reshape(2, 4))
        self.assertEqual(outputs[1].tolist(), [4, 6, 8, 10])

    def test_truth_values_and_negated_views_have_their_values(self) -> None:
        plan = Plan.builtin("allreduce_ring", 2)
        truth = mscclpp_rs.run(plan, [torch.tensor([True, False])] * 2)[0]
        self.assertEqual(truth.view(torch.uint8).tolist(), [1, 0])
        negated = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
        self.assertEqual(mscclpp_rs.run(plan, [negated.contiguous()] * 2)[0].tolist(), [-4.0, -8.0])
        self.assertEqual(mscclpp_rs.run(plan, [torch._neg_view(torch.ones(2))] * 2)[0].tolist(), [-2.0, -2.0])

    def test_empty_tensors_have_empty_results(self) -> None:
        outputs = mscclpp_rs.run(Plan.builtin("allreduce_ring", 2), [torch.empty(0)] * 2)
        self.assertEqual([output.numel() for output in outputs], [0, 0])

    def test_unsupported_tensors_are_rejected(self) -> None:
        plan = Plan.builtin("allreduce_ring", 2)
        for tensor in (torch.zeros(4, 4).t(), torch.zeros(2, device="meta"), torch.zeros(2, dtype=torch.complex64)):
            with self.assertRaises(ValueError):
                mscclpp_rs.run(plan, [tensor, tensor])


if __name__ == "__main__":
    unittest.main()
