"""The calls around measurements of the reference's recorder of events.

Nothing is to be done here: with `MSCCLPP_NPKIT_DUMP_DIR` or `MSCCLPP_TIMELINE` a communicator records the operations of its calls and writes
them to that folder, which `mscclpp timeline` reads.
"""

__all__ = ["dump", "init", "shutdown"]


def init(rank: int) -> None:
    """Has no effect: communicators record from their first call on."""


def dump(folder: str) -> None:
    """Has no effect: communicators write to the folder of the variable."""


def shutdown() -> None:
    """Has no effect."""
