"""The builder of collections of algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mscclpp._core import calls
from mscclpp._core.algorithm import Algorithm, AlgorithmBuilder, AlgorithmCollection
from mscclpp._core.default_algorithm import DEFAULT_ALGORITHMS
from mscclpp.plan import request_of
from mscclpp_rs import _selection

__all__ = ["AlgorithmCollectionBuilder"]


class AlgorithmCollectionBuilder:
    """Builds collections of algorithms. There is one in a process.

    Once it has a selector, calls of `torch.distributed` have its plans, in the groups that are created afterwards, and ask its selectors:
    those of the backend `mscclpp`, and of nccl where this project's library serves it.
    """

    _instance: AlgorithmCollectionBuilder | None = None
    _algorithms: list[Algorithm]
    _selectors: list[Any]
    _of_calls: dict[str, Algorithm]

    def __new__(cls) -> AlgorithmCollectionBuilder:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._algorithms = []
            cls._instance._selectors = [None, None]
            cls._instance._of_calls = {}
        return cls._instance

    @classmethod
    def reset(cls) -> None:
        """Forgets all algorithms and selectors. Calls of `torch.distributed` keep the plans that they have."""
        if cls._instance is not None and any(cls._instance._selectors):
            _selection.set_selector(None)
        cls._instance = None

    def add_algorithm_builder(self, algorithm_builder: AlgorithmBuilder | Algorithm) -> None:
        """Adds a plan, or what a builder builds. Raises `ValueError` for anything else."""
        if isinstance(algorithm_builder, AlgorithmBuilder):
            self._algorithms.append(algorithm_builder.build())
        elif isinstance(algorithm_builder, Algorithm) and algorithm_builder.is_dsl_algorithm():
            self._algorithms.append(algorithm_builder)
        else:
            raise ValueError(f"expected an AlgorithmBuilder or the algorithm of a plan, found {algorithm_builder!r}")
        self._offer()

    def set_algorithm_selector(self, selector: Callable[[dict[str, Any], Any], Algorithm | None]) -> None:
        """Sets the function that selects: from the algorithms by collective and name, and a request."""
        self._selectors[0] = selector
        self._offer()

    def set_fallback_algorithm_selector(self, selector: Callable[[dict[str, Any], Any], Algorithm | None]) -> None:
        """Sets the function that selects where the first one returns `None`."""
        self._selectors[1] = selector
        self._offer()

    def _offer(self) -> None:
        """Lets calls of `torch.distributed` have the plans, and ask the selectors."""
        if not any(self._selectors):
            return
        for algorithm in self._algorithms:
            if algorithm.execution_plan is not None:
                self._of_calls[calls.register(algorithm.execution_plan)] = algorithm
        _selection.set_selector(self._select)

    def _select(self, call: _selection.SelectorCall, names: list[str]) -> str | None:
        """Returns the name of the plan that the selectors select for a call, of those that serve it; `None` for the usual selection."""
        serving = {id(algorithm): name for name, algorithm in self._of_calls.items() if name in names}
        if not serving:
            return None
        found = self.build().select(request_of(call))
        if found is not None and id(found) not in serving:
            plans = ", ".join(self._of_calls[name].name for name in serving.values())
            raise TypeError(f"expected the selector to return a plan that serves the {call.collective} ({plans}) or None, found {found.name}")
        return None if found is None else serving[id(found)]

    def build(self) -> AlgorithmCollection:
        """Returns a collection of the algorithms that were added."""
        return AlgorithmCollection(self._algorithms, (self._selectors[0], self._selectors[1]))

    def build_default_algorithms(self, scratch_buffer: int, scratch_buffer_size: int, rank: int) -> AlgorithmCollection:
        """Returns a collection of the reference's default algorithms, each served by the built-in one that moves data alike.

        They refuse the numbers of blocks and threads that their counterparts refuse. The scratch is not used, as algorithms allocate
        their own; its size is the limit of `default_allreduce_rsag`. Those of NVLS need devices with multicast objects.
        """
        if scratch_buffer_size < 0:
            raise ValueError(f"expected a size of the scratch buffer, found {scratch_buffer_size}")
        algorithms = [Algorithm.of_default(default, scratch_buffer_size) for default in DEFAULT_ALGORITHMS]
        return AlgorithmCollection(algorithms, (self._selectors[0], self._selectors[1]))
