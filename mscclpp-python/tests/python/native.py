"""Sources with host code, without devices: how they are divided, and what is missing or wrong. `tests/native` has what needs devices."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sysconfig
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import mscclpp
import mscclpp_rs
from mscclpp._core import native_module
from mscclpp._core.native_build import compiled
from mscclpp._core.native_host import HostCommunicator
from mscclpp._core.native_includes import with_own_headers
from mscclpp._core.native_macros import with_device_macros
from mscclpp._core.native_source import device_text, has_host_code, host_text

ALGORITHM = """
#include <Python.h>
#include <mscclpp/algorithm.hpp>

std::shared_ptr<mscclpp::Algorithm> make() {
  return std::make_shared<mscclpp::NativeAlgorithm>(
      "name", "allgather", [](INIT) {}, [](const std::shared_ptr<void>, KERNEL) { return mscclpp::CommResult::CommSuccess; },
      [](std::shared_ptr<mscclpp::Communicator>, const void*, void*, size_t, size_t, mscclpp::DataType) { return CONTEXT; },
      [](const void*, void*, size_t, size_t, mscclpp::DataType, bool) { return KEY; });
}
"""
RIGHT = {
    "INIT": "std::shared_ptr<mscclpp::Communicator>",
    "KERNEL": "const void*, void*, size_t, size_t, mscclpp::DataType, mscclpp::ReduceOp, cudaStream_t, int, int, "
    "const std::unordered_map<std::string, uintptr_t>&",
    "CONTEXT": "std::shared_ptr<void>()",
    "KEY": "mscclpp::AlgorithmCtxKey()",
}


# The function of contexts throws what the macro THROWN has.
THROWING = (
    ALGORITHM.replace("return CONTEXT;", "THROWN; return CONTEXT;")
    + """
extern "C" __attribute__((visibility("default"))) PyObject* made() {
  return PyCapsule_New(new std::shared_ptr<mscclpp::Algorithm>(make()), mscclpp::ALGORITHM_NATIVE_CAPSULE_NAME, nullptr);
}
"""
)


def lines(text: str) -> list[str]:
    """Returns the lines that are not empty, without those that the division adds."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("#include", "#line", "#define MSCCLPP"))]


class Division(unittest.TestCase):
    def test_headers_tell_whether_a_source_has_host_code(self) -> None:
        for text, expected in (
            ("#include <mscclpp/core.hpp>", True),
            ('#  include "mscclpp/core.hpp"', True),
            ("#include <pybind11/pybind11.h>", True),
            ('#include "mscclpp_native.h"', False),
            ("// mscclpp/core.hpp", False),
            ("// #include <mscclpp/core.hpp>", False),
            ("/*\n#include <mscclpp/core.hpp>\n*/", False),
            ('const char* text = R"(\n#include <Python.h>\n)";', False),
            ("/* */ #include <Python.h> // for modules", True),
        ):
            self.assertEqual(has_host_code(text), expected, text)

    def test_launches_become_calls(self) -> None:
        for launch, expected in (
            ("k<<<1, 2>>>(x);", "::mscclpp::native::launch<(&k)>(1, 2)(x);"),
            ("if (y) a::k<T, (1 > 0)><<<f(a >>> b), n[0], 0, s>>>();", "if (y) ::mscclpp::native::launch<(&a::k<T, (1 > 0)>)>(f(a >>> b), n[0], 0, s)();"),
            ("::a::k<<<g, b>>>(x);", "::mscclpp::native::launch<(&::a::k)>(g, b)(x);"),
            ("(k)<<<g, b>>>(x);", "::mscclpp::native::launch<(&(k))>(g, b)(x);"),
            ("K(k)<<<g, b>>>(x);", "::mscclpp::native::launch<(&K(k))>(g, b)(x);"),
        ):
            text = f"void f() {{ {launch} }}"
            self.assertEqual(lines(host_text("x.cu", text)), [f"void f() {{ {expected} }}"])
        with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, "x.cu:2: expected '>>>' after '<<<'"):
            host_text("x.cu", "void f() {\n k<<<1, 2>(x); }")
        with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, "x.cu:2: expected the name of a kernel before '<<<'"):
            host_text("x.cu", "void f() {\n <<<1, 2>>>(x); }")

    def test_template_arguments_are_deduced_by_a_call(self) -> None:
        header = "template <int N, template <typename, int> class F, typename T = pair<int, int>, class... Ts>"
        kernel = f"{header} __global__ void __launch_bounds__(64, 2) k(T* x, Ts... more) {{ body(); }}"
        declared = f"{header} ::mscclpp::native::KernelConstant<(&k<N, F, T, Ts...>)> k_mscclpp_kernel(T* x, Ts... more);"
        for launch, expected in (
            ("a::k<4, F><<<1,\n2>>>(p, f(1, 2));", "::mscclpp::native::launch<decltype(a::k_mscclpp_kernel<4, F>(p, f(1, 2)))::kKernel>(1,\n2)(p, f(1, 2));"),
            ("k<<<1, 2>>>();", "::mscclpp::native::launch<decltype(k_mscclpp_kernel())::kKernel>(1, 2)();"),
            ("plain<<<1, 2>>>();", "::mscclpp::native::launch<(&plain)>(1, 2)();"),
        ):
            found = host_text("x.cu", f"{kernel}\n__global__ void plain() {{}}\nvoid f() {{ {launch} }}")
            self.assertIn(f"{kernel.replace(' body(); ', '')} {declared}\n__global__ void plain() {{}}\nvoid f() {{ {expected} }}\n", found)
        # The definition comes later.
        self.assertIn("launch<(&k<int>)>(1, 2)(x);", host_text("x.cu", "void f() { k<int><<<1, 2>>>(x); }\ntemplate <class T> __global__ void k(T* x) {}"))

    def test_launches_in_macros_become_calls(self) -> None:
        for macro, expected in (
            ("#define RUN(k) k<<<1, 2>>>(3)", "#define RUN(k) ::mscclpp::native::launch<(&k)>(1, 2)(3)"),
            (
                "#  define RUN(k, ...) \\\n  do { \\\n    n::k##_of<T> \\\n    <<<1, 2>>>(__VA_ARGS__); \\\n  } while (0)",
                "#  define RUN(k, ...) \\\n  do { \\\n    ::mscclpp::native::launch<(&n::k##_of<T> \\\n    )>(1, 2)(__VA_ARGS__); \\\n  } while (0)",
            ),
            ("#define NAME(x) #x\n#define SMALL (1 << 2) /* <<< */", "#define NAME(x) #x\n#define SMALL (1 << 2) /* <<< */"),
        ):
            self.assertIn(f"\n{expected}\nint x;", host_text("x.cu", f"{macro}\nint x;"))
        for macro, message in (
            ("#define BEGIN(k) k<<<1, 2", "expected '>>>' after '<<<', found none"),
            ("#define NUMBERS <<<1, 2>>>", "expected the name of a kernel before '<<<', found none"),
        ):
            with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, f"x.cu:2: {message}; write both in one text"):
                host_text("x.cu", f"\n{macro}\n")

    def test_macros_of_device_code_become_their_texts(self) -> None:
        for macros, use, expected in (
            ("#define DEV __device__ inline", "DEV int f();", "__device__ inline int f();"),
            ("#define K(T, ...) __global__ void k_##T(T* x) { f(#T, __VA_ARGS__); }", "K(int,\n  g(1, 2), 3)", '__global__ void k_int(int* x) { f("int", g(1, 2), 3); }'),
            ("#define D __device__\n#define F(name) \\\n  D int name() \\\n  { return 1; }", "F(f)", "__device__ int f() { return 1; }"),
            ("#define D __device__ D\n#undef X", "D D", "__device__ D __device__ D"),
            # Others stay: of the host, with several definitions, without arguments, not defined any more.
            ("#define H host()", "H;", "H;"),
            ("#ifdef X\n#define D __device__\n#else\n#define D __device__ inline\n#endif", "D int x;", "D int x;"),
            ("#define K(x) __global__ x", "K;", "K;"),
            ("#define D __device__\n#undef D", "D int x;", "D int x;"),
        ):
            found = with_device_macros("x.cu", f"{macros}\n{use}\nlast;")
            self.assertEqual(found, f"{macros}\n{expected}{chr(10) * use.count(chr(10))}\nlast;")
        bomb = "#define M0 __device__ x\n" + "".join(f"#define M{at + 1} M{at} M{at}\n" for at in range(40))
        with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, "x.cu: expected at most [0-9]+ characters of macros"):
            with_device_macros("x.cu", f"{bomb}M40")

    def test_host_code_has_no_bodies_of_device_functions(self) -> None:
        text = """
template <int N = 4>
__global__ void k(int* x) { x[N] = __shfl_sync(1, 2, 3); }
__device__ int table[2] = {1, 2};
__host__ __device__ int both() { return 1; }
struct S { __device__ void f() { asm("x"); } int value = 3; };
"""
        found = "\n".join(lines(host_text("x.cu", text)))
        self.assertNotIn("__shfl_sync", found)
        self.assertNotIn("asm", found)
        for kept in ("= {1, 2};", "{ return 1; }", "int value = 3;"):
            self.assertIn(kept, found)

    def test_device_code_is_kernels_and_what_they_name(self) -> None:
        text = """
#include <vector>
#include <mscclpp/core.hpp>
#define SIZE (kSize*kOther)
namespace ns {
constexpr int kSize = 3;
constexpr int kOther = 4;
constexpr int kThird = 5;
struct Used { int values[SIZE]; };
using Alias = Used;
enum class Mode { kFirst };
struct Context : public Base { std::vector<int> values; };
static std::string host(int x) { return "}"; }
class Builder { void f() { k<<<1, 2>>>(); } };
__global__ void __launch_bounds__(64, 2) k(Alias a) { __shared__ float part[4]; if (Mode::kFirst == f()) part[0] = 1; }
}  // namespace ns
PYBIND11_MODULE(x, m) { m.def("f", [] { return 1; }); }
"""
        found = device_text("x.cu", text, ["ns::k"])
        self.assertEqual(
            lines(found),
            [
                "#define SIZE (kSize*kOther)",
                "namespace ns {",
                "constexpr int kSize = 3;",
                "constexpr int kOther = 4;",
                "struct Used { int values[SIZE]; };",
                "using Alias = Used;",
                "enum class Mode { kFirst };",
                "__device__ void   k(Alias a) { MSCCLPP_SHARED(part,  float part[4]); if (Mode::kFirst == f()) part[0] = 1; }",
                "}",
                "namespace ns { MSCCLPP_KERNEL(mscclpp_kernel_0, ns::k) }",
            ],
        )
        self.assertIn("#include <mscclpp/core.hpp>", found)
        self.assertNotIn("#include <vector>", found)
        # Lines are those of the source, after the added ones.
        numbers = [[line.strip() for line in text.splitlines()].index("namespace ns {") for text in (found, text)]
        self.assertEqual(numbers[0] - 3, numbers[1])

    def test_names_of_constants_and_namespaces_are_found(self) -> None:
        for declaration, names in (
            ("const int N = 4, M = 5;", ["N", "M"]),
            ("constexpr int a[2] = {1, 2}, b{3}, c(4), d = f(5, 6), e;", ["a", "b", "c", "d", "e"]),
            ("constexpr int a = pair<1, 2>::of, b = c < d, e = 3;", ["a", "b", "e"]),
            ("namespace n = a::b;", ["n"]),
        ):
            for name in names:
                text = f"{declaration}\n__global__ void k() {{ use({name}); }}"
                self.assertEqual(lines(device_text("x.cu", text, []))[0], declaration, name)
        # Not what stands in types and values.
        for declaration in (
            "static const std::map<int, float> table = {{1, 2}};",
            "const auto first = value_of<int, long>::of;",
            "const auto second = text{1};",
        ):
            text = f"{declaration}\n__global__ void k(int of, long text) {{}}"
            self.assertNotIn(declaration, device_text("x.cu", text, []))

    def test_shared_memory_is_declared_by_macros(self) -> None:
        for declaration, expected in (
            ("extern __shared__ char s[];", "MSCCLPP_SHARED_OF_LAUNCH(s, char s);"),
            ("extern __align__(16) __shared__ char s[];", "MSCCLPP_SHARED_OF_LAUNCH(s, __align__(16) char s);"),
            ("extern __shared__ __align__(16) char s[];", "MSCCLPP_SHARED_OF_LAUNCH(s, __align__(16) char s);"),
            ("alignas(8) volatile extern __shared__ int s[];", "MSCCLPP_SHARED_OF_LAUNCH(s, alignas(8) volatile int s);"),
            ("static __shared__ T<1, 2> s[4][5];", "MSCCLPP_SHARED(s, T<1, 2> s[4][5]);"),
            ("a::T __shared__ s[2];", "MSCCLPP_SHARED(s, a::T s[2]);"),
            ("__align__(16) __shared__ float s;", "MSCCLPP_SHARED(s, __align__(16) float s);"),
        ):
            found = device_text("x.cu", f"__global__ void k() {{\n{declaration}\n}}", [])
            self.assertEqual(" ".join(lines(found)[1].split()).replace(", ", ",").replace(",", ", "), expected)

    def test_declarations_of_shared_memory_that_are_not_supported_are_refused(self) -> None:
        for declaration, message in (
            ("extern __shared__ char x[4];", "x.cu:2: expected an array without a size"),
            ("__shared__ int x, y;", "x.cu:2: expected one variable of shared memory"),
        ):
            with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, message):
                device_text("x.cu", f"__global__ void k() {{\n{declaration} }}", ["k"])

    def test_unbalanced_brackets_are_reported_with_their_line(self) -> None:
        for text in ("int x;\nvoid f() { (", "int x;\n__global__ void f() { (}", "\nint x[3;"):
            with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, "x.cu:2: expected a bracket that closes"):
                device_text("x.cu", text, [])

    def test_any_text_is_divided_or_refused(self) -> None:
        seeds = ["<<<", ">>>", "{", "}", "(", ")", "template", "<", ">", "__global__", "__shared__", ";", "=", '"', "R\"(", "'", "#", "\n", "::", "a"]
        seeds += ["\n#define a __global__", "\n#define f(a, ...) __device__ a ## #a __VA_ARGS__", "f", ",", "\\\n"]
        generator = random.Random(12345)
        for _ in range(3000):
            text = " ".join(generator.choices(seeds, k=12))
            divisions = (with_device_macros, host_text, lambda name, text: device_text(name, text, []))
            for divide in divisions:
                try:
                    divide("x.cu", text)
                except mscclpp_rs.InvalidInputError:
                    pass

    def test_headers_beside_the_source_tell_whether_it_has_host_code(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "x.cu"
            source.write_text('#include "own.hpp"\n__global__ void k() {}\n')
            (Path(folder) / "own.hpp").write_text("#include <Python.h>\nstatic_assert(sizeof(int) == 1);\n")
            # The host's compiler reports it.
            with self.assertRaisesRegex(mscclpp_rs.Error, "own.hpp:2:.*static assertion failed"):
                mscclpp.compile_native.compile_image("x", source, capability=(9, 0))

    def test_headers_beside_the_source_are_part_of_it(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "a.cuh").write_text('#pragma once\n#include "b.cuh"\n__device__ void f() {}\n')
            (folder / "b.cuh").write_text("#ifndef B\n#define B\nstruct B {};\n#endif\n")
            found = with_own_headers("x.cu", '#include "a.cuh"\n#include "b.cuh"\n#include "mscclpp/core.hpp"\nint x;', folder)
        self.assertEqual(found.count("struct B {};"), 1)
        self.assertIn('#include "mscclpp/core.hpp"', found)
        self.assertIn('#line 2 "x.cu"', found)

    def test_headers_are_included_where_a_preprocessor_includes_them(self) -> None:
        headers = {
            "once.h": "#pragma once\nint once;",
            "guarded.h": "#ifndef GUARDED\n#define GUARDED\n#include \"inner.h\"\nint guarded;\n#endif",
            "inner.h": "#pragma once\n#if 1\n#include \"guarded.h\"\n#endif\nint inner;",
            "each.h": "int ITEM;",
            "empty.h": "",
        }
        for source in (
            '#ifdef OTHER\n#include "once.h"\n#endif\n#include "once.h"\n#include "once.h"',
            '#ifndef OTHER\n#include "guarded.h"\n#else\n#include "inner.h"\n#endif\n#include "inner.h"\n#include "guarded.h"\nint after = __LINE__;',
            '#include "empty.h"\n#define ITEM a\n#include "each.h"\n#undef ITEM\n#define ITEM b\n#include "each.h"',
            '/*\n#include "once.h"\n*/\n#if 0\n#include "guarded.h"\n#endif\nint after = __LINE__;',
        ):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                for header, text in headers.items():
                    (folder / header).write_text(text)
                found = with_own_headers("x.cu", source, folder)
                self.assertNotIn("#include", found.replace('/*\n#include "once.h"', ""))
                for options in ([], ["-DOTHER"]):
                    preprocess = ["c++", "-E", "-P", "-x", "c++", *options, "-I", name, "-"]
                    texts = [subprocess.run(preprocess, input=text, capture_output=True, text=True, check=True).stdout for text in (source, found)]
                    self.assertEqual(texts[0].split(), texts[1].split(), f"{source}\n{options}")

    def test_headers_that_cannot_be_part_of_a_source_are_refused_with_their_path(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "latin.h").write_bytes(b"int x;\n// caf\xe9\n")
            (folder / "self.h").write_text('#ifdef A\n#include "self.h"\n#endif')
            for number in range(30):
                (folder / f"{number}.h").write_text(f'#include "{number + 1}.h"\n' * 2)
            (folder / "30.h").write_text("int x;")
            for header, message in (
                ("latin.h", "latin.h:2: expected text in UTF-8, found the byte 0xe9; save the file as UTF-8"),
                ("self.h", "self.h: expected a guard in a header that includes itself"),
                ("0.h", ".h: expected at most [0-9]+ characters of headers"),
            ):
                with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, f"{name}.*{message}"):
                    with_own_headers("x.cu", f'#include "{header}"', folder)
            with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, "latin.h:2: expected text in UTF-8"):
                mscclpp.compile_native.compile_image("name", folder / "latin.h", capability=(9, 0))


class HostCode(unittest.TestCase):
    def image(self, source: str) -> tuple[bytes, str]:
        return mscclpp.compile_native.compile_image("name", source=source, capability=(9, 0))

    def test_missing_compiler_is_reported_with_what_to_install(self) -> None:
        for environment, found in (({"CXX": "/none/cc"}, "CXX names '/none/cc'"), ({"CXX": "", "PATH": ""}, "g\\+\\+, clang\\+\\+ were not found")):
            with mock.patch.dict(os.environ, environment), self.assertRaisesRegex(mscclpp_rs.UnsupportedError, f"{found}.*apt install g\\+\\+"):
                self.image(ALGORITHM)

    def test_missing_headers_of_python_are_reported_with_their_package(self) -> None:
        with mock.patch.object(sysconfig, "get_path", return_value="/none"):
            with self.assertRaisesRegex(mscclpp_rs.UnsupportedError, "expected Python.h .* in /none, found none; .*python3.*-dev"):
                self.image(ALGORITHM)

    def test_missing_headers_of_pybind11_are_reported_with_their_package(self) -> None:
        with mock.patch("importlib.util.find_spec", return_value=None):
            with self.assertRaisesRegex(mscclpp_rs.UnsupportedError, "pip install pybind11"):
                self.image("#include <pybind11/pybind11.h>\n")

    def test_functions_of_other_parameters_are_reported_with_those_expected(self) -> None:
        for name, wrong, message in (
            ("INIT", "int", "initFunc of mscclpp::NativeAlgorithm a function of \\(std::shared_ptr<Communicator>"),
            ("KERNEL", "int", "kernelFunc of mscclpp::NativeAlgorithm a function of"),
            ("CONTEXT", "3", "contextInitFunc of mscclpp::NativeAlgorithm"),
            ("KEY", "3", "contextKeyGenFunc of mscclpp::NativeAlgorithm"),
        ):
            source = ALGORITHM
            for key, value in (RIGHT | {name: wrong}).items():
                source = source.replace(key, value)
            with self.assertRaisesRegex(mscclpp_rs.Error, message) as refused:
                self.image(source)
            self.assertIn("`name.cu` does not compile for the host", str(refused.exception))

    def test_folder_of_the_cache_stays_whatever_its_name(self) -> None:
        with tempfile.TemporaryDirectory(prefix="mscclpp-") as folder, mock.patch.dict(os.environ, {"MSCCLPP_CACHE": folder}):
            other = Path(folder) / "other"
            other.touch()
            library = compiled("name", "name.cu", "int x;", {})
            library.release()
            self.assertTrue(library.is_cached and library.path.is_file() and other.is_file())
        with mock.patch.dict(os.environ, {"MSCCLPP_CACHE": ""}):
            library = compiled("name", "name.cu", "int x;", {})
            self.assertTrue(library.path.is_file())
            library.release()
            self.assertFalse(library.path.parent.exists())

    def test_errors_have_lines_of_the_source(self) -> None:
        with self.assertRaisesRegex(mscclpp_rs.Error, "name.cu:3:.*unknown_name"):
            self.image("#include <Python.h>\n\nint x = unknown_name;")

    def test_the_other_ranks_get_the_reason_of_any_failure(self) -> None:
        for thrown, kind, reason in (
            ("throw 42", RuntimeError, "the native algorithm has thrown what is no std::exception"),
            ('throw std::invalid_argument("caf\\xe9")', ValueError, "caf\ufffd"),
        ):
            source = THROWING
            for key, value in (RIGHT | {"THROWN": thrown}).items():
                source = source.replace(key, value)
            library, functions = native_module._host_library("name", "name.cu", source, {})
            self.addCleanup(library.release)
            made = ctypes.PyDLL(str(library.path)).made
            made.restype = ctypes.py_object
            host = mock.Mock(spec=HostCommunicator)
            with self.assertRaises(kind) as raised:
                functions.execute(made(), (host, 0, 2, 2, 8, 4, 8, 4, 0, 0, 0, 0, 0, False, 0, {}))
            self.assertEqual(str(raised.exception), reason)
            host.fail.assert_called_once_with(reason)
            host.end.assert_not_called()


class Memory(unittest.TestCase):
    def test_ranges_that_no_memory_has_are_refused_before_ranks_exchange_them(self) -> None:
        host = HostCommunicator(mock.Mock(rank=0, size=2, ranks_per_node=2))
        host.register_memory(4096, (1 << 64) - 4097)
        for address, nbytes in ((0, 4), (4096, 0), (4096, (1 << 64) - 4096), (4096, (1 << 64) - 1)):
            with self.assertRaisesRegex(mscclpp_rs.InvalidInputError, f"registerMemory: expected .*, found {nbytes} bytes at {address:#x}"):
                host.register_memory(address, nbytes)


if __name__ == "__main__":
    unittest.main()
