"""Sums on devices with multicast objects, which switches may add up in any order unless PyTorch is set to deterministic algorithms. For the
backend of mscclpp-python: BACKEND=mscclpp.
"""

import mscclpp_rs
import torch
import torch.distributed as dist
from harness import RANK, SIZE, equal, on_device, run, test, values

COUNT = 1 << 18

# Not with values that show reads of uninitialized memory, which a kernel of PyTorch would write.
torch.utils.deterministic.fill_uninitialized_memory = False


def served(group=None):
    """Returns the algorithms that served an all-reduce."""
    tensor = on_device(values(RANK, COUNT))
    before = mscclpp_rs.call_counts(group)
    dist.all_reduce(tensor, group=group)
    equal(tensor, sum(values(rank, COUNT) for rank in range(SIZE)), "sums")
    after = mscclpp_rs.call_counts(group)
    return [name for name, count in after.items() if count > before.get(name, 0)]


@test
def sums_are_in_the_switch_unless_algorithms_must_be_deterministic():
    for _ in range(2):
        found = served()
        assert found == ["allreduce_switch"], found
        torch.use_deterministic_algorithms(True)
        found = served()
        assert found == ["allreduce_all_pairs"], found
        torch.use_deterministic_algorithms(False)


@test
def order_of_a_group_that_demands_more_is_kept():
    group = dist.new_group(list(range(SIZE)))
    mscclpp_rs.set_order("rank-order", group)
    torch.use_deterministic_algorithms(True)
    assert "allreduce_switch" not in served(group)
    torch.use_deterministic_algorithms(False)
    assert "allreduce_switch" not in served(group)


@test
def setting_of_one_rank_is_an_error_that_names_both_orders():
    group = dist.new_group(list(range(SIZE)))
    assert served(group) == ["allreduce_switch"]
    torch.use_deterministic_algorithms(RANK == 0)
    try:
        for _ in range(100):
            dist.all_reduce(on_device(torch.ones(COUNT)), group=group)
            torch.cuda.synchronize()
        raise AssertionError("accepted")
    except mscclpp_rs.Error as error:
        assert "order in-switch" in str(error) and "order same-on-all-ranks" in str(error), error
    torch.use_deterministic_algorithms(False)


if __name__ == "__main__":
    run()
