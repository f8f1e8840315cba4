"""PyTorch on the CPU: gradients, compilation, autocast, transforms, and the signatures of others."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import anymask as am

torch = pytest.importorskip("torch")
import anymask._torch  # noqa: E402  the operators

F = torch.nn.functional


def tensors(
    seed: int = 0, *, b: int = 2, s: int = 21, h: int = 4, h_kv: int = 2, d: int = 16, grad: bool = True
) -> list[Any]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(b, s, heads, d, generator=generator, requires_grad=grad) for heads in (h, h_kv, h_kv)]


def by_torch(
    q: Any, k: Any, v: Any, mask: am.Mask, bias: Any = None, sinks: Any = None, softcap: float = 0.0
) -> tuple[Any, Any]:
    """out and lse by PyTorch's own operators, in double."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    if bias is not None:
        s = s + bias.double()
    s = s.masked_fill(~torch.from_numpy(mask.dense(q.shape[1], k.shape[1])), -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks.double()[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    p = s.softmax(-1)[..., : k.shape[1]]
    return torch.einsum("bhqk,bkhd->bqhd", p, v), s.logsumexp(-1)


def close(a: Any, b: Any, bound: float = 5e-5) -> None:
    assert a.shape == b.shape
    assert (a.double() - b.double()).abs().max().item() <= bound


MASK = am.causal() & am.documents([0, 5, 21]) | am.keys(0, 2)


def loss(out: Any, lse: Any) -> Any:
    weights = torch.arange(out.numel(), dtype=out.dtype).reshape(out.shape) / out.numel()
    return (out * weights).sum() + (lse * lse).sum() * 0.01


def test_gradients_of_everything() -> None:
    q, k, v = tensors()
    bias = torch.randn(1, 4, 21, 21, requires_grad=True)
    sinks = torch.randn(4, requires_grad=True)
    inputs = [q, k, v, bias, sinks]
    out, lse = am.attention(q, k, v, MASK, bias=bias, sinks=sinks, softcap=15.0, return_lse=True)
    want, want_lse = by_torch(q, k, v, MASK, bias, sinks, 15.0)
    close(out, want)
    close(lse, want_lse)
    for a, b in zip(
        torch.autograd.grad(loss(out, lse), inputs), torch.autograd.grad(loss(want, want_lse), inputs), strict=True
    ):
        close(a, b)


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3)), ids=str)
def test_gradients_of_some(wanted: tuple[bool, ...]) -> None:
    q, k, v = tensors()
    for x, w in zip((q, k, v), wanted, strict=True):
        x.requires_grad_(w)
    out = am.attention(q, k, v, MASK)
    assert out.requires_grad == any(wanted)
    if any(wanted):
        out.sum().backward()
    assert [x.grad is not None for x in (q, k, v)] == list(wanted)


def test_lse_alone_and_out_alone_are_differentiable() -> None:
    for which in (0, 1):
        q, k, v = tensors()
        got = am.attention(q, k, v, MASK, return_lse=True)[which]
        want = by_torch(q, k, v, MASK)[which]
        for a, b in zip(
            torch.autograd.grad(got.square().sum(), [q, k]),
            torch.autograd.grad(want.square().sum(), [q, k]),
            strict=True,
        ):
            close(a, b)


def test_packed_sequences() -> None:
    q, k, v = (x.detach()[0].requires_grad_() for x in tensors(b=1))
    cu = torch.tensor([0, 5, 5, 21], dtype=torch.int32)
    out = am.attention(q, k, v, am.causal(), cu_seqlens_q=cu)
    close(out, by_torch(q[None], k[None], v[None], am.causal() & am.documents([0, 5, 5, 21]))[0][0])
    out.sum().backward()
    assert q.grad is not None and q.grad.shape == q.shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype: Any) -> None:
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in tensors())
    out, lse = am.attention(q, k, v, MASK, return_lse=True)
    assert out.dtype == dtype and lse.dtype == torch.float32
    close(out, by_torch(q, k, v, MASK)[0], 2e-2)
    out.float().sum().backward()
    assert q.grad is not None and q.grad.dtype == dtype


def test_the_module_sees_tensors_as_numpy_does() -> None:
    q, k, v = tensors(grad=False)
    want = am.attention(q.numpy(), k.numpy(), v.numpy(), MASK)
    np.testing.assert_array_equal(am.attention(q, k, v, MASK).numpy(), want)
    heads_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    np.testing.assert_array_equal(am.attention(*heads_first, MASK).numpy(), want)
    out = torch.full_like(q, torch.nan)
    assert am.attention(q, k, v, MASK, out=out) is out
    np.testing.assert_array_equal(out.numpy(), want)
    with pytest.raises(TypeError, match=r"k is of type ndarray and q a PyTorch tensor; .* torch.as_tensor\(k\)"):
        am.attention(q, k.numpy(), v, MASK)


def test_parameters_and_no_grad() -> None:
    q, k, v = tensors()
    parameter = torch.nn.Parameter(q.detach())
    with torch.no_grad():
        assert not am.attention(parameter, k, v).requires_grad
    with torch.inference_mode():
        assert not am.attention(parameter, k, v).requires_grad
    assert am.attention(parameter, k, v).requires_grad


def test_second_derivatives_are_refused() -> None:
    q, k, v = tensors()
    (dq,) = torch.autograd.grad(am.attention(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(am.UnsupportedError, match="the gradient of a gradient is asked for"):
        dq.sum().backward()


def test_what_gradients_cannot_take() -> None:
    q, k, v = tensors()
    slopes = torch.ones(4, requires_grad=True)
    with pytest.raises(am.UnsupportedError, match="alibi_slopes requires a gradient"):
        am.attention(q, k, v, alibi_slopes=slopes)
    with pytest.raises(am.UnsupportedError, match="out or lse is given where gradients"):
        am.attention(q, k, v, out=torch.empty_like(q))
    with pytest.raises(TypeError, match="mask is of type Tensor; expected a mask"):
        am.attention(q, k, v, torch.ones(21, 21, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"copy it, q\.contiguous\(\)"):
        am.attention(torch.zeros(2, 21, 4, 32)[..., ::2], k, v)
    with pytest.raises(ValueError, match=r"q has elements of type torch\.complex64"):
        am.attention(q.detach().to(torch.complex64), k.detach(), v.detach())


def test_autocast() -> None:
    q, k, v = tensors()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, lse = am.attention(q, k, v, MASK, return_lse=True)
    assert out.dtype == torch.bfloat16 and lse.dtype == torch.float32
    close(out, by_torch(q, k, v, MASK)[0], 3e-2)
    out.float().sum().backward()
    assert q.grad is not None and q.grad.dtype == torch.float32


def test_checkpointing() -> None:
    from torch.utils.checkpoint import checkpoint

    q, k, v = tensors()
    want = torch.autograd.grad(am.attention(q, k, v, MASK).sum(), [q, k, v])
    out = checkpoint(lambda *x: am.attention(*x, MASK), q, k, v, use_reentrant=False)
    for a, b in zip(torch.autograd.grad(out.sum(), [q, k, v]), want, strict=True):
        assert torch.equal(a, b)


def test_vmap_runs_one_at_a_time() -> None:
    x = torch.randn(3, 1, 8, 2, 8)
    got = torch.vmap(lambda y: am.attention(y, y, y, am.causal()))(x)
    for i in range(3):
        assert torch.equal(got[i], am.attention(x[i], x[i], x[i], am.causal()))


def test_tensors_without_data() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = tensors()
    meta = am.attention(*(x.to("meta") for x in (q, k, v)), MASK)
    assert meta.shape == q.shape and meta.is_meta
    with FakeTensorMode() as mode:
        out, lse = am.attention(*(mode.from_tensor(x) for x in (q, k, v)), MASK, return_lse=True)
    assert out.shape == q.shape and lse.shape == (2, 4, 21)


def test_subclasses_and_modes() -> None:
    class Own(torch.Tensor):
        pass

    from torch.utils.flop_counter import FlopCounterMode

    q, k, v = tensors(grad=False)
    want = am.attention(q, k, v, MASK)
    own = am.attention(q.as_subclass(Own), k, v, MASK)
    assert type(own) is Own and torch.equal(own.as_subclass(torch.Tensor), want)
    with FlopCounterMode(display=False):
        assert torch.equal(am.attention(q, k, v, MASK), want)


def test_forward_mode_is_refused() -> None:
    import torch.autograd.forward_ad as forward_ad

    q, k, v = tensors(grad=False)
    with forward_ad.dual_level(), pytest.raises(am.UnsupportedError, match="carries a tangent"):
        am.attention(forward_ad.make_dual(q, q), k, v)
    many = torch.vmap(lambda x: am.attention(x[None], k[:1], v[:1]))
    for function in (lambda x: am.attention(x, k, v).sum(), lambda x: many(x).sum()):
        with pytest.raises(am.UnsupportedError, match=r"torch\.func\.grad or another transform"):
            torch.func.grad(function)(q)
    assert torch.equal(torch.func.functionalize(am.attention)(q, k, v), am.attention(q, k, v))


def test_a_bias_with_its_sign_beside_its_memory() -> None:
    q, k, v = tensors(grad=False)
    bias = torch.view_as_complex(torch.randn(21, 21, 2)).conj().imag
    assert bias.is_neg()
    assert torch.equal(am.attention(q, k, v, bias=bias), am.attention(q, k, v, bias=bias.clone()))


@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(grad: bool) -> None:
    q, k, v = tensors(grad=grad)
    bias = torch.randn(1, 1, 21, 21, requires_grad=grad)
    sinks = torch.randn(4, requires_grad=grad)
    arguments = (q, k, v, MASK._token, bias, None, 0.0, sinks, None, None, None, False, None)
    torch.library.opcheck(torch.ops.anymask.attention.default, arguments)
    out, lse = am.attention(q, k, v, MASK, bias=bias, sinks=sinks, return_lse=True)
    detached = [x.detach() for x in (torch.ones_like(q), q, k, v, out, lse)]
    options = (MASK._token, bias.detach(), None, 0.0, sinks.detach(), None, None, None, False, None)
    torch.library.opcheck(torch.ops.anymask.attention_backward.default, (*detached, *options, None, True, True))


def test_a_number_whose_mask_is_gone_is_refused() -> None:
    mask = am.causal() & am.keys(0, 3)
    number = mask._token.clone()
    q, k, v = tensors(grad=False)
    torch.ops.anymask.attention(q, k, v, number, None, None, 0.0, None, None, None, None, False, None)
    del mask
    gc.collect()
    with pytest.raises(ValueError, match="belongs to no mask of this process"):
        torch.ops.anymask.attention(q, k, v, number, None, None, 0.0, None, None, None, None, False, None)


def test_a_tensor_keeps_its_mask_alive() -> None:
    token = (am.causal() & am.keys(0, 3))._token
    gc.collect()
    q, k, v = tensors(grad=False)
    torch.ops.anymask.attention(q, k, v, token, None, None, 0.0, None, None, None, None, False, None)


def test_compiled_without_breaks_and_without_recompiling() -> None:
    import torch._dynamo.testing

    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def step(q: Any, k: Any, v: Any, mask: am.Mask) -> Any:
        return am.attention(q * 1.0, k, v, mask, return_lse=True)

    torch._dynamo.reset()
    compiled = torch.compile(step, backend=counter, fullgraph=True, dynamic=True)
    counts = []
    for s, kind in itertools.product((21, 40, 33, 8, 129), range(3)):
        mask = [am.causal(), am.causal() & am.documents([0, 7, s]), am.window(3, 3) | am.keys(0, 2)][kind]
        results = []
        for function in (compiled, by_torch):
            q, k, v = tensors(s=s)
            out, lse = function(q, k, v, mask)
            results.append([out, lse, *torch.autograd.grad(loss(out.float(), lse.float()), [q, k, v])])
        for a, b in zip(*results, strict=True):
            close(a, b)
        counts.append(counter.frame_count)
    assert len(set(counts)) == 1, counts


INSIDE: dict[str, Any] = {
    "a leaf": lambda q: am.attention(q, q, q, am.causal()),
    "a leaf of numbers": lambda q: am.attention(q, q, q, am.documents([0, 3, q.shape[1]], align="top_left")),
    "a text": lambda q: am.attention(q, q, q, "causal & window(3, 0)"),
    "a window of FlashAttention's": lambda q: am.flash_attn_func(q, q, q, causal=True, window_size=(5, 0)),
}


@pytest.mark.parametrize("which", INSIDE)
def test_masks_of_constants_are_made_in_compiled_code(which: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(INSIDE[which], backend="aot_eager", fullgraph=True)
    for s in (8, 13):
        q = torch.randn(1, s, 2, 16, requires_grad=True)
        got, want = compiled(q), INSIDE[which](q)
        assert torch.equal(got, want)
        for a, b in zip(torch.autograd.grad(got.sum(), q), torch.autograd.grad(want.sum(), q), strict=True):
            close(a, b)


def test_numbers_of_masks_in_compiled_code_are_not_kept() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, n: am.attention(q, q, q, am.window(n, 0)), backend="eager", fullgraph=True)
    q = torch.randn(1, 9, 2, 16)
    for n in (3, 4, 5, 4):
        assert torch.equal(compiled(q, n), am.attention(q, q, q, am.window(n, 0)))


def test_contents_of_tensors_are_not_kept_in_compiled_code() -> None:
    """A mask of a tensor would hold what it held when the code was traced: the graph breaks, and it is read."""
    torch._dynamo.reset()

    def step(q: Any, cu: Any) -> Any:
        return am.attention(q, q, q, am.documents(cu))

    q = torch.randn(1, 9, 2, 16)
    compiled = torch.compile(step, backend="eager")
    for cu in ([0, 3, 9], [0, 5, 9]):
        assert torch.equal(compiled(q, torch.tensor(cu)), am.attention(q, q, q, am.documents(cu)))


def test_compiled_with_bias_sinks_and_autocast() -> None:
    torch._dynamo.reset()

    def step(q: Any, k: Any, v: Any, bias: Any, sinks: Any) -> Any:
        return am.attention(q, k, v, MASK, bias=bias, sinks=sinks)

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    q, k, v = tensors()
    bias, sinks = torch.randn(1, 4, 1, 21, requires_grad=True), torch.randn(4, requires_grad=True)
    inputs = [q, k, v, bias, sinks]
    got = torch.autograd.grad(compiled(*inputs).square().sum(), inputs)
    want = torch.autograd.grad(by_torch(q, k, v, MASK, bias, sinks)[0].square().sum(), inputs)
    for a, b in zip(got, want, strict=True):
        close(a, b, 2e-4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(*inputs).dtype == torch.bfloat16


def test_compiled_before_a_tensor_was_ever_seen() -> None:
    """anymask imported before PyTorch, masks made before it, the first call a compiled one."""
    program = """
import anymask as am
mask = am.causal()
import torch
assert "anymask._torch" not in __import__("sys").modules
q = torch.randn(1, 8, 2, 8)
f = torch.compile(lambda x: am.attention(x, x, x, mask), backend="eager", fullgraph=True)
torch.testing.assert_close(f(q), am.attention(q, q, q, mask))
torch.testing.assert_close(f(q), am.attention(q, q, q, am.causal()))
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "fine\n", done.stderr


class MaskedLayer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask = am.causal() & am.documents([0, 5, 21]) | am.keys(0, 2)

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return am.attention(q, k, v, self.mask)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool, tmp_path: Any) -> None:
    q, k, v = tensors(grad=False)
    layer = MaskedLayer()
    program = torch.export.export(layer, (q, k, v), strict=strict)
    del layer
    gc.collect()  # the program alone holds the mask now
    assert "anymask.attention" in str(program.graph)
    assert torch.equal(program.module()(q, k, v), am.attention(q, k, v, MASK))

    if strict:
        return
    # A mask is of its process: elsewhere its number is refused, never followed to another mask.
    torch.export.save(program, tmp_path / "program.pt2")
    elsewhere = f"""
import anymask as am, anymask._torch, torch
masks = [am.keys(0, n) for n in range(100)]
program = torch.export.load({str(tmp_path / "program.pt2")!r}).module()
try:
    program(torch.zeros(2, 21, 4, 16), torch.zeros(2, 21, 2, 16), torch.zeros(2, 21, 2, 16))
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", elsewhere], capture_output=True, text=True, timeout=300)
    assert "belongs to no mask of this process" in done.stdout, done.stderr


# ------------------------------------------------------------------ signatures of others


SDPA = [
    {},
    {"is_causal": True},
    {"scale": 0.5},
    {"attn_mask": "bool"},
    {"attn_mask": "bool rows"},
    {"attn_mask": "bool heads"},
    {"attn_mask": "float"},
    {"attn_mask": "float batch"},
]


def mask_of(kind: str | None, s_q: int, s_kv: int) -> Any:
    generator = torch.Generator().manual_seed(3)
    shapes = {"bool rows": (s_q, 1), "bool heads": (2, 4, s_q, s_kv), "float batch": (2, 1, 1, s_kv)}
    if kind is None:
        return None
    values = torch.randn(shapes.get(kind, (s_q, s_kv)), generator=generator)
    if kind.startswith("float"):
        return values
    kept = values > -0.5
    kept[..., 0] = True  # no empty row: PyTorch's own backends differ on them
    return kept


@pytest.mark.parametrize("options", SDPA, ids=str)
@pytest.mark.parametrize("d", [16, 12])
@pytest.mark.parametrize("dims", [4, 3, 5])
def test_scaled_dot_product_attention(options: dict[str, Any], d: int, dims: int) -> None:
    if dims != 4 and "attn_mask" in options and options["attn_mask"] not in ("bool", "float", "bool rows"):
        pytest.skip("a mask of four axes goes with tensors of four")
    lead = {4: (2, 4), 3: (4,), 5: (2, 3, 4)}[dims]
    q, k, v = (torch.randn(*lead, s, d, requires_grad=True) for s in (9, 13, 13))
    given = dict(options)
    given["attn_mask"] = mask_of(options.get("attn_mask"), 9, 13)
    got, want = (f(q, k, v, **given) for f in (am.scaled_dot_product_attention, F.scaled_dot_product_attention))
    close(got, want)
    for a, b in zip(torch.autograd.grad(got.sum(), [q, k, v]), torch.autograd.grad(want.sum(), [q, k, v]), strict=True):
        close(a, b)


@pytest.mark.parametrize("shape", [(3, 1, 9, 13), (2, 1, 1, 9, 13), (4, 9, 13), (9, 1)], ids=str)
@pytest.mark.parametrize("boolean", [False, True])
def test_sdpa_masks_of_many_batch_axes(shape: tuple[int, ...], boolean: bool) -> None:
    q, k = torch.randn(2, 3, 4, 9, 16), torch.randn(2, 3, 4, 13, 16)
    mask = torch.randn(shape)
    given = mask > -1.5 if boolean else mask
    close(
        am.scaled_dot_product_attention(q, k, k, given), F.scaled_dot_product_attention(q, k, k, given).nan_to_num(0.0)
    )


def test_sdpa_grouped_heads_masks_and_refusals() -> None:
    q, k = torch.randn(2, 8, 9, 16), torch.randn(2, 2, 9, 16)
    close(
        am.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
    )
    square = torch.randn(2, 4, 9, 16)
    close(
        am.scaled_dot_product_attention(square, square, square, am.causal()),
        F.scaled_dot_product_attention(square, square, square, is_causal=True),
    )
    with pytest.raises(ValueError, match="set enable_gqa=True"):
        am.scaled_dot_product_attention(q, k, k)
    with pytest.raises(am.UnsupportedError, match=r"dropout_p is 0\.1"):
        am.scaled_dot_product_attention(q, k, k, dropout_p=0.1)
    with pytest.raises(ValueError, match="both attn_mask and is_causal"):
        am.scaled_dot_product_attention(q, q, q, torch.ones(9, 9, dtype=torch.bool), is_causal=True)
    empty = torch.zeros(9, 9, dtype=torch.bool)
    assert not am.scaled_dot_product_attention(square, square, square, empty).any()


def test_flash_attn_functions() -> None:
    q, k, v = tensors()
    close(am.flash_attn_func(q, k, v), by_torch(q, k, v, am.full())[0])
    close(am.flash_attn_func(q, k, v, causal=True), by_torch(q, k, v, am.causal())[0])
    close(am.flash_attn_func(q, k, v, window_size=(3, 2)), by_torch(q, k, v, am.window(3, 2))[0])
    close(am.flash_attn_func(q, k, v, causal=True, window_size=(3, -1)), by_torch(q, k, v, am.window(3, 0))[0])
    out, lse, probabilities = am.flash_attn_func(q, k, v, softcap=9.0, return_attn_probs=True)
    want, want_lse = by_torch(q, k, v, am.full(), softcap=9.0)
    close(out, want)
    close(lse, want_lse)
    assert probabilities is None
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    distance = (torch.arange(21)[:, None] - torch.arange(21)).abs()
    want = by_torch(q, k, v, am.causal(), -slopes[None, :, None, None] * distance)[0]
    close(am.flash_attn_func(q, k, v, causal=True, alibi_slopes=slopes), want)

    odd = tensors(d=12)
    got, want = am.flash_attn_func(*odd, causal=True), by_torch(*odd, am.causal())[0]
    close(got, want)
    for a, b in zip(torch.autograd.grad(got.sum(), odd), torch.autograd.grad(want.sum(), odd), strict=True):
        close(a, b)

    cu = torch.tensor([0, 8, 21], dtype=torch.int32)
    packed = [x.detach()[0].requires_grad_() for x in (q, k, v)]
    out = am.flash_attn_varlen_func(*packed, cu, cu, 13, 13, causal=True)
    want = by_torch(*(x[None] for x in packed), am.causal() & am.documents([0, 8, 21]))[0][0]
    close(out, want)
    (got,) = torch.autograd.grad(out.sum(), packed[0])
    close(got, torch.autograd.grad(want.sum(), packed[0])[0])
    other = cu.clone()
    torch._dynamo.reset()
    compiled = torch.compile(am.flash_attn_varlen_func, backend="eager", fullgraph=True)
    close(compiled(*packed, cu, other, 13, 13, causal=True), want)
    with pytest.raises(am.UnsupportedError, match="block_table is given"):
        am.flash_attn_varlen_func(*packed, cu, cu, block_table=cu)


def test_no_mask_is_left_behind() -> None:
    q, k, v = tensors()
    mask = am.causal() & am.keys(0, 3)
    gone = weakref.ref(mask)
    number = mask._token.item()
    for _ in range(3):
        am.attention(q, k, v, mask).sum().backward()
    del mask
    gc.collect()
    assert gone() is None
    with pytest.raises(ValueError, match="belongs to no mask"):
        am._anymask.handle_of(number)


def test_results_are_ordinary_tensors() -> None:
    """Their storage is PyTorch's own: what resizes it, or records a stream on it, finds it so."""
    q, k, v = (torch.randn(2, 9, 4, 16).requires_grad_() for _ in range(3))
    bias = torch.randn(1, 4, 1, 9, requires_grad=True)
    transposed = q.detach().transpose(1, 2).contiguous().transpose(1, 2)
    for x in (q, transposed):
        out, lse = am.attention(x, k, v, bias=bias, return_lse=True)
        made = [out, lse, *torch.autograd.grad(out.sum() + lse.sum(), (k, v, bias))]
        for tensor in made:
            assert tensor.is_contiguous() and tensor.untyped_storage().resizable()
    narrow = am.attention(q, k, v[..., :8].contiguous())
    assert narrow.shape == (2, 9, 4, 8) and narrow.untyped_storage().resizable()


def test_threads_ask_for_many_shapes_at_once() -> None:
    x = torch.randn(2, 20, 4, 16)

    def work(first: int) -> None:
        for i in range(400):
            rows = 1 + (first + i) % 20  # more shapes than are kept
            out, lse = am.attention(x[:, :rows], x, x, return_lse=True)
            assert out.shape == (2, rows, 4, 16) and lse.shape == (2, 4, rows)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, 3 * i) for i in range(8)]:
            done.result()
