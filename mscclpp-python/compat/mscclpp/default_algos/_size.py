"""Sizes of groups of thread blocks."""


def positive(size: int) -> int:
    """Returns a size. Raises `ValueError` for one of no thread block."""
    if size < 1:
        raise ValueError(f"expected a thread block group of at least 1 thread block, found {size}")
    return size
