"""Mistakes that the types of the package show: one in each line with a mark. It is not run."""

import torch

import mscclpp_rs

mscclpp_rs.new_buffer("1024")  # mistake: arg-type
mscclpp_rs.new_buffer(1024, dtype="float32")  # mistake: arg-type
mscclpp_rs.new_buffer(1024).bytes_of_plan  # mistake: attr-defined
plan: str = mscclpp_rs.Plan.load("plan.json")  # mistake: assignment
mscclpp_rs.Plan.load(7)  # mistake: arg-type
mscclpp_rs.Plan.load("plan.json", strikt=True)  # mistake: call-arg
length: int = mscclpp_rs.Finding.code  # mistake: assignment


def lost(error: mscclpp_rs.Error) -> torch.Tensor:
    return error.lost  # mistake: return-value


class Better(mscclpp_rs.Plan):  # mistake: misc
    pass
