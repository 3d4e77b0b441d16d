"""Sums over all ranks whose rows are normalized in the same launch, compared bit for bit with the arithmetic that the documentation states."""

import torch
import torch.distributed as dist
from harness import RANK, SIZE, equal, run, test

import mscclpp_rs
from mscclpp_rs.fusion import AllReduceFusionPattern as Pattern
from mscclpp_rs.fusion import allreduce_fusion, create_allreduce_fusion_workspace, rms_norm_all_gather

TYPES = (torch.bfloat16, torch.float16, torch.float32)
EPS = 1e-6


def of_rank(rank, rows, hidden, dtype):
    generator = torch.Generator().manual_seed(100 + rank)
    return (4 * torch.rand(rows, hidden, generator=generator) - 2).to(dtype)


def operands(rows, hidden, dtype):
    """Returns a residual and factors, which all ranks have."""
    generator = torch.Generator().manual_seed(7)
    residual = torch.rand(rows, hidden, generator=generator).to(dtype)
    return residual, torch.rand(hidden, generator=generator).to(dtype)


def added(rows, hidden, dtype, fp32_acc=False):
    """Returns the sum over the ranks, in their order."""
    total = of_rank(0, rows, hidden, dtype).float()
    for rank in range(1, SIZE):
        total = total + of_rank(rank, rows, hidden, dtype).float()
        total = total if fp32_acc else total.to(dtype).float()
    return total.to(dtype)


def normalized(sums, gamma, bias, eps=EPS):
    """Returns normalized rows: the squares are added in 256 partial sums, each of which takes the 16-byte vectors of its number."""
    (rows, hidden), vector = sums.shape, 16 // sums.itemsize
    wide = sums.float()
    turns = -(-hidden // (256 * vector))
    padded = torch.nn.functional.pad(wide, (0, turns * 256 * vector - hidden)).view(rows, turns, 256, vector)
    partials = torch.zeros(rows, 256)
    for turn in range(turns):
        for element in range(vector):
            values = padded[:, turn, :, element]
            partials = partials + values * values
    while partials.shape[1] > 1:
        half = partials.shape[1] // 2
        partials = partials[:, :half] + partials[:, half:]
    # PyTorch's square root of float32 is not rounded to nearest everywhere.
    inverse = 1 / torch.sqrt((partials / hidden + eps).double()).float()
    return ((wide * inverse) * (bias + gamma.float())).to(sums.dtype)


def quantized(rows, scale):
    return (rows.float() * (1 / scale)).clamp(-448, 448).to(torch.float8_e4m3fn)


def workspace_of(rows, hidden, dtype, **named):
    arguments = {"world_size": SIZE, "rank": RANK, "max_token_num": max(rows, 1), "hidden_dim": hidden, "dtype": dtype}
    return create_allreduce_fusion_workspace(**arguments | named)


@test
def rows_have_the_bits_of_the_contract():
    for dtype in TYPES:
        for rows, hidden in ((0, 8), (1, 8), (3, 1032), (70, 2056)):
            workspace = workspace_of(rows, hidden, dtype)
            own, (residual, gamma) = of_rank(RANK, rows, hidden, dtype), operands(rows, hidden, dtype)
            for fp32_acc in (False, True):
                plain = added(rows, hidden, dtype, fp32_acc)
                what = f"{dtype}, {rows} rows of {hidden}, {fp32_acc}"
                equal(allreduce_fusion(own, workspace, Pattern.kAllReduce, fp32_acc=fp32_acc), plain, what)
                if fp32_acc:
                    always = workspace_of(rows, hidden, dtype, backend="mnnvl")
                    equal(allreduce_fusion(own, always, Pattern.kAllReduce), plain, what)
                sums = (plain.float() + residual.float()).to(dtype)
                expected = normalized(sums, gamma, 1.0)
                residual_out, norm_out = torch.empty_like(own), torch.empty_like(own)
                named = {"residual_in": residual, "rms_gamma": gamma, "weight_bias": 1.0, "fp32_acc": fp32_acc}
                found = allreduce_fusion(
                    own, workspace, Pattern.kARResidualRMSNorm, residual_out=residual_out, norm_out=norm_out, **named
                )
                assert found is norm_out
                equal(norm_out, expected, what)
                equal(residual_out, sums, what)
                scale = torch.tensor([0.25])
                for pattern in (Pattern.kARResidualRMSNormFP8Quant, Pattern.kARResidualRMSNormOutFP8Quant):
                    found = allreduce_fusion(own, workspace, pattern, norm_out=norm_out.zero_(), scale_factor=scale, **named)
                    equal(found, quantized(expected, scale), what)
                    equal(norm_out, expected, what)
                found = allreduce_fusion(own, workspace, Pattern.kARResidualRMSNormFP8Quant, scale_factor=0.25, **named)
                equal(found, quantized(expected, scale), what)
                scales, rows_out = torch.zeros(rows, 1), torch.zeros(rows, hidden).to(torch.float8_e4m3fn)
                named |= {"quant_out": rows_out, "scale_out": scales}
                found = allreduce_fusion(own, workspace, Pattern.kARResidualRMSNormDynamicFP8Quant, **named)
                largest = expected.float().abs().amax(1, keepdim=True) if rows else scales
                equal(scales, torch.maximum(largest / 448, torch.tensor(1 / (512 * 448))), what)
                assert found is rows_out
                equal(found, quantized(expected, scales), what)


@test
def rows_are_normalized_before_they_are_gathered():
    for dtype in TYPES:
        for rows, hidden in ((0, 8), (1, 8), (3, 1032), (40, 2056)):
            workspace, what = workspace_of(SIZE * rows, hidden, dtype), f"{dtype}, {rows} rows of {hidden}"
            residual, gamma = operands(rows, hidden, dtype)
            sums = [(of_rank(rank, rows, hidden, dtype).float() + residual.float()).to(dtype) for rank in range(SIZE)]
            expected = torch.cat([normalized(rows_of, gamma, 1.0) for rows_of in sums])
            own, mine = of_rank(RANK, rows, hidden, dtype), expected[RANK * rows : (RANK + 1) * rows]
            named = {"residual_in": residual, "rms_gamma": gamma, "weight_bias": 1.0}
            residual_out = torch.empty_like(own)
            equal(rms_norm_all_gather(own, workspace, residual_out=residual_out, **named), expected, what)
            equal(residual_out, sums[RANK], what)
            # In its part of the output, and with quantized rows and their scales.
            output = torch.zeros(SIZE * rows, hidden, dtype=dtype)
            part = output[RANK * rows : (RANK + 1) * rows].copy_(own)
            quant_out, scale_out = torch.zeros(rows, hidden).to(torch.float8_e4m3fn), torch.zeros(rows, 1)
            named |= {"norm_out": output, "quant_out": quant_out}
            assert rms_norm_all_gather(part, workspace, scale_out=scale_out, **named) is output
            equal(output, expected, what)
            equal(quant_out, quantized(mine, scale_out), what)
            output.zero_()
            part.copy_(own)
            rms_norm_all_gather(part, workspace, scale_factor=torch.tensor([0.25]), **named)
            equal(quant_out, quantized(mine, 0.25), what)
    compiled = torch.compile(lambda rows: rms_norm_all_gather(rows, workspace, rms_gamma=gamma), backend="aot_eager", fullgraph=True)
    equal(compiled(own), rms_norm_all_gather(own, workspace, rms_gamma=gamma), "compiled")
    for arguments, text in (
        ({"quant_out": quant_out}, "expected scale_factor or scale_out with quant_out, found neither"),
        ({"scale_factor": 0.5}, "expected quant_out with a scale"),
        ({"rms_gamma": gamma[:-1]}, "expected rms_gamma of shape"),
        ({"norm_out": own}, "expected norm_out of shape"),
        ({"residual_in": residual.double()}, "expected residual_in of"),
        ({"rms_eps": -1.0}, "expected a finite number that is not negative"),
    ):
        try:
            rms_norm_all_gather(own, workspace, **arguments)
        except (mscclpp_rs.InvalidInputError, RuntimeError) as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"{arguments} accepted")


@test
def outputs_may_replace_inputs():
    for dtype in TYPES:
        for rows in (2, 200):
            workspace = workspace_of(rows, 520, dtype)
            residual, gamma = operands(rows, 520, dtype)
            sums = (added(rows, 520, dtype).float() + residual.float()).to(dtype)
            expected = normalized(sums, gamma, 0.0)
            for case in range(4):
                own, before = of_rank(RANK, rows, 520, dtype), residual.clone()
                norm_out = torch.empty_like(own) if case in (1, 2) else own
                residual_out = {0: before, 1: own, 2: torch.empty_like(own), 3: None}[case]
                named = {"residual_in": before, "residual_out": residual_out, "norm_out": norm_out}
                found = allreduce_fusion(own, workspace, Pattern.kARResidualRMSNorm, rms_gamma=gamma, **named)
                equal(found, expected, f"{dtype}, case {case}")
                if residual_out is not None:
                    equal(residual_out, sums, f"{dtype}, case {case}")
            # Strided tensors, and parameters, whose gradients the call does not compute.
            wide = torch.zeros(rows, 1040, dtype=dtype)
            own, factors = wide[:, ::2].copy_(of_rank(RANK, rows, 520, dtype)), torch.nn.Parameter(gamma)
            allreduce_fusion(own, workspace, Pattern.kARResidualRMSNorm, norm_out=own, residual_in=residual, rms_gamma=factors)
            equal(own, expected, f"{dtype}, strided")
            assert not wide[:, 1::2].any()


@test
def bits_of_a_row_do_not_depend_on_the_other_rows():
    workspace = workspace_of(70, 4096, torch.bfloat16)
    own, (residual, gamma) = of_rank(RANK, 70, 4096, torch.bfloat16), operands(70, 4096, torch.bfloat16)

    def normed(rows, **named):
        pattern = Pattern.kARResidualRMSNorm
        return allreduce_fusion(own[rows], workspace, pattern, residual_in=residual[rows], rms_gamma=gamma, **named)

    whole = normed(slice(0, 70))
    for first, last in ((0, 1), (69, 70), (3, 36), (1, 68)):
        for use_oneshot in (None, True, False):
            equal(normed(slice(first, last), use_oneshot=use_oneshot), whole[first:last], f"rows {first} to {last}")


@test
def compiled_layers_have_the_bits_of_eager_ones():
    workspace = workspace_of(64, 64, torch.float32)
    generator = torch.Generator().manual_seed(RANK)
    weights = [torch.rand(64, 64, generator=generator) - 0.5 for _ in range(2)]
    gamma = operands(1, 64, torch.float32)[1]

    def layers(x):
        residual = x
        for weight in weights:
            # As engines write to the memory of their inputs, and to new tensors.
            partial = x @ weight
            x = allreduce_fusion(
                partial, workspace, Pattern.kARResidualRMSNorm, norm_out=partial, residual_in=residual, rms_gamma=gamma
            )
            sums = torch.empty_like(x)
            pattern = Pattern.kARResidualRMSNormOutDynamicFP8Quant
            scales = torch.empty(x.shape[0], 1)
            rows = allreduce_fusion(
                x @ weight, workspace, pattern, norm_out=x, residual_in=residual, residual_out=sums, rms_gamma=gamma, scale_out=scales
            )
            residual = sums
            x = x + rows.float() * scales
        return x, residual

    compiled = torch.compile(layers, backend="aot_eager", fullgraph=True)
    for rows in (3, 5, 64):
        x = of_rank(0, rows, 64, torch.float32)
        for found, expected in zip(compiled(x.clone()), layers(x.clone())):
            equal(found, expected, f"{rows} rows")


def refused(error, words, call):
    """Checks that a call raises an exception with these words."""
    try:
        call()
    except error as found:
        assert words in str(found), found
        return
    raise AssertionError(f"expected {error.__name__} with {words!r}")


@test
def what_is_not_supported_is_refused_with_what_to_use():
    bf16, invalid = torch.bfloat16, mscclpp_rs.InvalidInputError
    workspace, own = workspace_of(4, 16, bf16), torch.ones(4, 16, dtype=bf16)
    gamma, norm = torch.ones(16, dtype=bf16), Pattern.kARResidualRMSNorm

    def call(pattern=norm, of=own, **named):
        return allreduce_fusion(of, workspace, pattern, **{"residual_in": own, "rms_gamma": gamma} | named)

    instead = {3: "use kARResidualRMSNorm ", 5: "NVFP4", 6: "add the rows", 7: "add the rows", 8: "use kARResidualRMSNormDynamic", 9: "groups"}
    for pattern, words in instead.items():
        refused(mscclpp_rs.UnsupportedError, words, lambda: call(pattern))
    refused(invalid, "a pattern of", lambda: call(12))
    refused(invalid, "rms_gamma.to(torch.bfloat16)", lambda: call(rms_gamma=gamma.float()))
    refused(invalid, "residual_in of shape [4, 16]", lambda: call(residual_in=own[:3]))
    refused(invalid, "float16 or bfloat16, found torch.float64", lambda: call(of=own.double()))
    refused(invalid, "create a larger workspace", lambda: call(of=torch.ones(5, 16, dtype=bf16)))
    refused(invalid, "a multiple of 16 bytes", lambda: call(of=torch.ones(4, 15, dtype=bf16)))
    refused(invalid, "expected scale_factor", lambda: call(Pattern.kARResidualRMSNormFP8Quant))
    refused(invalid, "quant_out of torch.float8_e4m3fn", lambda: call(Pattern.kARResidualRMSNormDynamicFP8Quant, quant_out=own))
    out = torch.empty_like(own)
    refused(invalid, "memory of its own for the output", lambda: call(norm_out=out, residual_out=out))
    refused(invalid, "found that of the residual", lambda: call(norm_out=out, residual_in=out))
    refused(invalid, "workspace of create_allreduce_fusion_workspace", lambda: allreduce_fusion(own, object(), norm))
    refused(invalid, "a multiple of 16 bytes", lambda: workspace_of(4, 15, bf16))
    refused(invalid, "pass the group of these ranks", lambda: workspace_of(4, 16, bf16, rank=RANK + 1))
    refused(invalid, "expected the backend auto", lambda: workspace_of(4, 16, bf16, backend="nccl"))
    assert not workspace.is_buffer_size_sufficient(SIZE, 5, 16, bf16) and workspace.is_buffer_size_sufficient(SIZE, 8, 8, bf16)
    ones = torch.ones(4, 16, dtype=bf16)
    equal(call(Pattern.kAllReduce), ones * SIZE, "a call afterwards")
    workspace.destroy()
    refused(invalid, "one that was destroyed", call)
    dist.barrier()


@test
def groups_of_other_backends_name_groups_of_their_ranks():
    beside = dist.new_group(backend="gloo")
    workspace = workspace_of(1, 8, torch.float32, group=beside)
    equal(allreduce_fusion(torch.ones(1, 8), workspace, Pattern.kAllReduce), torch.full((1, 8), float(SIZE)))
    alone = [dist.new_group([rank], backend="gloo") for rank in range(SIZE)][RANK]
    refused(mscclpp_rs.InvalidInputError, "found one of gloo", lambda: workspace_of(1, 8, torch.float32, group=alone))
    pair = dist.new_group([0, 1])
    if RANK < 2:
        part = create_allreduce_fusion_workspace(max_token_num=1, hidden_dim=8, dtype=torch.float32, group=pair)
        assert (part.world_size, part.rank, part.backend) == (2, RANK, "trtllm")
        equal(allreduce_fusion(torch.ones(1, 8), part, Pattern.kAllReduce), torch.full((1, 8), 2.0))


@test
def engines_call_it_by_the_names_of_flashinfer():
    import importlib.util

    from mscclpp_rs import fusion

    fusion.install()
    assert importlib.util.find_spec("flashinfer") is not None
    import flashinfer.comm as comm
    from flashinfer.comm.mnnvl import CommBackend, TorchDistBackend
    from flashinfer.jit import env

    assert env.FLASHINFER_JIT_DIR is None and issubclass(TorchDistBackend, CommBackend)
    assert comm.allreduce_fusion is allreduce_fusion
    dtype, rows, hidden = torch.bfloat16, 5, 64
    (residual, gamma), patterns = operands(rows, hidden, dtype), comm.AllReduceFusionPattern
    plain = added(rows, hidden, dtype, True)
    sums = (plain.float() + residual.float()).to(dtype)
    expected = normalized(sums, gamma, 0.0)

    # As vLLM does: the group of gloo beside the one that moves tensors, and outputs in the memory of inputs.
    beside = dist.new_group(backend="gloo")
    workspace = comm.create_allreduce_fusion_workspace(
        backend="trtllm",
        world_size=SIZE,
        rank=RANK,
        max_token_num=rows,
        hidden_dim=hidden,
        dtype=dtype,
        comm_backend=TorchDistBackend(group=beside),
        group=beside,
    )
    assert workspace.backend == "trtllm"

    def of_vllm(own, before, pattern, norm_out=None, quant_out=None, scale_factor=None):
        comm.allreduce_fusion(
            input=own,
            workspace=workspace,
            pattern=pattern,
            launch_with_pdl=True,
            output=None,
            residual_out=before if norm_out is None else own,
            norm_out=own if norm_out is None else norm_out,
            quant_out=quant_out,
            scale_out=None,
            residual_in=before,
            rms_gamma=gamma,
            rms_eps=EPS,
            scale_factor=scale_factor,
            layout_code=comm.QuantizationSFLayout.SWIZZLED_128x4,
            use_oneshot=True,
            fp32_acc=True,
            weight_bias=0.0,
            trigger_completion_at_end=True,
        )

    own, before = of_rank(RANK, rows, hidden, dtype), residual.clone()
    of_vllm(own, before, patterns.kARResidualRMSNorm)
    equal(own, expected, "vLLM, in place")
    equal(before, sums, "vLLM, in place")
    # The first layer has no residual: the sums are where the input was.
    own, zeros, normed = of_rank(RANK, rows, hidden, dtype), torch.zeros_like(residual), torch.empty_like(residual)
    of_vllm(own, zeros, patterns.kARResidualRMSNorm, norm_out=normed)
    equal(own, plain, "vLLM, first layer")
    equal(normed, normalized(plain, gamma, 0.0), "vLLM, first layer")
    own, before, rows_out = of_rank(RANK, rows, hidden, dtype), residual.clone(), torch.empty(rows, hidden, dtype=torch.float8_e4m3fn)
    scale = torch.tensor(0.5)
    of_vllm(own, before, patterns.kARResidualRMSNormFP8Quant, quant_out=rows_out, scale_factor=scale)
    equal(rows_out, quantized(expected, scale), "vLLM, quantized")
    equal(before, sums, "vLLM, quantized")
    own = of_rank(RANK, rows, hidden, dtype)
    arguments = {"input": own, "workspace": workspace, "pattern": patterns.kAllReduce}
    found = comm.allreduce_fusion(**arguments, launch_with_pdl=True, trigger_completion_at_end=False)
    equal(found, added(rows, hidden, dtype), "vLLM, all-reduce")
    workspace.destroy()

    # As SGLang does: without a group, or with one in a backend of its own, and outputs of their own.
    class OfGroups(TorchDistBackend):
        def __init__(self, device_group, cpu_group):
            super().__init__(group=device_group)
            self._cpu_group = cpu_group

    default = dist.distributed_c10d._get_default_group()
    for comm_backend in (None, OfGroups(default, beside)):
        workspace = comm.create_allreduce_fusion_workspace(
            backend="auto",
            world_size=SIZE,
            rank=RANK,
            max_token_num=2048,
            hidden_dim=hidden,
            dtype=dtype,
            gpus_per_node=SIZE,
            comm_backend=comm_backend,
            force_oneshot_support=True,
        )
        sizes = {"tp_size": SIZE, "num_tokens": rows, "hidden_dim": hidden, "dtype": dtype, "use_oneshot": True}
        assert workspace.is_buffer_size_sufficient(**sizes)
        residual_out, norm_out = torch.empty_like(residual), torch.empty_like(own)
        comm.allreduce_fusion(
            input=own,
            workspace=workspace,
            pattern=patterns.kARResidualRMSNorm,
            launch_with_pdl=True,
            trigger_completion_at_end=False,
            residual_out=residual_out,
            norm_out=norm_out,
            residual_in=residual,
            rms_gamma=gamma,
            rms_eps=EPS,
            use_oneshot=True,
            fp32_acc=True,
        )
        equal(norm_out, expected, "SGLang")
        equal(residual_out, sums, "SGLang")


if __name__ == "__main__":
    run()
