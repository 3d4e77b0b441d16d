"""Tensors of another library than PyTorch, which DLPack describes in ways that PyTorch does not: what is read, and what is refused."""

from __future__ import annotations

import ctypes
import random
import unittest

from mscclpp_rs import InvalidInputError, _native


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("num_dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


READ = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("unused", ctypes.c_void_p * 4),
        ("read", READ),
        ("current_stream", ctypes.c_void_p),
    ]


class Tensor:
    """Elements of one byte, unless `bits` says otherwise, in the memory of a bytearray."""

    def __init__(self, memory, shape, strides=None, offset=0, begin=0, device=(1, 0), bits=8):
        self.memory, self.device, self.bits, self.offset = memory, device, bits, offset
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + begin
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)


@READ
def read(tensor, result):
    device_type, device_id = tensor.device
    result[0] = DlTensor(
        tensor.address, device_type, device_id, len(tensor.shape), 1, tensor.bits, 1, tensor.shape, tensor.strides, tensor.offset
    )
    return 0


TABLE = Table(1, 3, (ctypes.c_void_p * 4)(), read, None)
capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAME = b"dlpack_exchange_api"
Tensor.__dlpack_c_exchange_api__ = capsule(ctypes.addressof(TABLE), NAME, None)
_native.use_tensors(Tensor, lambda: False)
COMMUNICATOR = _native.Communicator.from_listener(_native.Listener(), 1, 60_000)


def copied(tensor, num_bytes, bits=8):
    """Returns the bytes that a call reads from a tensor, through an exchange of a rank with itself."""
    result = bytearray(num_bytes)
    COMMUNICATOR.all_to_all(Tensor(result, [num_bytes * 8 // bits], bits=bits), tensor, -1, False)
    return bytes(result)


class Tensors(unittest.TestCase):
    def test_elements_begin_at_the_offset(self):
        memory = bytearray(range(64))
        for offset in (0, 1, 8, 40):
            self.assertEqual(copied(Tensor(memory, [4, 6], offset=offset), 24), bytes(memory[offset : offset + 24]))

    def test_only_dense_elements_in_order_are_read(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}")
        choose = random.Random(seed)
        memory = bytearray(range(256))
        for _ in range(2000):
            shape = [choose.choice([1, 1, 2, 3, 4]) for _ in range(choose.randrange(4))]
            strides, next = [], 1
            for length in reversed(shape):
                strides.insert(0, next if choose.random() < 0.8 else choose.choice([-1, 0, 1, 2, 3, 4]))
                next *= length
            # The places of the elements, in their order.
            places = [0]
            for length, stride in zip(shape, strides):
                places = [place + stride * number for place in places for number in range(length)]
            tensor = Tensor(memory, shape, strides, begin=100)
            with self.subTest(shape=shape, strides=strides):
                if places == list(range(len(places))):
                    self.assertEqual(copied(tensor, len(places)), bytes(memory[100 : 100 + len(places)]))
                else:
                    with self.assertRaisesRegex(ValueError, "expected a contiguous tensor"):
                        copied(tensor, len(places))

    def test_elements_are_aligned(self):
        memory = bytearray(range(64))
        begin = -Tensor(memory, [1]).address % 8
        for begin, offset in ((begin, 4), (begin + 4, 0)):
            self.assertEqual(copied(Tensor(memory, [2], begin=begin, offset=offset, bits=32), 8, 32), bytes(memory[begin + offset :][:8]))
        for wrong in (1, 2, 3):
            for begin_of, offset in ((begin, wrong), (begin + wrong, 0)):
                with self.assertRaisesRegex(ValueError, "expected memory aligned to 4 bytes"):
                    copied(Tensor(memory, [2], begin=begin_of, offset=offset, bits=32), 8, 32)

    def test_what_is_no_memory_of_a_call_is_refused(self):
        memory = bytearray(8)
        for tensor, expected in (
            (Tensor(memory, [2], device=(4, 0)), "found one on device type 4 of DLPack"),
            (Tensor(memory, [1 << 40, 1 << 40]), "it exceeds the address space"),
            (Tensor(memory, [-1]), "it exceeds the address space"),
            (Tensor(memory, [2], bits=4), "expected elements of whole bytes"),
        ):
            with self.assertRaisesRegex(InvalidInputError, expected):
                copied(tensor, 2)
        with self.assertRaisesRegex(TypeError, "expected a tensor, found list"):
            copied([1, 2], 2)


if __name__ == "__main__":
    unittest.main()
