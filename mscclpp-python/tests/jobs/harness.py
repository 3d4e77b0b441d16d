"""Common parts of the jobs: the process group, values, comparison of results, digests, and the list of tests.

A job is run once per rank, as by torchrun: torchrun --nproc-per-node 2 mscclpp-python/tests/jobs/JOB.py [TEST ...]

With BACKEND=gloo a job runs on gloo, which tests the job itself. Tests print digests of their results; those that both backends can
run must print the same on both.
"""

import hashlib
import os
import sys
import traceback

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
BACKEND = os.environ.get("BACKEND", "mscclpp")
IS_OWN = BACKEND == "mscclpp"

# Element counts: one, odd, packets, and several kilobytes.
COUNTS = (1, 7, 512, 4099)

TESTS = []


def test(function):
    """Adds a function to the tests of the job."""
    TESTS.append(function)
    return function


def own_test(function):
    """Adds a function to the tests of the job, unless gloo lacks what it calls."""
    return test(function) if IS_OWN else function


def values(rank, count, dtype=torch.float32, seed=0):
    """Returns the values of a rank: small integers, so that sums are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    numbers = torch.randint(1, 4, (count,), generator=generator)
    return (numbers % 2).to(torch.bool) if dtype == torch.bool else numbers.to(dtype)


def unaligned(tensor):
    """Returns a copy of a tensor at an odd address."""
    memory = bytearray(tensor.numel() * tensor.itemsize + 1)
    first = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
    offset = 1 - first % 2
    copy = torch.frombuffer(memory, dtype=tensor.dtype, offset=offset, count=tensor.numel())
    return copy.copy_(tensor.reshape(-1)).reshape(tensor.shape)


def equal(found, expected, what=""):
    """Compares a result with the values that it must have, bit for bit."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        raise AssertionError(f"{what}: expected {expected.dtype} {tuple(expected.shape)}, found {found.dtype} {tuple(found.shape)}")
    bits = [one.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8) if one.numel() else one for one in (found, expected)]
    if not torch.equal(*bits):
        raise AssertionError(f"{what}: expected {expected}, found {found}")


def digest(*tensors):
    """Returns a short digest of the bits of tensors."""
    text = hashlib.sha256()
    for tensor in tensors:
        text.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return text.hexdigest()[:16]


def report(what, *tensors):
    """Prints the digest of results, once for the job."""
    if RANK == 0:
        print(f"digest {what} {digest(*tensors)}\n", end="", flush=True)


def run():
    """Runs the tests of the job, or those that the command line names; exits with 1 if one of them fails."""
    chosen = [function for function in TESTS if not sys.argv[1:] or function.__name__ in sys.argv[1:]]
    if not chosen:
        raise SystemExit(f"no such test; expected some of {' '.join(function.__name__ for function in TESTS)}")
    torch.set_num_threads(1)
    dist.init_process_group(BACKEND)
    for function in chosen:
        try:
            function()
        except Exception:
            traceback.print_exc()
            print(f"failed {function.__name__} on rank {RANK}", flush=True)
            # Other ranks may wait for this one.
            os._exit(1)
        print(f"ok {function.__name__}\n", end="", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    print(f"passed {len(chosen)} tests\n", end="", flush=True)
