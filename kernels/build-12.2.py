#!/usr/bin/env python3
"""Builds the kernels for drivers from CUDA 12.2 (535) on, which refuse what a later toolkit has made: machine code for sm_80 and sm_90, and
PTX for sm_90, which the driver compiles for later devices, by NVRTC 12.2. fp8 that is combined in wider types, and halves that are combined
in f64, are left out: their functions are large, a registry takes packages of 10 MiB, and such drivers get them from the NVRTC of the
machine. Called by `build.sh`.

    kernels/build-12.2.py WHEELS OUT TYPES   builds into OUT the kernels of the types in a file, with the wheels that `check.sh` installs
"""

import ctypes
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
wheels, out, types = map(pathlib.Path, sys.argv[1:4])

# The library opens a second one by its name alone.
ctypes.CDLL(str(wheels / "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.2"), ctypes.RTLD_GLOBAL)
nvrtc = ctypes.CDLL(str(wheels / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"))
fatbin = ctypes.CDLL(str(wheels / "nvidia/nvfatbin/lib/libnvfatbin.so.12"))


def strings(values):
    """Returns the number of some options and an array of them, as the libraries take them."""
    return len(values), (ctypes.c_char_p * len(values))(*[value.encode() for value in values])


def checked(name, status):
    """Ends the script if a call has failed."""
    if status != 0:
        sys.exit(f"{name}: error {status}")


class Program:
    """A source that NVRTC has compiled."""

    def __init__(self, source, name, options):
        self.handle = ctypes.c_void_p()
        checked("nvrtcCreateProgram", nvrtc.nvrtcCreateProgram(
            ctypes.byref(self.handle), source, name.encode(), 0, None, None))
        if nvrtc.nvrtcCompileProgram(self.handle, *strings(options)) != 0:
            sys.exit(self.bytes_of("nvrtcGetProgramLogSize", "nvrtcGetProgramLog").decode())

    def bytes_of(self, size, get):
        count = ctypes.c_size_t()
        checked(size, getattr(nvrtc, size)(self.handle, ctypes.byref(count)))
        data = ctypes.create_string_buffer(count.value)
        checked(get, getattr(nvrtc, get)(self.handle, data))
        return data.raw

    def code(self):
        return self.bytes_of("nvrtcGetCUBINSize", "nvrtcGetCUBIN")

    def ptx(self):
        return self.bytes_of("nvrtcGetPTXSize", "nvrtcGetPTX")


def image(element, accumulator):
    """Returns the fat binary of a pair of types."""
    handle = ctypes.c_void_p()
    count, options = strings(["-64", "-compress-all"])
    checked("nvFatbinCreate", fatbin.nvFatbinCreate(ctypes.byref(handle), options, count))
    for number in ["80", "90"]:
        program = Program((here / "executor.cu").read_bytes(), "executor.cu", [
            f"-I{here}", "--std=c++17", "--fmad=false", "--device-as-default-execution-space",
            f"--gpu-architecture=sm_{number}", f"-DMSCCLPP_T={element}", f"-DMSCCLPP_A={accumulator}"])
        code = program.code()
        checked("nvFatbinAddCubin", fatbin.nvFatbinAddCubin(
            handle, code, ctypes.c_size_t(len(code)), number.encode(), b"executor"))
    ptx = program.ptx()
    checked("nvFatbinAddPTX", fatbin.nvFatbinAddPTX(
        handle, ptx, ctypes.c_size_t(len(ptx)), b"90", b"executor", None))
    size = ctypes.c_size_t()
    checked("nvFatbinSize", fatbin.nvFatbinSize(handle, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    checked("nvFatbinGet", fatbin.nvFatbinGet(handle, data))
    fatbin.nvFatbinDestroy(ctypes.byref(handle))
    return data.raw


out.mkdir(parents=True, exist_ok=True)
for line in types.read_text().splitlines():
    name, element, accumulator = line.split()
    is_large = name.startswith("f8") and element != accumulator or name in ("f16_f64", "bf16_f64")
    if not is_large:
        (out / f"{name}.fatbin").write_bytes(image(element, accumulator))
