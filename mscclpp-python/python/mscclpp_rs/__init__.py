"""Collective communication for PyTorch and Python, with plans that are proved correct.

``init_process_group("mscclpp")`` makes the backend of this package serve the calls of ``torch.distributed``. PyTorch 2.14 and later find it
by its name. Earlier versions find it when ``torch`` is imported, where the package is installed by pip; otherwise import
``mscclpp_rs`` after ``torch``.
"""

import sys
from typing import TYPE_CHECKING

from ._errors import (
    Error,
    InvalidInputError,
    MismatchError,
    RankLostError,
    ResourceError,
    TimeoutError,
    UnsupportedError,
)
from ._native import __version__

if TYPE_CHECKING:
    import torch

__all__ = [
    "Error",
    "InvalidInputError",
    "MismatchError",
    "RankLostError",
    "ResourceError",
    "TimeoutError",
    "UnsupportedError",
    "__version__",
    "new_buffer",
    "register_backend",
]


def register_backend() -> None:
    """Registers the backend ``mscclpp`` with ``torch.distributed``, which it imports. Later calls change nothing."""
    from ._torch import register

    register()


def new_buffer(
    *shape: int, dtype: "torch.dtype | None" = None, group: "torch.distributed.ProcessGroup | None" = None
) -> "torch.Tensor":
    """Returns a tensor of zeros in registered memory of a process group, by default of all ranks; ``torch.float32`` by default.

    Calls of ``torch.distributed`` on it move no data besides the results: the other ranks of the node read and write it where it is. A call of
    all ranks of the group. Raises ``InvalidInputError`` if another backend serves the group, or a length is not positive.
    """
    import torch

    from ._torch import backend_of

    return backend_of(group).new_buffer(*shape, dtype=torch.float32 if dtype is None else dtype)


if "torch" in sys.modules and hasattr(sys.modules["torch"], "distributed"):
    register_backend()
