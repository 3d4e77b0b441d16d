"""The builder of collections of algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mscclpp._core.algorithm import Algorithm, AlgorithmBuilder, AlgorithmCollection

__all__ = ["AlgorithmCollectionBuilder"]

# The reference's default algorithms, which are names of built-in algorithms as well.
DEFAULT_ALGORITHMS = [
    "default_allreduce_nvls_packet",
    "default_allreduce_packet",
    "default_allreduce_allpair_packet",
    "default_allreduce_nvls_zero_copy",
    "default_allreduce_nvls_warp_pipeline",
    "default_allreduce_nvls_block_pipeline",
    "default_allreduce_fullmesh",
    "default_allreduce_rsag",
    "default_allreduce_rsag_pipeline",
    "default_allreduce_rsag_zero_copy",
    "default_allgather_fullmesh",
    "default_allgather_fullmesh2",
]


class AlgorithmCollectionBuilder:
    """Builds collections of algorithms. There is one in a process."""

    _instance: AlgorithmCollectionBuilder | None = None
    _algorithms: list[Algorithm]
    _selectors: list[Any]

    def __new__(cls) -> AlgorithmCollectionBuilder:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._algorithms = []
            cls._instance._selectors = [None, None]
        return cls._instance

    @classmethod
    def reset(cls) -> None:
        """Forgets all algorithms and selectors."""
        cls._instance = None

    def add_algorithm_builder(self, algorithm_builder: AlgorithmBuilder | Algorithm) -> None:
        """Adds a plan, or what a builder builds. Raises `ValueError` for anything else."""
        if isinstance(algorithm_builder, AlgorithmBuilder):
            self._algorithms.append(algorithm_builder.build())
        elif isinstance(algorithm_builder, Algorithm) and algorithm_builder.is_dsl_algorithm():
            self._algorithms.append(algorithm_builder)
        else:
            raise ValueError(f"expected an AlgorithmBuilder or the algorithm of a plan, found {algorithm_builder!r}")

    def set_algorithm_selector(self, selector: Callable[[dict[str, Any], Any], Algorithm | None]) -> None:
        """Sets the function that selects: from the algorithms by collective and name, and a request."""
        self._selectors[0] = selector

    def set_fallback_algorithm_selector(self, selector: Callable[[dict[str, Any], Any], Algorithm | None]) -> None:
        """Sets the function that selects where the first one returns `None`."""
        self._selectors[1] = selector

    def build(self) -> AlgorithmCollection:
        """Returns a collection of the algorithms that were added."""
        return AlgorithmCollection(self._algorithms, (self._selectors[0], self._selectors[1]))

    def build_default_algorithms(self, scratch_buffer: int, scratch_buffer_size: int, rank: int) -> AlgorithmCollection:
        """Returns a collection of the built-in algorithms, under the reference's names.

        The scratch has no effect: algorithms allocate their own. Those of NVLS need devices with multicast objects for
        their speed.
        """
        algorithms = [Algorithm(native_handle=name) for name in DEFAULT_ALGORITHMS]
        return AlgorithmCollection(algorithms, (self._selectors[0], self._selectors[1]))
