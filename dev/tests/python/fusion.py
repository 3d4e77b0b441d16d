"""Sums over all ranks whose rows are normalized in the same launch, on devices: the bits are those of the CPU, whose calls a test of
mscclpp-python compares with the arithmetic that the documentation states. For the backend of mscclpp-python: BACKEND=mscclpp.
"""

import torch
from harness import RANK, SIZE, equal, on_device, run, test

from mscclpp_rs.fusion import AllReduceFusionPattern as Pattern
from mscclpp_rs.fusion import allreduce_fusion, create_allreduce_fusion_workspace, rms_norm_all_gather

QUANTIZED = (Pattern.kARResidualRMSNormFP8Quant, Pattern.kARResidualRMSNormOutDynamicFP8Quant)


def rows_of(seed, rows, hidden, dtype):
    generator = torch.Generator().manual_seed(seed)
    return (4 * torch.rand(rows, hidden, generator=generator) - 2).to(dtype)


def workspace_of(rows, hidden, dtype):
    return create_allreduce_fusion_workspace(max_token_num=rows, hidden_dim=hidden, dtype=dtype)


def bits(tensor):
    return tensor.cpu().view(torch.uint8)


def results(workspace, own, residual, gamma, pattern, move, **named):
    """Returns what a call writes whose tensors `move` moves, in new tensors."""
    rows = own.shape[0]
    norm_out, residual_out = move(torch.zeros_like(own)), move(torch.zeros_like(own))
    quant_out, scale_out = move(torch.zeros(own.shape).to(torch.float8_e4m3fn)), move(torch.zeros(rows, 1))
    if pattern in QUANTIZED:
        named |= {"quant_out": quant_out, "scale_out": scale_out}
    named |= {"norm_out": norm_out, "residual_out": residual_out, "rms_gamma": move(gamma)}
    allreduce_fusion(move(own), workspace, pattern, residual_in=move(residual), weight_bias=1.0, **named)
    return [bits(tensor) for tensor in (norm_out, residual_out, quant_out, scale_out)]


@test
def rows_have_the_bits_of_the_cpu():
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for rows, hidden in ((1, 8), (5, 1032)):
            workspace = workspace_of(rows, hidden, dtype)
            own, residual, gamma = (rows_of(seed, rows, hidden, dtype) for seed in (RANK, 50, 51))
            for pattern in (Pattern.kARResidualRMSNorm, *QUANTIZED):
                for fp32_acc in (False, True):
                    found = []
                    for move in (on_device, lambda tensor: tensor):
                        scale = None if pattern != QUANTIZED[0] else move(torch.tensor([0.25])) if fp32_acc else 0.25
                        named = {"fp32_acc": fp32_acc, "scale_factor": scale}
                        found.append(results(workspace, own, residual, gamma[0], pattern, move, **named))
                    for on_devices, on_the_cpu in zip(*found):
                        equal(on_devices, on_the_cpu, f"{dtype}, {rows} rows of {hidden}, pattern {pattern}, {fp32_acc}")


@test
def scales_on_devices_are_those_of_their_last_change():
    workspace = workspace_of(4, 64, torch.float32)
    own, gamma, scale = rows_of(RANK, 4, 64, torch.float32), torch.ones(64), on_device(torch.tensor([0.25]))
    rows, factors = on_device(own), on_device(gamma)
    for value in (0.25, 0.5, 0.5):
        scale.copy_(torch.tensor([value]))
        found = allreduce_fusion(rows, workspace, QUANTIZED[0], rms_gamma=factors, scale_factor=scale)
        expected = allreduce_fusion(own, workspace, QUANTIZED[0], rms_gamma=gamma, scale_factor=value)
        equal(bits(found), bits(expected), f"scale {value}")


@test
def outputs_may_replace_inputs():
    workspace = workspace_of(9, 64, torch.bfloat16)
    own, residual, gamma = (rows_of(seed, 9, 64, torch.bfloat16) for seed in (RANK, 50, 51))
    found = []
    for move in (on_device, lambda tensor: tensor.clone()):
        for case in range(3):
            rows, before, factors = move(own), move(residual), move(gamma[0])
            norm_out = rows if case == 0 else torch.empty_like(rows)
            residual_out = rows if case == 1 else before
            named = {"residual_in": before, "residual_out": residual_out, "norm_out": norm_out, "rms_gamma": factors}
            allreduce_fusion(rows, workspace, Pattern.kARResidualRMSNorm, **named)
            found.append((bits(norm_out), bits(residual_out)))
    for case, (on_devices, on_the_cpu) in enumerate(zip(found[:3], found[3:])):
        equal(on_devices[0], on_the_cpu[0], f"rows, case {case}")
        equal(on_devices[1], on_the_cpu[1], f"sums, case {case}")


@test
def replays_normalize_new_rows():
    workspace = workspace_of(3, 64, torch.float32)
    gamma = rows_of(51, 1, 64, torch.float32)[0]
    rows, norm_out, factors = on_device(rows_of(RANK, 3, 64, torch.float32)), on_device(torch.zeros(3, 64)), on_device(gamma)

    def call(of=rows, to=norm_out, by=factors):
        allreduce_fusion(of, workspace, Pattern.kARResidualRMSNorm, norm_out=to, rms_gamma=by)

    # The first call connects the ranks.
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        call()
    for seed in range(3):
        own, expected = rows_of(100 * seed + RANK, 3, 64, torch.float32), torch.zeros(3, 64)
        rows.copy_(own)
        graph.replay()
        torch.cuda.synchronize()
        call(own, expected, gamma)
        equal(bits(norm_out), bits(expected), f"replay {seed} of {SIZE} ranks")


@test
def replays_have_the_scale_of_their_time():
    workspace = workspace_of(3, 64, torch.float32)
    own, scale = rows_of(RANK, 3, 64, torch.float32), on_device(torch.tensor([0.25]))
    rows, quant_out = on_device(own), on_device(torch.zeros(3, 64).to(torch.float8_e4m3fn))

    def call():
        allreduce_fusion(rows, workspace, QUANTIZED[0], quant_out=quant_out, scale_factor=scale)

    # The first call connects the ranks.
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        call()
    for value in (0.25, 0.5, 0.3):
        scale.copy_(torch.tensor([value]))
        graph.replay()
        torch.cuda.synchronize()
        expected = allreduce_fusion(own, workspace, QUANTIZED[0], scale_factor=value)
        equal(bits(quant_out), bits(expected), f"scale {value}")


@test
def rows_are_normalized_before_they_are_gathered():
    for dtype in (torch.bfloat16, torch.float32):
        for rows in (1, 40):
            workspace = workspace_of(SIZE * rows, 520, dtype)
            own, residual, gamma = (rows_of(seed, rows, 520, dtype) for seed in (RANK, 50 + RANK, 52))
            found = []
            for move in (on_device, lambda tensor: tensor.clone()):
                sums, quant_out = move(residual), move(torch.zeros(rows, 520).to(torch.float8_e4m3fn))
                scales = move(torch.zeros(rows, 1))
                named = {"residual_in": sums, "residual_out": sums, "quant_out": quant_out, "scale_out": scales}
                output = rms_norm_all_gather(move(own), workspace, rms_gamma=move(gamma[0]), **named)
                found.append([bits(tensor) for tensor in (output, sums, quant_out, scales)])
            for on_devices, on_the_cpu in zip(*found):
                equal(on_devices, on_the_cpu, f"{dtype}, {rows} rows")


if __name__ == "__main__":
    run()
