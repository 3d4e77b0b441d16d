"""Functions of the program that is being recorded."""

from mscclpp.language.internal.globals import get_program

__all__ = ["JSON"]


def JSON() -> str:
    """Ends the program and returns its plan as JSON, after the checks.

    Raises `mscclpp_rs.PlanError` with all findings if the plan is rejected; with `MSCCLPP_UNCHECKED_JSON=1` these are warnings on standard
    error instead.
    """
    return get_program().to_json()
