"""The names of Microsoft's package mscclpp, on `mscclpp_rs`.

Programs of `mscclpp.language` give the same plans, which are checked before they run. Calls run on the host on a machine
without CUDA devices. `docs/python-plans.md` says what is supported and what differs.
"""

from importlib import metadata as _metadata

import mscclpp_rs as _mscclpp_rs


def _check_alone() -> None:
    """Raises `ImportError` if Microsoft's distribution is installed: both have one import name."""
    try:
        found = _metadata.version("mscclpp")
    except _metadata.PackageNotFoundError:
        return
    raise ImportError(
        f"the distribution mscclpp {found} of Microsoft is installed beside mscclpp-compat, and both are imported as mscclpp: "
        "uninstall one of them, `pip uninstall mscclpp` or `pip uninstall mscclpp-compat`"
    )


def _check_version() -> None:
    """Raises `ImportError` if the two distributions of this package are of different versions."""
    try:
        found = _metadata.version("mscclpp-compat")
    except _metadata.PackageNotFoundError:
        # Not installed by pip, as in the tests of a checkout.
        return
    if found != _mscclpp_rs.__version__:
        raise ImportError(
            f"mscclpp-compat {found} needs mscclpp-rs {found}, found {_mscclpp_rs.__version__}: install the same version of "
            "both"
        )


_check_alone()
_check_version()

from mscclpp import comm, default_algos, dsl, ext, language, npkit, plan, utils  # noqa: E402
from mscclpp._left_out import why as _why  # noqa: E402
from mscclpp._core.algorithm import Algorithm, AlgorithmBuilder, AlgorithmCollection  # noqa: E402
from mscclpp._core.buffer import GpuBuffer, RawGpuBuffer  # noqa: E402
from mscclpp._core.comm import CommGroup, Communicator, ExecutionPlan, Executor  # noqa: E402
from mscclpp._core.compiler import DslCompiler, NativeCodeCompiler  # noqa: E402
from mscclpp._core.environment import env  # noqa: E402
from mscclpp._core.types import CommResult, DataType, GpuBufferGranularity, PacketType, ReduceOp  # noqa: E402
from mscclpp.ext import AlgorithmCollectionBuilder  # noqa: E402
from mscclpp.language.utils import AlgoSpec, ReplicationPolicy  # noqa: E402
from mscclpp.plan import ExecutionPlanHandle, ExecutionPlanRegistry, PlanHandle, Request  # noqa: E402
from mscclpp_rs._native import GIT_COMMIT as _GIT_COMMIT  # noqa: E402
from mscclpp_rs._native import is_nvls_supported  # noqa: E402

__version__ = _mscclpp_rs.__version__
version = {"version": __version__, "git_commit": _GIT_COMMIT}
compile = DslCompiler()
compile_native = NativeCodeCompiler()

__all__ = [
    "AlgoSpec",
    "Algorithm",
    "AlgorithmBuilder",
    "AlgorithmCollection",
    "AlgorithmCollectionBuilder",
    "CommGroup",
    "CommResult",
    "Communicator",
    "DataType",
    "ExecutionPlan",
    "ExecutionPlanHandle",
    "ExecutionPlanRegistry",
    "Executor",
    "GpuBuffer",
    "GpuBufferGranularity",
    "PacketType",
    "PlanHandle",
    "RawGpuBuffer",
    "ReduceOp",
    "ReplicationPolicy",
    "Request",
    "__version__",
    "comm",
    "compile",
    "compile_native",
    "default_algos",
    "dsl",
    "env",
    "ext",
    "is_nvls_supported",
    "language",
    "npkit",
    "plan",
    "utils",
    "version",
]


def __getattr__(name: str) -> object:
    raise AttributeError(_why(__name__, name))
