"""Measures steps of training with DDP on this backend and on gloo, which take turns in the same processes."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

#: Inputs of a rank and step, and steps of each model before those that are counted: DDP builds its buckets anew after the first.
BATCH, SKIPPED = 16, 2


def _model(num_parameters: int) -> nn.Module:
    """Returns square layers with about as many parameters."""
    width = max(min(2048, math.isqrt(num_parameters)), 1)
    torch.manual_seed(0)
    layers = [layer for _ in range(max(num_parameters // width**2, 1)) for layer in (nn.Linear(width, width, bias=False), nn.ReLU())]
    return nn.Sequential(*layers)


class _Training:
    """A model of a backend, its optimizer and the times of its steps."""

    def __init__(self, num_parameters: int, group: Any) -> None:
        self.model = DistributedDataParallel(_model(num_parameters), process_group=group, gradient_as_bucket_view=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        width = next(self.model.parameters()).shape[1]
        self.input = torch.randn(BATCH, width, generator=torch.Generator().manual_seed(dist.get_rank()))
        self.times: list[float] = []
        self.times_alone: list[float] = []

    def _step(self) -> float:
        started = time.perf_counter()
        self.model(self.input).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return (time.perf_counter() - started) * 1e3

    def step(self, is_counted: bool) -> None:
        """Makes a step, and one in which ranks do not communicate."""
        elapsed = self._step()
        with self.model.no_sync():
            alone = self._step()
        # The parameters of the ranks differ now, which changes no times.
        if is_counted:
            self.times.append(elapsed)
            self.times_alone.append(alone)


def measure(options: argparse.Namespace, gloo: Any) -> None:
    """Measures steps, and prints their table."""
    trainings = {"gloo": _Training(options.ddp, gloo), "mscclpp": _Training(options.ddp, None)}
    for number in range(-SKIPPED, options.iterations or 20):
        for training in trainings.values():
            training.step(number >= 0)
    if dist.get_rank() > 0 or options.quiet:
        return
    count = sum(parameter.numel() for parameter in trainings["gloo"].model.parameters())
    print(f"steps of DDP of {dist.get_world_size()} ranks, {count} parameters, medians in milliseconds")
    print("| backend | step | step without communication | share of communication |\n|---|---|---|---|")
    for name, training in trainings.items():
        step, alone = statistics.median(training.times), statistics.median(training.times_alone)
        print(f"| {name} | {step:.2f} | {alone:.2f} | {100 * (1 - alone / step):.0f} % |", flush=True)
