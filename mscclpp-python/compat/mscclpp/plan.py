"""Registry of plans with a selector, as the integration guide of the DSL uses it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mscclpp._core import calls
from mscclpp._core.comm import ExecutionPlan
from mscclpp_rs import _selection

__all__ = ["ExecutionPlanHandle", "ExecutionPlanRegistry", "PlanHandle", "Request", "register", "set_selector"]


@dataclass(frozen=True)
class Request:
    """A call for which a plan is selected."""

    collective: str
    world_size: int
    n_ranks_per_node: int
    message_size: int
    send_buffer: int = 0
    recv_buffer: int = 0
    stream: int = 0
    hints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_place(self) -> bool:
        """Whether input and output are at one address."""
        return self.send_buffer == self.recv_buffer


class ExecutionPlanHandle:
    """A plan with the world that it is for and its tags."""

    @dataclass(frozen=True)
    class Constraint:
        """The world that a plan is for."""

        world_size: int
        n_ranks_per_node: int

    def __init__(self, id: str, plan: ExecutionPlan, constraint: Constraint, tags: Mapping[str, int] | Collection[str]) -> None:
        self.id = id
        self.plan = plan
        self.constraint = constraint
        # Both the names alone and names with numbers are in use.
        self.tags = dict(tags) if isinstance(tags, Mapping) else {tag: 1 for tag in tags}

    @classmethod
    def create(
        cls, id: str, world_size: int, nranks_per_node: int, plan: ExecutionPlan, tags: Mapping[str, int] | Collection[str] = ()
    ) -> ExecutionPlanHandle:
        """Returns a handle."""
        return cls(id, plan, cls.Constraint(world_size, nranks_per_node), tags)

    def serves(self, request: Request) -> bool:
        """Returns whether the plan is one for a request."""
        plan = self.plan
        world = (self.constraint.world_size, self.constraint.n_ranks_per_node)
        return (
            plan.collective == request.collective
            and world == (request.world_size, request.n_ranks_per_node)
            and plan.min_message_size <= request.message_size <= plan.max_message_size
        )


PlanHandle = ExecutionPlanHandle
Selector = Callable[[Mapping[str, list[ExecutionPlanHandle]], Request], ExecutionPlanHandle | None]


class ExecutionPlanRegistry:
    """Plans by collective, and the functions that select one for a call. There is one in a process."""

    _instance: ExecutionPlanRegistry | None = None
    _plans: dict[str, ExecutionPlanHandle]
    _selector: Selector | None
    _default_selector: Selector | None

    def __new__(cls) -> ExecutionPlanRegistry:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.clear()
        return cls._instance

    def clear(self) -> None:
        """Forgets all plans and selectors."""
        self._plans = {}
        self._selector = None
        self._default_selector = None

    def register_plan(self, plan: ExecutionPlanHandle) -> None:
        """Adds a plan. Raises `ValueError` if there is another one with its id."""
        if not isinstance(plan, ExecutionPlanHandle):
            raise TypeError(f"expected an ExecutionPlanHandle, found {plan!r}")
        known = self._plans.setdefault(plan.id, plan)
        if known is not plan and known.plan.plan != plan.plan.plan:
            raise ValueError(f"expected an id that no plan has, found {plan.id!r}; get the plan by its id instead")

    register = register_plan

    def set_selector(self, selector: Selector | None) -> None:
        """Sets the function that selects: from the plans by collective, and a request. All ranks select alike."""
        self._selector = selector

    def set_default_selector(self, selector: Selector) -> None:
        """Sets the function that selects where the other one returns `None`."""
        self._default_selector = selector

    def get(self, id: str) -> ExecutionPlanHandle | None:
        """Returns the plan with an id."""
        return self._plans.get(id)

    def get_plans(self, collective: str) -> list[ExecutionPlanHandle]:
        """Returns the plans of a collective."""
        return [plan for plan in self._plans.values() if plan.plan.collective == collective]

    def select(
        self,
        collective: str,
        world_size: int,
        n_ranks_per_node: int,
        send_buffer: int = 0,
        recv_buffer: int = 0,
        message_size: int = 0,
        stream: int = 0,
        hints: Mapping[str, Any] | None = None,
    ) -> ExecutionPlanHandle | None:
        """Returns the plan for a call: the first selector's that returns one; without selectors, the first that serves it.

        Selectors get the plans that serve the call. Raises `TypeError` if one returns anything but a plan or `None`.
        """
        request = Request(
            collective, world_size, n_ranks_per_node, message_size, send_buffer, recv_buffer, stream, hints or {}
        )
        serving = [plan for plan in self.get_plans(collective) if plan.serves(request)]
        if not serving:
            return None
        for selector in (self._selector, self._default_selector):
            found = selector({collective: serving}, request) if selector is not None else None
            if isinstance(found, ExecutionPlanHandle):
                return found
            if found is not None:
                raise TypeError(f"expected the selector to return an ExecutionPlanHandle or None, found {found!r}")
        return serving[0] if self._selector is None and self._default_selector is None else None


# The plans that calls of `torch.distributed` have, by the names under which they have them.
_of_calls: dict[str, ExecutionPlanHandle] = {}


def register(plan: ExecutionPlanHandle) -> None:
    """Adds a plan to the registry of the process, and to the groups of `torch.distributed` that are created afterwards: those of the
    backend `mscclpp`, and of nccl where this project's library serves it."""
    ExecutionPlanRegistry().register_plan(plan)
    _of_calls[calls.register(plan.plan)] = plan


def request_of(call: _selection.SelectorCall) -> Request:
    """Returns the request of a call of `torch.distributed`."""
    # Addresses are equal if the call is in place.
    addresses = (0, 0 if call.in_place else 1)
    return Request(call.collective, call.num_ranks, call.ranks_per_node, call.input_bytes, *addresses)


def set_selector(selector: Selector | None) -> None:
    """Sets the selector of the registry of the process, and of calls of `torch.distributed` for which there is a registered plan."""
    ExecutionPlanRegistry().set_selector(selector)
    if selector is None:
        _selection.set_selector(None)
        return

    def select(call: _selection.SelectorCall, names: list[str]) -> str | None:
        serving = {id(plan): name for name, plan in _of_calls.items() if name in names}
        if not serving:
            return None
        found = selector({call.collective: [plan for plan in _of_calls.values() if id(plan) in serving]}, request_of(call))
        if found is not None and id(found) not in serving:
            raise TypeError(f"expected the selector to return one of the plans or None, found {found!r}")
        return None if found is None else serving[id(found)]

    _selection.set_selector(select)
