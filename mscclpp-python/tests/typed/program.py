"""A program as users write it, which must type-check strictly. It is not run."""

from __future__ import annotations

import torch
import torch.distributed as dist

import mscclpp_rs


def train(steps: int) -> torch.Tensor:
    dist.init_process_group("mscclpp")
    gradients = mscclpp_rs.new_buffer(1024, 8, dtype=torch.bfloat16)
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
