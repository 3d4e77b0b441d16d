"""Expert parallelism on devices: rows at experts and sums have the bits of the CPU, whose calls tests of mscclpp-python compare with a
computation on one rank. For the backend of mscclpp-python: BACKEND=mscclpp.
"""

import torch
import torch.distributed as dist
from harness import RANK, SIZE, equal, on_device, run, test

import mscclpp_rs
from mscclpp_rs.experts import low_latency_combine, low_latency_dispatch

EACH, MOST, TOP_K = 2, 5, 3


def tokens_of(call, hidden, dtype):
    """Returns tokens, different choices and weights of this rank; one rank has no tokens in each call."""
    generator = torch.Generator().manual_seed(100 * call + RANK)
    tokens = 0 if RANK == call % SIZE else 1 + (RANK + 3 * call) % MOST
    x = (4 * torch.rand(tokens, hidden, generator=generator) - 2).to(dtype)
    chosen = torch.rand(tokens, EACH * SIZE, generator=generator).argsort(dim=1)[:, :TOP_K].contiguous()
    chosen[torch.rand(chosen.shape, generator=generator) < 0.2] = -1
    return x, chosen, torch.rand(chosen.shape, generator=generator)


def filled(rows, counts, alignment):
    """Returns the rows of the experts: what is after them is not written on devices."""
    if alignment is None:
        return torch.cat([rows[expert, :count] for expert, count in enumerate(counts.tolist())])
    padded = [(count + alignment - 1) // alignment * alignment for count in counts.tolist()]
    return rows[: sum(padded)]


def both_ways(move, call, hidden, dtype, alignment, use_fp8, with_hooks):
    """Returns rows, scales, counts and sums of a dispatch and a combine whose tensors `move` moves."""
    x, chosen, weights = tokens_of(call, hidden, dtype)
    x, chosen, weights = move(x), move(chosen), move(weights)
    named = {"use_fp8": use_fp8, "expert_alignment": alignment, "return_recv_hook": with_hooks}
    found = low_latency_dispatch(x, chosen, MOST, EACH * SIZE, **named)
    if with_hooks:
        found[3]()
    rows, counts, handle = found[:3]
    parts = rows if use_fp8 else (rows,)
    counts = counts.cpu()
    parts = [filled(part.cpu(), counts, alignment) for part in parts]
    # What experts make of the rows has the type of the tokens.
    results = move(rows[0].cpu().float().to(dtype)) if use_fp8 else rows
    combined = low_latency_combine(results, chosen, weights, handle, return_recv_hook=with_hooks)
    if with_hooks:
        combined[1]()
    sums = combined[0] if with_hooks else combined
    return [*(part.view(torch.uint8) for part in parts), counts, sums.cpu().view(torch.uint8)]


@test
def rows_and_sums_have_the_bits_of_the_cpu():
    call = 0
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for hidden, alignment, use_fp8, with_hooks in ((5, None, False, False), (128, 4, True, True), (8, 1, False, True)):
            found = [both_ways(move, call, hidden, dtype, alignment, use_fp8, with_hooks) for move in (on_device, lambda tensor: tensor)]
            for on_devices, on_the_cpu in zip(*found):
                equal(on_devices, on_the_cpu, f"{dtype}, rows of {hidden}, alignment {alignment}, {use_fp8}, {with_hooks}")
            call += 1


@test
def refused_tokens_are_reported_at_the_next_call_that_waits():
    x, chosen = on_device(torch.ones(2, 4)), torch.tensor([[0, 1], [1, 1 if RANK == 0 else 0]])
    low_latency_dispatch(x, on_device(chosen), 2, EACH * SIZE)
    try:
        dist.barrier()
    except mscclpp_rs.InvalidInputError as error:
        assert "choice 1 of token 1 of rank 0 is no expert, or repeats another choice" in str(error), error
    else:
        raise AssertionError("a choice that is repeated")
    rows, counts, _ = low_latency_dispatch(x, on_device(torch.tensor([[0, -1], [-1, -1]])), 2, EACH * SIZE)
    equal(counts.cpu(), torch.tensor([SIZE, 0] if RANK == 0 else [0, 0]), "after a mistake")


@test
def a_layer_learns_what_a_single_rank_learns():
    """Experts are matrices that are trained; the loss of each step is that of a computation on one rank, bit for bit."""
    hidden, steps, rate = 4, 6, 0.25
    experts = EACH * SIZE
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(SIZE, MOST, hidden, generator=generator) - 0.5
    chosen = torch.rand(SIZE, MOST, experts, generator=generator).argsort(dim=2)[:, :, :2].contiguous()
    chosen[:, 0, 1] = -1
    weights, teacher = torch.tensor([0.75, 0.25]).repeat(MOST, 1), torch.rand(experts, hidden, hidden, generator=generator) - 0.5

    def products(row, matrix):
        return (row[None] * matrix).sum(1)

    def outputs(of, matrices):
        total = torch.zeros(MOST, hidden)
        for choice in range(2):
            for token in range(MOST):
                expert = int(chosen[of, token, choice])
                if expert >= 0:
                    total[token] += weights[token, choice] * products(x[of, token], matrices[expert])
        return total

    targets = [outputs(rank, teacher) for rank in range(SIZE)]
    dense, own = torch.zeros(experts, hidden, hidden), torch.zeros(EACH, hidden, hidden)
    for step in range(steps):
        # On one rank: the rows of an expert are those of rank 0, 1, …, each in the order of tokens.
        errors = [outputs(rank, dense) - targets[rank] for rank in range(SIZE)]
        gradients = torch.zeros_like(dense)
        for expert in range(experts):
            for rank in range(SIZE):
                for token in range(MOST):
                    for choice in (chosen[rank, token] == expert).nonzero().flatten().tolist():
                        gradients[expert] += (weights[token, choice] * errors[rank][token])[:, None] * x[rank, token][None]
        dense = dense - rate * gradients

        # Over the ranks, whose rows travel between devices.
        choices = on_device(chosen[RANK])
        rows, counts, handle = low_latency_dispatch(on_device(x[RANK]), choices, MOST, experts)
        rows, counts = rows.cpu(), counts.tolist()
        results = torch.zeros_like(rows)
        for expert in range(EACH):
            for place in range(counts[expert]):
                results[expert, place] = products(rows[expert, place], own[expert])
        sums = low_latency_combine(on_device(results), choices, on_device(weights), handle).cpu()
        error = sums - targets[RANK]
        equal(error, errors[RANK], f"errors of step {step}")
        # The gradient of a choice travels as a token with one choice, to the place of that choice's row.
        by_choice = (weights[..., None] * error[:, None]).reshape(2 * MOST, hidden)
        one_of_each = on_device(chosen[RANK].reshape(2 * MOST, 1))
        of_rows, own_counts, _ = low_latency_dispatch(on_device(by_choice), one_of_each, 2 * MOST, experts)
        of_rows = of_rows.cpu()
        assert own_counts.tolist() == counts
        for expert in range(EACH):
            gradient = torch.zeros(hidden, hidden)
            for place in range(counts[expert]):
                gradient += of_rows[expert, place][:, None] * rows[expert, place][None]
            own[expert] -= rate * gradient
    equal(own, dense[RANK * EACH : (RANK + 1) * EACH], "what was learned")


if __name__ == "__main__":
    run()
