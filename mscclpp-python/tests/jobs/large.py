"""Calls on tensors of more than 2^31 elements, which take 2.2 GB on each rank; run by scripts/full.sh."""

import torch
import torch.distributed as dist

import mscclpp_rs

mscclpp_rs.register_backend()
dist.init_process_group("mscclpp")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
COUNT = 2**31 + 4099
#: Positions that a 32-bit number cannot have, and some that it can.
PLACES = [0, 1, 2**31 - 1, 2**31, 2**31 + 1, COUNT - 1]


def check(tensor, expected, what):
    found = tensor[PLACES].tolist()
    assert found == expected, f"{what}: expected {expected}, found {found}"
    # Between the marks all elements are equal.
    assert int(tensor[2:100].max()) == int(tensor[-100:-1].max()) == int(tensor[2**31 + 2 : -1].min()), what


def marked(rank):
    return [10 * rank + number for number in range(len(PLACES))]


tensor = torch.full((COUNT,), RANK + 1, dtype=torch.uint8)
tensor[PLACES] = torch.tensor(marked(RANK), dtype=torch.uint8)
dist.all_reduce(tensor)
sums = [sum(marked(rank)[number] for rank in range(SIZE)) for number in range(len(PLACES))]
check(tensor, sums, "all_reduce")
print("ok all_reduce", flush=True)

if RANK == 1:
    tensor.fill_(7)
    tensor[PLACES] = torch.tensor(marked(1), dtype=torch.uint8)
dist.broadcast(tensor, 1)
check(tensor, marked(1), "broadcast")
print("ok broadcast", flush=True)

if RANK == 0:
    dist.send(tensor, 1)
elif RANK == 1:
    tensor.zero_()
    dist.recv(tensor, 0)
    check(tensor, marked(1), "recv")
print("ok send and recv", flush=True)
dist.destroy_process_group()
