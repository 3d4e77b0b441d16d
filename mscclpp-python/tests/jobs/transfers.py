"""Sends and receives of torch.distributed: tags in any order, any source, both directions at once."""

import torch
import torch.distributed as dist
from harness import RANK, SIZE, equal, own_test, run, test, unaligned, values

NEXT, PREVIOUS = (RANK + 1) % SIZE, (RANK - 1) % SIZE


@test
def blocking_transfers_around_the_ring():
    for count in (0, 1, 100, 300_000):
        for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
            received = torch.zeros(count, dtype=dtype)
            if RANK % 2 == 0:
                dist.send(values(RANK, count, dtype), NEXT)
                dist.recv(received, PREVIOUS)
            else:
                dist.recv(received, PREVIOUS)
                dist.send(values(RANK, count, dtype), NEXT)
            equal(received, values(PREVIOUS, count, dtype))


@test
def all_ranks_send_before_they_receive():
    for count in (10, 500_000):
        work = dist.isend(values(RANK, count), NEXT)
        received = torch.zeros(count)
        dist.recv(received, PREVIOUS)
        work.wait()
        equal(received, values(PREVIOUS, count))


@test
def blocking_sends_precede_the_receives_of_all_ranks():
    # The first messages of these sizes, then those that are known, several at once.
    for count in (3, 3, 70_000, 70_000):
        for seed in (0, 1, 2):
            dist.send(values(RANK, count, seed=seed), NEXT)
        for seed in (0, 1, 2):
            received = torch.zeros(count)
            dist.recv(received, PREVIOUS)
            equal(received, values(PREVIOUS, count, seed=seed))


@test
def sent_tensors_may_be_changed_at_once():
    sent = values(RANK, 5)
    dist.send(sent, NEXT)
    sent.fill_(-1)
    dist.barrier()
    received = torch.zeros(5)
    dist.recv(received, PREVIOUS)
    equal(received, values(PREVIOUS, 5))


@test
def tags_match_in_any_order():
    sent = [dist.isend(values(RANK, 1000, seed=tag), NEXT, tag=tag) for tag in (3, 1, 2)]
    for tag in (1, 2, 3):
        received = torch.zeros(1000)
        dist.recv(received, PREVIOUS, tag=tag)
        equal(received, values(PREVIOUS, 1000, seed=tag))
    for work in sent:
        work.wait()


@test
def started_receives_with_other_tags_do_not_wait_for_each_other():
    buffers = {tag: torch.zeros(64) for tag in (1, 2, 3)}
    works = {tag: dist.irecv(buffers[tag], PREVIOUS, tag=tag) for tag in buffers}
    for tag in (3, 2, 1):
        dist.send(values(RANK, 64, seed=tag), NEXT, tag=tag)
        works[tag].wait()
        equal(buffers[tag], values(PREVIOUS, 64, seed=tag))


@test
def receive_from_any_rank_returns_the_source():
    if RANK == 0:
        sources = []
        for _ in range(SIZE - 1):
            received = torch.zeros(8)
            source = dist.recv(received)
            equal(received, values(source, 8))
            sources.append(source)
        assert sorted(sources) == list(range(1, SIZE)), sources
    else:
        dist.send(values(RANK, 8), 0)
    # A message that a rank sends before this would match a receive from any rank as well.
    dist.barrier()
    if RANK == 0:
        for rank in range(1, SIZE):
            received = torch.zeros(8)
            dist.recv(received, rank)
            equal(received, values(rank, 8, seed=1))
    else:
        dist.send(values(RANK, 8, seed=1), 0)


@test
def batches_of_transfers():
    received = {peer: torch.zeros(5000) for peer in range(SIZE) if peer != RANK}
    transfers = []
    for peer, buffer in received.items():
        transfers.append(dist.P2POp(dist.isend, values(RANK, 5000, seed=peer), peer))
        transfers.append(dist.P2POp(dist.irecv, buffer, peer))
    for work in dist.batch_isend_irecv(transfers):
        work.wait()
    for peer, buffer in received.items():
        equal(buffer, values(peer, 5000, seed=RANK))


@test
def receives_that_no_thread_waits_for_are_made():
    # Rank 0 waits for its transfer before the barrier, and rank 1 after it.
    for count in (8, 500_000):
        if RANK == 0:
            dist.isend(values(RANK, count), 1).wait()
        received = torch.zeros(count)
        work = dist.irecv(received, 0) if RANK == 1 else None
        dist.barrier()
        if work is not None:
            work.wait()
            equal(received, values(0, count))


@test
def receives_are_made_while_a_thread_waits_for_a_send():
    for count in (8, 500_000):
        received = torch.zeros(count)
        works = [dist.isend(values(RANK, count), NEXT), dist.irecv(received, PREVIOUS)]
        for work in works:
            work.wait()
        equal(received, values(PREVIOUS, count))


@test
def transfers_pass_while_a_collective_call_waits():
    # Rank 0 makes the collective call only after it has received.
    tensor = torch.ones(4)
    if RANK == 0:
        received = torch.zeros(4)
        dist.recv(received, SIZE - 1)
        dist.all_reduce(tensor)
    else:
        work = dist.all_reduce(tensor, async_op=True)
        if RANK == SIZE - 1:
            dist.send(torch.ones(4), 0)
        work.wait()
    equal(tensor, torch.full((4,), float(SIZE)))


@own_test
def receive_into_a_tensor_of_another_size_names_both_sizes():
    import mscclpp_rs

    if RANK == 0:
        dist.send(torch.ones(4), 1, tag=9)
    elif RANK == 1:
        try:
            dist.recv(torch.ones(5), 0, tag=9)
        except mscclpp_rs.MismatchError as error:
            assert "expected 20 bytes (5 f32) from rank 0" in str(error) and "found 16 bytes (4 f32)" in str(error), error
        else:
            raise AssertionError("expected an exception")
    if RANK == 0:
        dist.send(torch.full((3,), 7.0), 1, tag=9)
    elif RANK == 1:
        received = torch.zeros(3)
        dist.recv(received, 0, tag=9)
        equal(received, torch.full((3,), 7.0))


@own_test
def receive_into_a_tensor_of_another_type_names_both_types():
    import mscclpp_rs

    # A message that arrives after its receive, and one that arrives before.
    for is_kept in (False, True):
        if RANK == 0:
            dist.send(torch.ones(4), 1, tag=9)
            dist.send(torch.ones(2), 1, tag=8)
        elif RANK == 1:
            if is_kept:
                dist.recv(torch.ones(2), 0, tag=8)
            try:
                dist.recv(torch.ones(4, dtype=torch.int32), 0, tag=9)
            except mscclpp_rs.MismatchError as error:
                assert "expected 16 bytes (4 i32) from rank 0" in str(error), error
                assert "found 16 bytes (4 f32)" in str(error), error
            else:
                raise AssertionError("expected an exception")
            if not is_kept:
                dist.recv(torch.ones(2), 0, tag=8)


@own_test
def strided_tensors_are_transferred():
    if RANK == 0:
        dist.send(torch.arange(12.0).reshape(3, 4).t(), 1)
    elif RANK == 1:
        received = torch.zeros(3, 4).t()
        dist.recv(received, 0)
        equal(received, torch.arange(12.0).reshape(3, 4).t())


@test
def tensors_in_memory_that_is_not_aligned_are_transferred():
    for dtype in (torch.float32, torch.int64):
        if RANK == 0:
            dist.send(unaligned(values(0, 50, dtype)), 1)
        elif RANK == 1:
            received = unaligned(torch.zeros(50, dtype=dtype))
            dist.recv(received, 0)
            equal(received, values(0, 50, dtype))


if __name__ == "__main__":
    run()
