"""A job whose rank 1 dies once, after a checkpoint: torchrun starts all ranks again, and they continue.

torchrun --standalone --max-restarts 2 --nproc-per-node 2 mscclpp-python/tests/jobs/restarts.py
"""

import os
import shutil
import signal
import tempfile

import torch
import torch.distributed as dist
from harness import RANK, SIZE, run, test
from torch import nn

RESTARTS = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
FOLDER = os.path.join(tempfile.gettempdir(), f"mscclpp-restarts-{os.environ['TORCHELASTIC_RUN_ID']}")
CHECKPOINT = os.path.join(FOLDER, "checkpoint")
STEPS, SAVED_AFTER, DIES_AFTER = 8, 3, 4


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def optimizer_of(net):
    return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


def loss(net, step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return net(torch.randn(8, 16, generator=generator)).square().mean()


@test
def training_continues_after_a_rank_has_died():
    if RESTARTS == 0 and RANK == 0:
        shutil.rmtree(FOLDER, ignore_errors=True)
        os.mkdir(FOLDER)
    net = nn.parallel.DistributedDataParallel(network())
    optimizer = optimizer_of(net)
    first = 0
    if RESTARTS > 0:
        state = torch.load(CHECKPOINT)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = SAVED_AFTER
    for step in range(first, STEPS):
        optimizer.zero_grad()
        loss(net, step, RANK).backward()
        optimizer.step()
        if step + 1 == SAVED_AFTER:
            if RANK == 0:
                torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, CHECKPOINT)
            dist.barrier()
        if step + 1 == DIES_AFTER and RANK == 1 and RESTARTS == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    assert RESTARTS == 1, RESTARTS
    # The same training in this process alone.
    alone = network()
    optimizer = optimizer_of(alone)
    for step in range(STEPS):
        optimizer.zero_grad()
        (sum(loss(alone, step, rank) for rank in range(SIZE)) / SIZE).backward()
        optimizer.step()
    for found, expected in zip(net.module.parameters(), alone.parameters()):
        torch.testing.assert_close(found, expected)
    dist.barrier()
    if RANK == 0:
        shutil.rmtree(FOLDER)


if __name__ == "__main__":
    run()
