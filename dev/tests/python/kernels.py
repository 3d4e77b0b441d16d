"""Kernels of PyTorch that the host executes on simulated devices (dev/cudart/src/pytorch), each compared with the CPU's result."""

import torch
from harness import DEVICE, equal, run, test

REALS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
OPERATIONS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "multiple of the second": lambda a, b: torch.add(a, b, alpha=2),
    "plus a number": lambda a, b: a + 3,
    "from a number": lambda a, b: 50 - a,
    "times a number": lambda a, b: a * 3,
    "greater": lambda a, b: a > b,
    "greater or equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b,
    "less or equal": lambda a, b: a <= b,
    "equal": lambda a, b: a == b,
    "different": lambda a, b: a != b,
    "equal to a number": lambda a, b: a == 3,
    "concatenation": lambda a, b: torch.cat([a, b, a[:1]]),
    "stack": lambda a, b: torch.stack([a, b]),
    "maximum": lambda a, b: a.max(),
    "minimum": lambda a, b: a.min(),
    "all": lambda a, b: (a == b).all(),
    "copies": lambda a, b: a.clone(),
}


def compare(name, operation, dtype):
    generator = torch.Generator().manual_seed(7)
    for count in (1, 2, 100, 1025):
        a, b = (torch.randint(1, 9, (count,), generator=generator).to(dtype) for _ in range(2))
        equal(operation(a.to(DEVICE), b.to(DEVICE)), operation(a, b), f"{name} of {count} {dtype}")


@test
def operations_of_all_types():
    for name, operation in OPERATIONS.items():
        for dtype in REALS + INTEGERS:
            compare(name, operation, dtype)


@test
def quotients_and_sums():
    for dtype in REALS:
        compare("quotient", lambda a, b: a / b, dtype)
        compare("divided by a number", lambda a, b: a / 4, dtype)
    for dtype in (torch.float32, torch.float64, torch.int64):
        compare("sum of all", lambda a, b: a.sum(), dtype)


@test
def ranges():
    for dtype in REALS + INTEGERS:
        equal(torch.arange(2, 60, 3, dtype=dtype, device=DEVICE), torch.arange(2, 60, 3, dtype=dtype), f"range of {dtype}")


@test
def casts_of_all_types():
    for source in (*REALS, *INTEGERS, torch.bool):
        values = (torch.arange(20) % 7).to(source)
        for dtype in (*REALS, *INTEGERS, torch.bool):
            equal(values.to(DEVICE).to(dtype), values.to(dtype), f"{source} to {dtype}")


@test
def random_numbers_have_their_distribution():
    for dtype in REALS:
        normal = torch.empty(10000, dtype=dtype, device=DEVICE).normal_(3, 0.5).cpu().double()
        assert abs(normal.mean() - 3) < 0.05 and abs(normal.std() - 0.5) < 0.05, f"{dtype}: {normal.mean()}, {normal.std()}"
        uniform = torch.empty(10000, dtype=dtype, device=DEVICE).uniform_(2, 5).cpu().double()
        assert 2 <= uniform.min() and uniform.max() <= 5 and abs(uniform.mean() - 3.5) < 0.05, f"{dtype}: {uniform.mean()}"
    torch.manual_seed(7)
    first = torch.randn(100, device=DEVICE).cpu()
    torch.manual_seed(7)
    assert torch.equal(first, torch.randn(100, device=DEVICE).cpu()), "the numbers of a seed"


@test
def maximum_with_nan():
    a = torch.tensor([1.0, float("nan"), 3.0])
    assert a.to(DEVICE).max().cpu().isnan() and a.to(DEVICE).min().cpu().isnan()


if __name__ == "__main__":
    run()
