"""Common parts of the jobs: the process group, tensors, comparison of results, and the list of tests.

A job is run once per rank: scripts/simulated-cuda.sh --nccl -n 2 -- PYTHON dev/tests/python/JOB.py [TEST ...]

Most kernels of PyTorch do not run on simulated devices, so tensors are computed on the CPU and copied to the device, and results are
copied to the CPU and compared there. Ranks share devices where there are fewer (scripts/gpu.sh). With BACKEND=gloo a job runs on the CPU
alone, which tests the job itself; with BACKEND=mscclpp on the backend of mscclpp-python.
"""

import os
import sys
import traceback

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
BACKEND = os.environ.get("BACKEND", "nccl")
DEVICE = (
    torch.device("cpu")
    if BACKEND == "gloo"
    else torch.device("cuda", int(os.environ.get("LOCAL_RANK", RANK)) % max(1, torch.cuda.device_count()))
)

# Element counts: one, odd, packets, and several kilobytes.
COUNTS = (1, 7, 512, 4099)

TESTS = []


def test(function):
    """Adds a function to the tests of the job."""
    TESTS.append(function)
    return function


def nccl_test(function):
    """Adds a function to the tests of the job, unless gloo lacks what it calls."""
    return function if BACKEND == "gloo" else test(function)


def library_test(function):
    """Adds a function to the tests of the job where the backend is NCCL: others make the call with a kernel of PyTorch."""
    return test(function) if BACKEND == "nccl" else function


def own_test(function):
    """Adds a function to the tests of the job where the backend is that of mscclpp-python."""
    return test(function) if BACKEND == "mscclpp" else function


def values(rank, count, dtype=torch.float32, seed=0):
    """Returns the values of a rank on the CPU: small integers, so that sums are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    numbers = torch.randint(1, 4, (count,), generator=generator)
    return (numbers % 2).to(torch.bool) if dtype == torch.bool else numbers.to(dtype)


def on_device(tensor):
    return tensor.to(DEVICE)


def empty(count, dtype=torch.float32):
    """Returns memory of the device whose values differ from all results."""
    return on_device(torch.full((count,), 99, dtype=torch.int64).to(dtype))


def equal(found, expected, what=""):
    """Compares a result with the values that it must have."""
    found = found.cpu()
    if found.dtype != expected.dtype or found.shape != expected.shape:
        raise AssertionError(f"{what}: expected {expected.dtype} {tuple(expected.shape)}, found {found.dtype} {tuple(found.shape)}")
    different = (found != expected).nonzero()
    if different.numel():
        first = tuple(different[0].tolist())
        raise AssertionError(
            f"{what}: {len(different)} of {expected.numel()} values differ; the first at {first}: "
            f"expected {expected[first].item()}, found {found[first].item()}"
        )


def run(backend=BACKEND):
    """Runs the tests of the job, or those that the command line names; exits with 1 if one of them fails."""
    chosen = [function for function in TESTS if not sys.argv[1:] or function.__name__ in sys.argv[1:]]
    if not chosen:
        raise SystemExit(f"no such test; expected some of {' '.join(function.__name__ for function in TESTS)}")
    if DEVICE.type == "cuda":
        torch.cuda.set_device(DEVICE)
        # Without a device, NCCL's backend creates communicators when they are needed, for transfers one of each pair.
        dist.init_process_group(backend, device_id=None if os.environ.get("LAZY") else DEVICE)
    else:
        dist.init_process_group("gloo")
    for function in chosen:
        try:
            function()
        except Exception:
            traceback.print_exc()
            print(f"failed {function.__name__} on rank {RANK}", flush=True)
            # Other ranks may wait for this one.
            os._exit(1)
        print(f"ok {function.__name__}", flush=True)
    dist.destroy_process_group()
