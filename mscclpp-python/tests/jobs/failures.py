"""Failures: each mode makes one happen. Ranks that remain print what they learn: the class, the root cause and the reason.

A rank is a process with RANK, WORLD_SIZE and MASTER_PORT, without torchrun, which would end the ranks that remain.
"""

import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import mscclpp_rs

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
#: The rank with which the failure begins.
FIRST = SIZE - 1


def start(seconds=60):
    # A shell lets jobs in the background ignore this signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    dist.init_process_group("mscclpp", timeout=timedelta(seconds=seconds))
    dist.all_reduce(torch.ones(3))


def fails(call, within=30.0):
    """Makes a call that must fail, and prints what all ranks must learn alike."""
    started = time.monotonic()
    try:
        call()
    except mscclpp_rs.Error as error:
        waited = time.monotonic() - started
        assert isinstance(error, RuntimeError) and error.operation, (error, vars(error))
        assert waited < within, f"{waited} s"
        print(f"cause {type(error).__name__} {error.root_cause}: {error.reason}", flush=True)
        print(f"message of rank {error.rank} in {error.operation}: {error}", flush=True)
        return error
    raise AssertionError("expected an exception")


def killed():
    start()
    if RANK == FIRST:
        os.kill(os.getpid(), signal.SIGKILL)
    error = fails(lambda: dist.all_reduce(torch.ones(1000)), within=10)
    assert error.root_cause == FIRST and error.lost == (FIRST,), vars(error)
    # Later calls say the same.
    again = fails(lambda: dist.broadcast(torch.ones(2), 0))
    assert (again.root_cause, again.reason) == (error.root_cause, error.reason)


def killed_in_started_calls():
    start()
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(3 if RANK != FIRST else 2)]
    if RANK == FIRST:
        for work in works:
            work.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    works[0].wait()
    works[1].wait()
    future = works[2].get_future()
    fails(works[2].wait)
    try:
        future.wait()
    except Exception as error:
        assert f"rank {FIRST}" in str(error), error
    else:
        raise AssertionError("expected an exception of the future")


def killed_in_a_transfer():
    """The texts name the ranks of the group, not those of the communicator that two ranks have for their transfers."""
    start()
    if RANK == FIRST:
        dist.send(torch.ones(3), 0)
        # A send is buffered, and what is in the buffer ends with the process.
        dist.recv(torch.ones(3), 0)
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 0:
        dist.recv(torch.ones(3), FIRST)
        dist.send(torch.ones(3), FIRST)
        error = fails(lambda: dist.recv(torch.ones(3), FIRST))
        assert error.root_cause == FIRST and error.lost == (FIRST,), vars(error)
        assert f"rank {FIRST} (pid" in error.reason and "rank 1" not in f"{error.reason} {error}", error


def killed_before_it_receives():
    """A rank that only sends learns from a later send that its receiver has died."""
    start()
    if RANK == FIRST:
        dist.recv(torch.ones(3), 0)
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 0:

        def sends():
            started = time.monotonic()
            while time.monotonic() - started < 30:
                dist.send(torch.ones(3), FIRST)
                time.sleep(0.05)

        error = fails(sends)
        assert error.root_cause == FIRST and error.lost == (FIRST,), vars(error)


def late_behind_buffered_sends():
    """A send without room waits for the timeout of the group, although what is before it in the buffer may wait longer."""
    start(2)
    if RANK == 0:
        dist.send(torch.ones(3), FIRST)
        error = fails(lambda: dist.send(torch.ones(2 << 20), FIRST), within=10)
        assert isinstance(error, mscclpp_rs.TimeoutError) and error.root_cause == FIRST, vars(error)
        assert "both wait for each other" in str(error), error
    else:
        time.sleep(6)
    # No rank receives what is in the buffer.
    print("ok", flush=True)
    os._exit(0)


def uncaught_exception_while_sends_are_buffered():
    """The process ends at once, not after the timeout of the group: the exception may be why no rank receives them."""
    start(3600)
    if RANK == FIRST:
        dist.send(torch.ones(3), 0)
        raise ValueError("not caught")
    error = fails(lambda: dist.all_reduce(torch.ones(1000)), within=250)
    assert error.root_cause == FIRST and error.lost == (FIRST,), vars(error)


def stopped():
    # Noticed by the heartbeats, which are missing for 10 seconds.
    start()
    if RANK == FIRST:
        print("stops", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    error = fails(lambda: dist.all_reduce(torch.ones(1000)))
    assert error.root_cause == FIRST, vars(error)


def late():
    start(2)
    if RANK == FIRST:
        time.sleep(6)
    error = fails(lambda: dist.all_reduce(torch.ones(1000)))
    assert error.root_cause == FIRST, vars(error)


def late_and_all_ranks_end_at_once():
    """Without destructors, as after an exception that nothing catches: no other rank takes that for the cause."""
    start(2)
    if RANK == 1:
        time.sleep(4)
    error = fails(lambda: dist.all_reduce(torch.ones(1000)))
    assert error.root_cause == 1 and "died" not in f"{error} {error.reason}", vars(error)
    print("ok", flush=True)
    os._exit(0)


def late_for_the_timeout_of_a_call():
    start(60)
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=1)
    if RANK == FIRST:
        time.sleep(4)
    group = dist.distributed_c10d._get_default_group()
    error = fails(lambda: group.allreduce([torch.ones(1000)], options).wait(), within=5)
    assert error.root_cause == FIRST, vars(error)


def late_for_a_new_group():
    start(60)
    if RANK == FIRST:
        time.sleep(5)
    error = fails(lambda: dist.new_group(timeout=timedelta(seconds=2)), within=8)
    assert isinstance(error, mscclpp_rs.TimeoutError) and error.root_cause == FIRST, vars(error)
    # The store is one of rank 0, which stays; the group of all ranks is as before.
    dist.barrier()


def late_ranks_of_a_new_group():
    start(60)
    if RANK > 0:
        time.sleep(4 + RANK)
    error = fails(lambda: dist.new_group(timeout=timedelta(seconds=2)), within=8)
    assert isinstance(error, mscclpp_rs.TimeoutError) and error.root_cause in (1, 2), vars(error)
    dist.barrier()


def late_first_rank_of_a_new_group():
    start(60)
    if RANK == 0:
        time.sleep(5)
    error = fails(lambda: dist.new_group(timeout=timedelta(seconds=2)), within=8)
    assert isinstance(error, mscclpp_rs.TimeoutError) and error.root_cause == 0, vars(error)
    # The store is one of rank 0, which stays; the group of all ranks is as before.
    dist.barrier()


def mismatched():
    start()
    if RANK == FIRST:
        fails(lambda: dist.broadcast(torch.ones(1000), 0))
    else:
        fails(lambda: dist.all_reduce(torch.ones(1000)))


def mismatched_sizes():
    start()
    fails(lambda: dist.all_reduce(torch.ones(1000 if RANK == FIRST else 1001)))


def mismatched_with_an_empty_tensor():
    start()

    def call():
        for number in range(2):
            dist.all_reduce(torch.ones(0 if RANK == FIRST and number == 0 else 5))

    error = fails(call)
    assert isinstance(error, mscclpp_rs.MismatchError), error


def mismatched_lists():
    """Lists with as many elements in all, so that only their lengths differ: gloo adds the elements of other tensors."""
    start()
    lengths = (2000, 1000) if RANK == FIRST else (1000, 2000)
    error = fails(lambda: dist.all_reduce_coalesced([torch.ones(count) for count in lengths]))
    assert isinstance(error, mscclpp_rs.MismatchError) and error.root_cause == FIRST, vars(error)


def mismatched_splits():
    start()
    inputs, sizes, expected = torch.ones(2 * SIZE), [2] * SIZE, [2] * SIZE
    # Rank 0 expects more of one rank than that sends.
    expected[FIRST] += RANK == 0
    error = fails(lambda: dist.all_to_all_single(torch.zeros(sum(expected)), inputs, expected, sizes))
    assert isinstance(error, mscclpp_rs.MismatchError) and error.root_cause == FIRST, vars(error)
    assert f"rank {FIRST} sent 8 bytes to rank 0, which expected 12" in error.reason, error.reason
    dist.barrier()


def mismatched_scatter():
    start()
    count = 5 if RANK == FIRST else 4
    error = fails(lambda: dist.scatter(torch.ones(count), [torch.ones(count)] * SIZE if RANK == 0 else None, 0))
    assert isinstance(error, mscclpp_rs.MismatchError) and error.root_cause == FIRST, vars(error)


def mismatched_types():
    """Types that are moved as one: the call is not made, as for any other two types."""
    start()

    def is_refused(call, of_first, of_others):
        dtype, group = of_first if RANK == FIRST else of_others, dist.new_group()
        tensor = torch.zeros(4, dtype=torch.uint8).view(dtype)
        error = fails(lambda: call(tensor, group))
        assert isinstance(error, mscclpp_rs.MismatchError) and error.root_cause == FIRST, vars(error)

    def broadcast(tensor, group):
        dist.broadcast(tensor, 0, group=group)

    def all_gather(tensor, group):
        dist.all_gather([torch.empty_like(tensor) for _ in range(SIZE)], tensor, group=group)

    def gather(tensor, group):
        dist.gather(tensor, [torch.empty_like(tensor) for _ in range(SIZE)] if RANK == 0 else None, 0, group=group)

    def all_reduce(tensor, group):
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group)

    for call in (broadcast, all_gather, gather, all_reduce):
        is_refused(call, torch.bool, torch.uint8)
    # Of one size, and of no type that messages have.
    is_refused(broadcast, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
    is_refused(gather, torch.int32, torch.float32)


def mismatched_roots():
    start()
    root = int(RANK == FIRST)
    error = fails(lambda: dist.gather(torch.ones(4), [torch.zeros(4)] * SIZE if RANK == root else None, root))
    assert isinstance(error, mscclpp_rs.MismatchError) and error.root_cause == FIRST, vars(error)


def aborted():
    start()
    if RANK == FIRST:
        time.sleep(1)
        backend = dist.distributed_c10d._get_default_group()
        getattr(backend, "_get_backend")(torch.device("cpu")).abort()
    error = fails(lambda: dist.all_reduce(torch.ones(1000)))
    assert error.root_cause == FIRST, vars(error)


def failure_of_a_sub_group_is_its_own():
    start()
    group = dist.new_group(timeout=timedelta(seconds=1))
    if RANK == FIRST:
        time.sleep(3)
    fails(lambda: dist.all_reduce(torch.ones(4), group=group))
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [SIZE] * 4, tensor


def interrupted():
    start()
    if RANK == FIRST:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            dist.all_reduce(torch.ones(1000))
        except KeyboardInterrupt:
            waited = time.monotonic() - started
            assert waited < 1.5, f"{waited} s"
            print("interrupted", flush=True)
        else:
            raise AssertionError("expected KeyboardInterrupt")
        return
    time.sleep(3)
    error = fails(lambda: dist.all_reduce(torch.ones(1000)))
    assert error.root_cause == FIRST, vars(error)


def interrupted_wait_of_a_started_call():
    start()
    work = None
    if RANK == FIRST:
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            work.wait()
        except KeyboardInterrupt:
            waited = time.monotonic() - started
            assert waited < 1.5, f"{waited} s"
            print("interrupted", flush=True)
        else:
            raise AssertionError("expected KeyboardInterrupt")
        # The call is still made.
        work.wait()
    else:
        time.sleep(2)
        dist.all_reduce(torch.ones(1000))
    dist.barrier()


def wait_with_a_timeout_raises_and_the_call_is_still_made():
    start()
    tensor = torch.ones(1000)
    if RANK == FIRST:
        time.sleep(2)
    work = dist.all_reduce(tensor, async_op=True)
    if RANK != FIRST:
        try:
            work.wait(timedelta(milliseconds=200))
        except mscclpp_rs.TimeoutError as error:
            assert isinstance(error, TimeoutError), error
        else:
            raise AssertionError("expected an exception")
    work.wait()
    assert tensor[0] == SIZE, tensor


def late_for_a_receive_from_any_rank():
    start(seconds=2)
    tensor = torch.zeros(3)
    if RANK == 0:
        work = dist.irecv(tensor)
        started = time.monotonic()
        try:
            work.wait()
        except mscclpp_rs.TimeoutError as error:
            assert error.root_cause is None and 1 < time.monotonic() - started < 10, vars(error)
        else:
            raise AssertionError("expected an exception")
        # The receive is still made.
        deadline = time.monotonic() + 30
        while not work.is_completed():
            assert time.monotonic() < deadline, "expected the receive to end"
            time.sleep(0.01)
        assert tensor.sum() == 3, tensor
    else:
        time.sleep(4)
        if RANK == FIRST:
            dist.send(torch.ones(3), 0)


def mismatched_sparse_shapes():
    start()
    tensor = torch.sparse_coo_tensor([[0]], [1.0], (5 + (RANK == FIRST),))
    error = fails(lambda: dist.all_reduce(tensor))
    assert isinstance(error, mscclpp_rs.MismatchError) and error.root_cause == FIRST, vars(error)


class _Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        try:
            dist.all_reduce(torch.ones(3))
        except mscclpp_rs.InvalidInputError as error:
            return index if "rank" in str(error) else -1
        return -1


def forked():
    """Workers of a data loader are copies of the process: their calls raise, and their ends harm nothing."""
    start()
    loader = torch.utils.data.DataLoader(_Data(), num_workers=2, batch_size=4, multiprocessing_context="fork")
    for _ in range(2):
        found = sorted(torch.cat(list(loader)).tolist())
        assert found == list(range(8)), found
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor[0] == SIZE, tensor
    # A copy that ends as a program of Python, with all its handlers, while calls are made.
    work = dist.all_reduce(torch.ones(5), async_op=True)
    child = os.fork()
    if child == 0:
        for call in (
            lambda: dist.all_reduce(torch.ones(3), async_op=True).wait(),
            lambda: dist.send(torch.ones(3), (RANK + 1) % SIZE),
            lambda: dist.barrier(),
        ):
            try:
                call()
            except mscclpp_rs.Error:
                continue
            os._exit(3)
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    work.wait()
    dist.barrier()


def invalid_arguments_leave_the_group_usable():
    start()
    calls = {
        "sizes": lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1] * SIZE, [1] * SIZE),
        "list": lambda: dist.distributed_c10d._get_default_group().allgather([[torch.ones(1)]], [torch.ones(1)]),
        "type": lambda: dist.all_gather([torch.ones(2, dtype=torch.int32)] * SIZE, torch.ones(2)),
        "bits": lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BXOR),
        "lengths": lambda: dist.all_gather_into_tensor(torch.ones(3 * SIZE + 1), torch.ones(3)),
        "root": lambda: dist.broadcast(torch.ones(2), -1),
        "destination": lambda: dist.distributed_c10d._get_default_group().send([torch.ones(2)], -1, 0),
        "itself": lambda: dist.recv(torch.ones(2), RANK),
        "to itself": lambda: dist.distributed_c10d._get_default_group().send([torch.ones(2)], RANK, 0),
        "tag": lambda: dist.isend(torch.ones(2), (RANK + 1) % SIZE, tag=-1),
        "itself in a batch": lambda: dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.ones(2), RANK)]),
        "source": lambda: dist.distributed_c10d._get_default_group().recv([torch.ones(2)], -3, 0),
        "boolean average": lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG),
    }
    for what, call in calls.items():
        try:
            call()
        except (ValueError, TypeError) as error:
            print(f"{what}: {type(error).__name__}: {error}", flush=True)
        else:
            raise AssertionError(f"{what}: expected an exception")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0] == SIZE, tensor


def shrunk():
    start()
    if RANK == FIRST:
        os.kill(os.getpid(), signal.SIGKILL)
    error = fails(lambda: dist.all_reduce(torch.ones(1000)))
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    assert backend.supports_shrinking
    shrunk = backend.shrink(list(error.lost))
    tensor = torch.ones(7)
    options = dist.AllreduceOptions()
    shrunk.allreduce([tensor], options).wait()
    assert tensor.tolist() == [SIZE - 1] * 7, tensor
    shrunk.shutdown()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("ok", flush=True)
    if dist.is_initialized() and sys.argv[1] in ("forked", "interrupted_wait_of_a_started_call"):
        dist.destroy_process_group()
