"""Groups of thread blocks."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ThreadBlockGroup"]


class ThreadBlockGroup:
    """Several thread blocks that divide each operation among them: block `k` of the list processes part `k`.

    Raises `ValueError` for a thread block that is listed twice.
    """

    def __init__(self, tb_list: Iterable[int]) -> None:
        self.tb_list = list(tb_list)
        self._tb_id: dict[int, int] = {}
        for index, tb in enumerate(self.tb_list):
            if tb in self._tb_id:
                raise ValueError(f"thread block {tb} is listed twice, at {self._tb_id[tb]} and {index}; list it once")
            self._tb_id[tb] = index

    def get_internal_id(self, tb: int) -> int:
        """Returns the number of a thread block within the group. Raises `ValueError` if it is not a member."""
        if tb not in self._tb_id:
            raise ValueError(f"thread block {tb} is not in the group {self.tb_list}")
        return self._tb_id[tb]

    def numtb(self) -> int:
        """Returns the number of thread blocks."""
        return len(self.tb_list)
