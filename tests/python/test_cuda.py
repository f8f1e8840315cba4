"""The whole way through on a GPU: streams, memory, gradients, graphs, mask arrays that stay on the device."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import anymask as am

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and am.backends()["cuda"]["available"]), reason="no CUDA device, or no CUDA part"
)


def inputs(seed: int = 0, b: int = 2, s: int = 300, h: int = 4, h_kv: int = 2, d: int = 64, dtype: Any = None) -> Any:
    generator = torch.Generator("cuda").manual_seed(seed)
    dtype = torch.bfloat16 if dtype is None else dtype
    shapes = ((b, s, h, d), (b, s, h_kv, d), (b, s, h_kv, d), (b, s, h, d))
    return [torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(dtype) for shape in shapes]


def expected(q: Any, k: Any, v: Any, kept: Any, bias: Any = None, sinks: Any = None) -> tuple[Any, Any]:
    """out and lse in double; `kept` and `bias` broadcast to [b, h, s_q, s_kv]."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if bias is not None:
        scores = scores + bias.double()
    scores = scores.masked_fill(~kept, float("-inf"))
    if sinks is not None:
        column = sinks.double().view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, column], -1)
    lse = torch.logsumexp(scores, -1)
    p = torch.exp(scores - torch.where(lse.isfinite(), lse, 0).unsqueeze(-1))
    return (p[..., : v.shape[-2]] @ v).transpose(1, 2), lse


def close(got: Any, want: Any, tolerance: float = 0.02) -> None:
    assert got.shape == want.shape
    error = (got.double() - want.double()).abs().max() / want.double().abs().max().clamp(min=1e-9)
    assert error < tolerance, f"off by {error:.3g} of the largest value"  # NaN is not less


def kept_of(mask: Any, s: int, batch: int = 1) -> Any:
    planes = [torch.from_numpy(mask.dense(s, s, sequence=b, batch=batch)) for b in range(batch)]
    return torch.stack(planes).unsqueeze(1).cuda()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("text", ["full", "causal", "causal & window(40, 0) | keys(0, 5)", "causal & stride(3)"])
def test_forward(text: str, dtype: Any) -> None:
    q, k, v, _ = inputs(dtype=dtype)
    out, lse = am.attention(q, k, v, mask=text, return_lse=True)
    assert out.device == q.device and out.dtype == dtype and lse.dtype == torch.float32
    want_out, want_lse = expected(q, k, v, kept_of(am.parse(text), 300))
    close(out, want_out)
    close(lse, want_lse)


def test_memory_of_the_caller() -> None:
    q, k, v, _ = inputs()
    out = torch.full_like(q, float("nan"))
    lse = torch.full((2, 4, 300), float("nan"), device="cuda")
    returned = am.attention(q, k, v, mask=am.causal(), out=out, lse=lse)
    assert returned is out
    want_out, want_lse = expected(q, k, v, kept_of(am.causal(), 300))
    close(out, want_out)
    close(lse, want_lse)


def test_gradients() -> None:
    q, k, v, dout = inputs()
    bias = torch.randn(1, 4, 300, 300, device="cuda", dtype=torch.bfloat16)
    sinks = torch.randn(4, device="cuda")
    mask = am.causal() & am.documents(torch.tensor([0, 100, 101, 300], device="cuda"))
    given = [x.clone().requires_grad_() for x in (q, k, v, bias, sinks)]
    out, lse = am.attention(*given[:3], mask=mask, bias=given[3], sinks=given[4], return_lse=True)
    ((out * dout).sum() + 0.5 * lse.sum()).backward()
    exact = [x.double().requires_grad_() for x in (q, k, v, bias, sinks)]
    want, want_lse = expected(*exact[:3], kept_of(mask, 300), exact[3], exact[4])
    ((want * dout.double()).sum() + 0.5 * want_lse.sum()).backward()
    close(out, want.detach())
    for x, y in zip(given, exact, strict=True):
        assert x.grad.device == x.device
        close(x.grad, y.grad, 0.03)


def masks_of_arrays(s: int, seed: int, device: str) -> dict[str, Any]:
    """A mask of every kind that takes an array, over arrays of one seed on one device."""
    g = torch.Generator().manual_seed(seed)
    cu = torch.cat([torch.tensor([0, s]), torch.randint(0, s + 1, (2, 4), generator=g).flatten()[:5]]).sort().values
    batched = torch.stack([cu, torch.linspace(0, s, 7).long()])
    parents = torch.tensor([int(torch.randint(-1, i, (), generator=g)) if i else -1 for i in range(60)])
    dense = torch.rand(s, s, generator=g) < 0.2
    per_head = torch.rand(2, 4, s, s, generator=g) < 0.2
    packed = torch.randint(0, 256, (s, (s + 7) // 8), generator=g, dtype=torch.uint8)
    blocks = torch.rand((s + 63) // 64, (s + 31) // 32, generator=g) < 0.3
    begin = torch.randint(0, s, (s, 2), generator=g)
    end = begin + torch.randint(0, 40, (s, 2), generator=g)
    lengths = torch.tensor([40, 0, s - 100])
    scores = torch.randn(s, s, generator=g)

    def there(x: Any, dtype: Any = None) -> Any:
        return x.to(device=device, dtype=dtype)

    return {
        "documents": am.causal() & am.documents(there(cu)),
        "documents of int32": am.documents(there(cu, torch.int32)),
        "documents by batch entry": am.documents(there(batched)),
        "prefix of one": am.prefix(there(torch.tensor([10]))),
        "prefix": am.causal() | am.prefix(there(torch.tensor([10, 200]))),
        "shared_prefix": am.shared_prefix(60, there(lengths)),
        "tree": am.tree(there(parents)),
        "blocks": am.blocks(there(blocks), 64, 32),
        "bits": am.bits(there(packed)),
        "dense": am.dense(there(dense)),
        "dense by head": am.dense(there(per_head)) | am.causal(),
        "dense, transposed": am.dense(there(dense).T),
        "row_intervals": am.row_intervals(there(begin), there(end)),
        "col_intervals": ~am.col_intervals(there(begin, torch.int32), there(end, torch.int32)),
        "threshold": am.threshold(there(scores, torch.bfloat16), 0.5),
    }


def test_arrays_on_the_device() -> None:
    s = 600  # gradients of bands of fewer tokens are another kernel's, whose last bits differ
    q, k, v, dout = inputs(s=s)
    here, there = masks_of_arrays(s, 1, "cpu"), masks_of_arrays(s, 1, "cuda")
    for name, mask in there.items():
        results = []
        for m in (here[name], mask):
            given = [x.clone().requires_grad_() for x in (q, k, v)]
            out, lse = am.attention(*given, mask=m, return_lse=True, deterministic=True)
            (out * dout).sum().backward()
            results.append([out.detach(), lse.detach(), *(x.grad for x in given)])
        for on_host, on_device in zip(*results, strict=True):
            assert torch.equal(on_host, on_device), name
        assert (mask.dense(s, s, batch=2, h_q=4) == here[name].dense(s, s, batch=2, h_q=4)).all()
        assert am.from_bytes(mask.to_bytes()) == here[name]
        assert am.explain(q, k, v, mask=mask)["kept_share"] == am.explain(q, k, v, mask=here[name])["kept_share"]


def test_masks_keep_their_arrays() -> None:
    q, k, v, _ = inputs()
    cu = torch.tensor([0, 100, 300], device="cuda")
    want = am.attention(q, k, v, mask=am.documents(cu))
    mask = am.per_batch([am.parse("documents(@cu) & full", cu=cu), ~~am.documents(cu)]) & am.full()
    del cu
    for _ in range(20):  # what was freed would be handed out again
        torch.full((3,), 7, device="cuda")
    assert torch.equal(am.attention(q, k, v, mask=mask), want)


def test_a_graph_reads_new_contents() -> None:
    q, k, v, _ = inputs()
    cu = torch.tensor([0, 100, 300], device="cuda")
    dense = torch.rand(300, 300, device="cuda") < 0.1
    mask = am.causal() & am.documents(cu) | am.dense(dense)
    out = torch.empty_like(q)
    am.attention(q, k, v, mask=mask, out=out)  # before capture, as PyTorch asks
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        am.attention(q, k, v, mask=mask, out=out)
    for end in (1, 150, 299):
        cu[1] = end
        dense.copy_(torch.rand(300, 300, device="cuda") < 0.1)
        out.fill_(float("nan"))
        graph.replay()
        close(out, expected(q, k, v, kept_of(mask, 300))[0])


def test_a_stream_of_its_own() -> None:
    q, k, v, _ = inputs(s=1000)
    cu = torch.tensor([0, 400, 1000], device="cuda")
    mask = am.documents(cu)
    want = am.attention(q, k, v, mask=mask)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    late = torch.zeros_like(q)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(q)  # on this stream, long after the call is made
        out = am.attention(late, k, v, mask=mask)
    assert not stream.query()  # the call did not wait
    stream.synchronize()
    assert torch.equal(out, want)


def test_memory_comes_from_pytorch() -> None:
    q, k, v, dout = inputs(s=2000)
    del dout
    mask = am.dense(torch.rand(2000, 2000, device="cuda") < 0.1)
    out = am.attention(q, k, v, mask=mask)
    torch.cuda.synchronize()
    gc.collect()
    free, before = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    for repeat in range(10):
        assert am.attention(q, k, v, mask=mask, out=out) is out, repeat
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] == free
    assert torch.cuda.memory_allocated() == before


def test_results_are_ordinary_tensors() -> None:
    """Memory on which another stream was recorded is not given out again before that stream has come so far."""
    q, k, v, _ = inputs(s=1000)
    stream = torch.cuda.Stream()
    for recorded in (False, True):
        out = am.attention(q, k, v)
        where = out.data_ptr()
        torch.cuda.synchronize()
        if recorded:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(50_000_000)
            out.record_stream(stream)
        del out
        again = torch.empty_like(q)
        assert (again.data_ptr() == where) is not recorded
        del again
    torch.cuda.synchronize()


def spread(x: Any, axis: int) -> Any:
    """The same values, more than 2^31 elements from the first to the last step along `axis`."""
    strides = list(x.stride())
    strides[axis] = (2**31 // (x.shape[axis] - 1) + 8) // 8 * 8
    size = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, strides, strict=True))
    return torch.empty(size, device=x.device, dtype=x.dtype).as_strided(x.shape, strides).copy_(x)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("d", [16, 64, 128])
def test_strides_beyond_two_billion_elements(axis: int, d: int) -> None:
    if torch.cuda.mem_get_info()[0] < 30e9:
        pytest.skip("needs 30 GB of device memory")
    q, k, v, dout = inputs(s=200, d=d)
    mask = "causal & stride(3) | keys(0, 5)"
    want = am.attention(q, k, v, mask=mask)
    far = [spread(x, axis) for x in (q, k, v)]
    out = spread(torch.full_like(q, float("nan")), axis)
    assert torch.equal(am.attention(*far, mask=mask, out=out), want)
    for x in (q, k, v, *far):
        x.requires_grad_()
    am.attention(q, k, v, mask=mask, deterministic=True).backward(dout)
    am.attention(*far, mask=mask, deterministic=True).backward(spread(dout, axis))
    for near, x in zip((q, k, v), far, strict=True):
        assert torch.equal(x.grad, near.grad)


def test_two_billion_rows() -> None:
    """q, out and lse of 2.2 * 10^9 rows, 1.7 * 10^10 elements."""
    if torch.cuda.mem_get_info()[0] < 100e9:
        pytest.skip("needs 100 GB of device memory")
    b, s, h, s_kv, d = 40, 1 << 20, 53, 16, 8
    q = torch.empty(b, s, h, d, device="cuda", dtype=torch.float16).uniform_(-2, 2)
    k, v = (torch.randn(b, s_kv, 1, d, device="cuda").half() for _ in range(2))
    out, lse = am.attention(q, k, v, return_lse=True)
    kept = torch.ones(1, 1, 1, s_kv, dtype=torch.bool, device="cuda")
    for i, tokens in ((0, slice(0, 70)), (20, slice(7_000, 7_070)), (b - 1, slice(s - 70, s))):
        want_out, want_lse = expected(q[i : i + 1, tokens], k[i : i + 1], v[i : i + 1], kept)
        close(out[i : i + 1, tokens], want_out)
        close(lse[i : i + 1, :, tokens], want_lse)


def test_one_device_is_current_and_stays_so() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one device")
    q, k, v, _ = inputs()
    other = [x.to("cuda:1") for x in (q, k, v)]
    cu = torch.tensor([0, 100, 300], device="cuda:1")
    out = am.attention(*other, mask=am.documents(cu))
    assert torch.cuda.current_device() == 0 and out.device.index == 1
    assert torch.equal(out.cpu(), am.attention(q, k, v, mask=am.documents(cu.cpu())).cpu())
    with pytest.raises(ValueError, match=r"cu \(@array0\) is on CUDA device 1; this mask is read on CUDA device 0"):
        am.attention(q, k, v, mask=am.documents(cu))


def test_refusals_name_the_way_out() -> None:
    q, k, v, _ = inputs()
    cu = torch.tensor([0, 100, 300], device="cuda")
    with pytest.raises(ValueError, match=r"k is on the CPU than q; expected all tensors on one device: copy it"):
        am.attention(q, k.cpu(), v, mask=am.causal())
    with pytest.raises(ValueError, match=r"bias is on the CPU than q"):
        am.attention(q, k, v, bias=torch.zeros(300, 300))
    with pytest.raises(ValueError, match=r"cu \(@array0\) is on CUDA device 0; this mask is read on the host: copy it"):
        am.attention(q.cpu(), k.cpu(), v.cpu(), mask=am.documents(cu))
    with pytest.raises(ValueError, match=r"kernel \(@array0\) is on CUDA device 0; it decides what the host prepares"):
        am.attention(q, k, v, mask=am.neighborhood([15, 20], torch.tensor([3, 3], device="cuda")))
    with pytest.raises(ValueError, match=r"cu_kv \(@array1\) holds 2 offsets and cu 3; expected the same number"):
        am.attention(q, k, v, mask=am.documents(cu, cu[:2]))
    with pytest.raises(ValueError, match=r"expected \[s_q or 1, s_kv\]"):
        am.attention(q, k, v, mask=am.dense(torch.zeros(300, 299, dtype=torch.bool, device="cuda")))
    with pytest.raises(am.UnsupportedError, match=r"float32; the CUDA backend takes bfloat16 and float16"):
        am.attention(q.float(), k.float(), v.float())


def test_sdpa_reads_booleans_where_they_lie() -> None:
    from anymask._torch_like import scaled_dot_product_attention as sdpa

    q, k, v, _ = (x.transpose(1, 2) for x in inputs(h_kv=4))
    kept = torch.rand(2, 1, 300, 300, device="cuda") < 0.3
    want = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), kept)
    close(sdpa(q, k, v, kept), want)


def test_operators() -> None:
    q, k, v, _ = inputs()
    cu = torch.tensor([0, 100, 300], device="cuda")
    mask = am.causal() & am.documents(cu)
    compiled = torch.compile(lambda *x: am.attention(*x, mask=mask) * 2, backend="aot_eager", fullgraph=True)
    given = [x.clone().requires_grad_() for x in (q, k, v)]
    out = compiled(*given)
    assert torch.equal(out, am.attention(q, k, v, mask=mask) * 2)
    out.sum().backward()
    assert all(x.grad is not None and not x.grad.isnan().any() for x in given)
    with torch.autocast("cuda", torch.bfloat16):
        assert am.attention(q.float(), k.float(), v.float(), mask=mask).dtype == torch.bfloat16


def by_sequence(q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, causal: bool) -> Any:
    """Packed attention sequence by sequence, in double."""
    parts = []
    for i in range(len(cu_q) - 1):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        s_q, s_kv = cu_q[i + 1] - cu_q[i], cu_k[i + 1] - cu_k[i]
        kept = torch.ones(s_q, s_kv, dtype=torch.bool, device="cuda")
        if causal:
            kept = kept.tril(s_kv - s_q)
        if s_q > 0:
            parts.append(expected(q[None, rows], k[None, keys], v[None, keys], kept)[0][0])
    return torch.cat(parts)


@pytest.mark.parametrize("causal", [False, True])
def test_packed_offsets_on_the_device(causal: bool) -> None:
    q, k, v, dout = (x.flatten(0, 1) for x in inputs())
    for ends in ([0, 1, 200, 200, 600], [0, 600], [0, 130, 390, 599, 600]):
        cu = torch.tensor(ends, dtype=torch.int32, device="cuda")
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        out = am.flash_attn_varlen_func(*given, cu, cu, causal=causal)
        close(out.detach(), by_sequence(q, k, v, ends, ends, causal))
        (out * dout).sum().backward()
        here = [x.clone().requires_grad_() for x in (q, k, v)]
        want = am.flash_attn_varlen_func(*here, cu.cpu(), cu.cpu(), causal=causal)
        (want * dout).sum().backward()
        for x, y in zip((out, *(x.grad for x in given)), (want, *(x.grad for x in here)), strict=True):
            close(x.detach(), y.detach(), 0.01)
    rows, keys = [0, 10, 10, 600], [0, 300, 500, 600]
    cu_q, cu_k = torch.tensor(rows, device="cuda"), torch.tensor(keys, device="cuda")
    close(am.flash_attn_varlen_func(q, k, v, cu_q, cu_k, causal=causal), by_sequence(q, k, v, rows, keys, causal))


def test_a_graph_reads_new_offsets() -> None:
    q, k, v, _ = (x.flatten(0, 1) for x in inputs())
    cu = torch.tensor([0, 100, 300, 600], dtype=torch.int32, device="cuda")
    am.flash_attn_varlen_func(q, k, v, cu, cu, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = am.flash_attn_varlen_func(q, k, v, cu, cu, causal=True)
    for ends in ([0, 1, 2, 600], [0, 300, 300, 600], [0, 0, 599, 600]):
        cu.copy_(torch.tensor(ends))
        out.fill_(float("nan"))
        graph.replay()
        close(out, by_sequence(q, k, v, ends, ends, True))


def test_packed_refusals() -> None:
    q, k, v, _ = (x.flatten(0, 1) for x in inputs())
    cu, other = (torch.tensor([0, 100, 600], device="cuda") for _ in range(2))
    with pytest.raises(am.UnsupportedError, match=r"the mask holds keys; expected causal, window, stride"):
        am.attention(q, k, v, mask="causal & keys(0, 4)", cu_seqlens_q=cu)
    with pytest.raises(am.UnsupportedError, match=r"the mask holds causal; expected full, none"):
        am.attention(q, k, v, mask="causal", cu_seqlens_q=cu, cu_seqlens_kv=other)
    with pytest.raises(am.UnsupportedError, match=r"bias is given and cu_seqlens_q is on the device"):
        am.attention(q, k, v, bias=torch.zeros(1, 1, 1, 600, device="cuda"), cu_seqlens_q=cu)
    with pytest.raises(ValueError, match=r"cu_seqlens_q is on a CUDA device; expected the CPU: copy it"):
        am.attention(q.cpu(), k.cpu(), v.cpu(), cu_seqlens_q=cu)
    with pytest.raises(ValueError, match=r"cu_seqlens_q is float32; expected int32 or int64"):
        am.attention(q, k, v, cu_seqlens_q=cu.float())
