"""Process groups that are destroyed and created again, with the store of torchrun, which outlives them.

Gloo waits here for a rank that has gone.
"""

import torch.distributed as dist
from harness import BACKEND, RANK, SIZE, equal, own_test, run, values


def check_all_reduce(group=None):
    tensor = values(RANK, 100)
    dist.all_reduce(tensor, group=group)
    equal(tensor, sum(values(rank, 100) for rank in range(SIZE)))


@own_test
def groups_are_destroyed_and_created_again():
    for _ in range(8):
        group = dist.new_group()
        check_all_reduce(group)
        check_all_reduce()
        dist.destroy_process_group()
        dist.init_process_group(BACKEND)


if __name__ == "__main__":
    run()
