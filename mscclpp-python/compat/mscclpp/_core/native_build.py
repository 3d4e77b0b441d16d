"""Compilation of host code, by the host's C++ compiler."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from mscclpp_rs import Error, UnsupportedError

__all__ = ["INCLUDE", "compiled", "device_headers", "find_nvrtc"]

#: The folder of the C++ interface.
INCLUDE = Path(str(resources.files("mscclpp").joinpath("include")))

_COMPILERS = ("c++", "g++", "clang++")
# Hardly optimized: host code sets up channels and launches kernels.
_OPTIONS = ("-std=c++20", "-O1", "-fPIC", "-shared", "-w", "-fvisibility=hidden", "-DPY_SSIZE_T_CLEAN", "-x", "c++")


@cache
def device_headers() -> tuple[tuple[str, str], ...]:
    """Returns name and text of the headers of the C++ interface, for the compiler of device code."""
    paths = sorted(path for path in INCLUDE.rglob("*") if path.suffix in (".hpp", ".h"))
    return tuple((path.relative_to(INCLUDE).as_posix(), path.read_text(encoding="utf-8")) for path in paths)


def find_nvrtc() -> None:
    """Names the library of NVRTC of the wheel `nvidia-cuda-nvrtc`, which the loader does not find, unless the user names one."""
    if "MSCCLPP_NVRTC" in os.environ:
        return
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for library in sorted(Path(folder).glob("*/lib/libnvrtc.so*"), reverse=True):
            os.environ["MSCCLPP_NVRTC"] = str(library)
            return


def _compiler() -> str:
    """Returns the path of the host's compiler."""
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else _COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    named = f"CXX names {wanted!r}, which was not found" if wanted else f"{', '.join(_COMPILERS)} were not found"
    raise UnsupportedError(
        f"compile_native: expected a C++ compiler for the host code of a source, but {named}; install one (Debian and Ubuntu: "
        "`apt install g++`, Fedora: `dnf install gcc-c++`), or set CXX to its path"
    )


def _python_headers() -> list[Path]:
    """Returns the folders of Python's headers."""
    folders = [Path(sysconfig.get_path(name)) for name in ("include", "platinclude")]
    if not any((folder / "Python.h").is_file() for folder in folders):
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise UnsupportedError(
            f"compile_native: expected Python.h of Python {version} in {folders[0]}, found none; install Python's headers (Debian and "
            f"Ubuntu: `apt install python{version}-dev`, Fedora: `dnf install python{version}-devel`)"
        )
    return folders


def _pybind11_headers(text: str) -> list[Path]:
    """Returns the folder of pybind11's headers, if a source includes them: those of its wheel, or of PyTorch."""
    if "pybind11/" not in text:
        return []
    for package, folder in (("pybind11", "include"), ("torch", "include")):
        spec = importlib.util.find_spec(package)
        for location in (spec.submodule_search_locations if spec is not None else None) or ():
            if (Path(location) / folder / "pybind11" / "pybind11.h").is_file():
                return [Path(location) / folder]
    raise UnsupportedError(
        "compile_native: expected the headers of pybind11, which the source includes, found neither the package pybind11 nor torch; "
        "install them with `pip install pybind11`"
    )


def _cache_folder() -> Path | None:
    """Returns the folder of the cache, as images have it; `None` without a cache."""
    named = os.environ.get("MSCCLPP_CACHE")
    if named is not None:
        return Path(named) if named else None
    homes = (os.environ.get("XDG_CACHE_HOME", ""), os.path.join(os.environ.get("HOME", ""), ".cache"))
    return next((Path(home) / "mscclpp" for home in homes if os.path.isabs(home)), None)


def _is_private(path: Path) -> bool:
    """Returns whether no other user than root can write to a file or folder: it is code that this process will run."""
    found = path.stat()
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class Library(NamedTuple):
    """A compiled library."""

    path: Path
    is_cached: bool

    def release(self) -> None:
        """Removes the file if it is not in the cache. The library stays loaded."""
        if not self.is_cached:
            shutil.rmtree(self.path.parent, ignore_errors=True)


def compiled(name: str, title: str, text: str, defines: dict[str, str]) -> Library:
    """Returns the library of a host text, which has its own headers, for the module `name`. `title`: the source in messages.

    Raises `UnsupportedError` with what to install if the compiler or headers are missing, and `mscclpp_rs.Error` with the compiler's messages.
    """
    compiler = _compiler()
    headers = [INCLUDE, *_python_headers(), *_pybind11_headers(text)]
    options = [*_OPTIONS, *(f"-I{path}" for path in headers), *(f"-D{key}={value}" for key, value in sorted(defines.items()))]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    digest = hashlib.sha256(repr((version, options, text, device_headers(), sys.version, sysconfig.get_platform())).encode()).hexdigest()
    kept = _cache_folder()
    try:
        if kept is not None:
            kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        if kept is None or not _is_private(kept) or not os.access(kept, os.W_OK):
            kept = None
    except OSError:
        # As for images, a folder that cannot be used is no failure.
        kept = None
    if kept is None:
        library = Path(tempfile.mkdtemp(prefix="mscclpp-")) / f"{name}.so"
        _compile(compiler, options, title, text, library)
        return Library(library, is_cached=False)
    library = kept / f"{name}-{digest[:32]}.so"
    # Ranks of one host that start together: one compiles, the others wait for it.
    with open(kept / "native.lock", "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.is_file() or not _is_private(library):
            made = kept / f"{library.name}.{os.getpid()}"
            try:
                _compile(compiler, options, title, text, made)
                made.chmod(0o700)
                made.replace(library)
            finally:
                made.unlink(missing_ok=True)
    return Library(library, is_cached=True)


def _compile(compiler: str, options: list[str], title: str, text: str, to: Path) -> None:
    # A module's symbols of Python are those of the interpreter.
    run = subprocess.run([compiler, *options, "-", "-o", str(to), "-ldl"], input=text, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise Error(
            f"compile_native: `{title}` does not compile for the host by {compiler}:\n{run.stderr.strip()}", "system", operation="compile_native"
        )
