"""Plans as JSON that the checks reject, if a variable allows that."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from mscclpp_rs import Plan, PlanError

__all__ = ["VARIABLE", "plan_for_json"]

#: With any value but 0, findings of the checks are warnings where a program asks for its JSON.
VARIABLE = "MSCCLPP_UNCHECKED_JSON"


def plan_for_json(make: Callable[[bool], Plan]) -> Plan:
    """Returns the plan that `make` makes, with the checks if its argument is true.

    Raises `mscclpp_rs.PlanError` as `make` does. If the checks alone reject the plan, the message names the variable, with which the findings
    are warnings on standard error instead.
    """
    try:
        return make(True)
    except PlanError as error:
        try:
            plan = make(False)
        except PlanError:
            # The program itself is wrong, and has no plan.
            raise error from None
        if os.environ.get(VARIABLE, "0") in ("", "0"):
            hint = f"{error}\nnote: to get the plan as JSON all the same, with these findings as warnings, set {VARIABLE}=1"
            error.args = (hint, *error.args[1:])
            raise
        print(f"warning: {error}\nnote: the plan is printed all the same, as {VARIABLE} is set", file=sys.stderr)
        return plan
