"""Collective communication for PyTorch and Python, with plans that are proved correct.

``init_process_group("mscclpp")`` makes the backend of this package serve the calls of ``torch.distributed``. PyTorch 2.14 and later find it
by its name. Earlier versions find it when ``torch`` is imported, where the package is installed by pip; otherwise import
``mscclpp_rs`` after ``torch``.
"""

import sys

from ._errors import (
    AbortedError,
    Error,
    InvalidInputError,
    MismatchError,
    RankLostError,
    ResourceError,
    TimeoutError,
    UnsupportedError,
)
from ._native import __version__

__all__ = [
    "AbortedError",
    "Error",
    "InvalidInputError",
    "MismatchError",
    "RankLostError",
    "ResourceError",
    "TimeoutError",
    "UnsupportedError",
    "__version__",
    "register_backend",
]


def register_backend() -> None:
    """Registers the backend ``mscclpp`` with ``torch.distributed``, which it imports. Later calls change nothing."""
    from ._torch import register

    register()


if "torch" in sys.modules and hasattr(sys.modules["torch"], "distributed"):
    register_backend()
