"""A program as users write it, which must type-check strictly. It is not run."""

from __future__ import annotations

import torch
import torch.distributed as dist

import mscclpp_rs


def select(call: mscclpp_rs.SelectorCall, names: list[str]) -> str | None:
    return names[0] if call.input_bytes <= 4096 and call.op == "sum" else None


def train(steps: int) -> torch.Tensor:
    name: str = mscclpp_rs.register_plan(mscclpp_rs.Plan.load("plan.json"), name="mine")
    mscclpp_rs.set_selector(select)
    dist.init_process_group("mscclpp", pg_options=mscclpp_rs.Options(order="rank-order"))
    print(name, mscclpp_rs.call_counts())
    gradients = mscclpp_rs.new_buffer(1024, 8, dtype=torch.bfloat16)
    sizes = torch.ones(dist.get_world_size(), dtype=torch.int64)
    mscclpp_rs.all_to_all_single(gradients, gradients.clone(), sizes.clone(), sizes, dist.group.WORLD)
    for _ in range(steps):
        try:
            dist.all_reduce(gradients)
        except mscclpp_rs.RankLostError as error:
            survivors: set[int] = set(range(dist.get_world_size())) - set(error.lost)
            print(error.root_cause, error.reason, error.kind, error.rank, error.operation, sorted(survivors))
            raise
        except (mscclpp_rs.MismatchError, mscclpp_rs.TimeoutError, mscclpp_rs.InvalidInputError) as error:
            cause: int | None = error.root_cause
            print(cause)
    return gradients


def check(path: str) -> list[str]:
    try:
        plan = mscclpp_rs.Plan.load(path, strict=True, allow=["M0226"])
    except mscclpp_rs.PlanError as error:
        return [describe(finding) for finding in error.findings]
    name: str = plan.name
    return [name, mscclpp_rs.__version__]


def describe(finding: mscclpp_rs.Finding) -> str:
    place = finding.place
    line = place.line if isinstance(place, mscclpp_rs.Location) else 0
    return f"{finding.code} {finding.slug} line {line}: {finding.message}; {finding.help or finding.rule}"
