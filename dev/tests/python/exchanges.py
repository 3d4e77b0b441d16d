"""all_to_all, all_to_all_single, send, recv and batch_isend_irecv."""

import time

import torch
import torch.distributed as dist

from harness import COUNTS, RANK, SIZE, empty, equal, nccl_test, on_device, own_test, run, test, values


@test
def all_to_all_single_every_size():
    for count in COUNTS:
        output = empty(count * SIZE)
        dist.all_to_all_single(output, on_device(values(RANK, count * SIZE)))
        expected = [values(rank, count * SIZE)[RANK * count :][:count] for rank in range(SIZE)]
        equal(output, torch.cat(expected), f"{count} elements")


@test
def all_to_all_single_with_unequal_parts():
    # Rank `from` sends 3 * from + to + 1 elements to rank `to`.
    def parts(rank):
        return [3 * rank + to + 1 for to in range(SIZE)]

    sent = parts(RANK)
    received = [parts(rank)[RANK] for rank in range(SIZE)]
    output = empty(sum(received))
    dist.all_to_all_single(output, on_device(values(RANK, sum(sent))), received, sent)
    expected = [values(rank, sum(parts(rank))).split(parts(rank))[RANK] for rank in range(SIZE)]
    equal(output, torch.cat(expected))


@nccl_test
def all_to_all_of_lists():
    outputs = [empty(40) for _ in range(SIZE)]
    dist.all_to_all(outputs, [on_device(values(RANK, 40, seed=to)) for to in range(SIZE)])
    for rank, output in enumerate(outputs):
        equal(output, values(rank, 40, seed=RANK), f"of rank {rank}")


@own_test
def all_to_all_single_with_sizes_on_the_device():
    import mscclpp_rs

    received = on_device(torch.full((SIZE,), -1))
    for call in range(4):
        # The first call sends nothing, and rank 1 never sends anything.
        table = [[call * ((3 * rank + 2 * to + call) % 4) * (rank != 1) for to in range(SIZE)] for rank in range(SIZE)]
        rows = [values(rank, 3 * sum(table[rank]), seed=call).reshape(-1, 3) for rank in range(SIZE)]
        expected = torch.cat([rows[rank].split(table[rank])[RANK] for rank in range(SIZE)])
        # Longer than what is sent and received.
        source = on_device(torch.cat([rows[RANK], values(RANK, 3).reshape(1, 3)]))
        output = empty(3 * len(expected) + 3).reshape(-1, 3)
        expected = torch.cat([expected, output.cpu()[len(expected) :]])
        sent = on_device(torch.tensor(table[RANK]))
        mscclpp_rs.all_to_all_single(output, source, received, sent, max_split_size=9)
        equal(output, expected, f"rows of call {call}")
        equal(received, torch.tensor([table[rank][RANK] for rank in range(SIZE)]), f"sizes of call {call}")


@own_test
def all_to_all_vdev_with_splits_on_the_device():
    import torch.distributed._symmetric_memory as of_torch

    # The module is for PyTorch 2.15 or later.
    if not hasattr(of_torch, "all_to_all_nd"):
        return
    from mscclpp_rs import symmetric_memory

    result = on_device(torch.full((2, SIZE), -1))
    for call in range(3):
        table = [[(3 * rank + 2 * to + call) % 4 * (rank != 1) for to in range(SIZE)] for rank in range(SIZE)]
        rows = [values(rank, 3 * sum(table[rank]), seed=call).reshape(-1, 3) for rank in range(SIZE)]
        expected = torch.cat([rows[rank].split(table[rank])[RANK] for rank in range(SIZE)])
        # As many rows on all ranks.
        source = torch.zeros(4 * SIZE, 3)
        source[: len(rows[RANK])] = rows[RANK]
        output = empty(3 * len(expected) + 3).reshape(-1, 3)
        expected = torch.cat([expected, output.cpu()[len(expected) :]])
        symmetric_memory.all_to_all_vdev(on_device(source), output, on_device(torch.tensor(table[RANK])), result, dist.group.WORLD.group_name)
        equal(output, expected, f"rows of call {call}")
        sizes = [table[rank][RANK] for rank in range(SIZE)]
        equal(result, torch.tensor([sizes, [sum(sizes[:rank]) for rank in range(SIZE)]]), f"splits and offsets of call {call}")


@test
def send_and_recv_around_a_ring():
    for count in COUNTS:
        following, preceding = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        received = empty(count)
        if RANK % 2 == 0:
            dist.send(on_device(values(RANK, count)), following)
            dist.recv(received, preceding)
        else:
            dist.recv(received, preceding)
            dist.send(on_device(values(RANK, count)), following)
        equal(received, values(preceding, count), f"{count} elements")


@test
def isend_and_irecv():
    if RANK > 1:
        return
    received = empty(200)
    tensor = on_device(values(RANK, 200))
    works = [dist.isend(tensor, 1 - RANK), dist.irecv(received, 1 - RANK)]
    for work in works:
        work.wait()
    equal(received, values(1 - RANK, 200))


@test
def two_sends_before_two_receives():
    # The last ones are of a megabyte each.
    for count in (*COUNTS, 250_000):
        if RANK > 1:
            return
        sent = [on_device(values(RANK, count, seed=k)) for k in range(2)]
        received = [empty(count) for _ in sent]
        works = [dist.isend(tensor, 1 - RANK, tag=k) for k, tensor in enumerate(sent)]
        works += [dist.irecv(tensor, 1 - RANK, tag=k) for k, tensor in enumerate(received)]
        for work in works:
            work.wait()
        for k, tensor in enumerate(received):
            equal(tensor, values(1 - RANK, count, seed=k), f"{count} elements, {k}")


@nccl_test
def send_before_a_reduction_whose_result_is_copied():
    """The receiver calls late, and then makes the reduction for which the sender's copy waits."""
    tensor, sum_ = on_device(values(RANK, 333)), on_device(values(RANK, 77))
    dist.all_reduce(sum_.clone())
    received = empty(333)
    if RANK == 0:
        dist.send(tensor, 1)
    elif RANK == 1:
        time.sleep(0.3)
        dist.recv(received, 0)
    dist.all_reduce(sum_)
    equal(sum_, torch.stack([values(rank, 77) for rank in range(SIZE)]).sum(0))
    if RANK == 1:
        equal(received, values(0, 333))


@test
def batch_isend_irecv_with_every_rank():
    sent = [on_device(values(RANK, 75, seed=to)) for to in range(SIZE)]
    received = [empty(75) for _ in range(SIZE)]
    others = [rank for rank in range(SIZE) if rank != RANK]
    calls = [dist.P2POp(dist.isend, sent[rank], rank) for rank in others]
    calls += [dist.P2POp(dist.irecv, received[rank], rank) for rank in others]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    for rank in others:
        equal(received[rank], values(rank, 75, seed=RANK), f"of rank {rank}")


run()
