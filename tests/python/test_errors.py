"""Bad input: the exact exception and text of each. A text names the operation, the argument, what it has, what was
expected, and the way out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anymask as am

Q = np.zeros((2, 6, 4, 8), np.float32)
K = np.zeros((2, 5, 2, 8), np.float32)
V = np.zeros((2, 5, 2, 8), np.float32)
P = np.zeros((6, 2, 8), np.float32)
BOTH = np.zeros(428, np.float32)
O, L = am.attention(Q, K, V, return_lse=True)  # noqa: E741


def huge(shape: tuple[int, ...]) -> Any:
    """A view of that shape of almost no memory."""
    return np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), shape, (0, 0, 0, 4))


# what is wrong, the call, the exception, its text
CASES: list[tuple[str, str, type[Exception], str]] = [
    (
        "q is a list",
        "am.attention([1.0], K, V)",
        TypeError,
        "attention: q is of type list; expected an array of NumPy, PyTorch, JAX or CuPy (the buffer "
        "protocol or DLPack): convert it, np.asarray(q)",
    ),
    (
        "k is a number",
        "am.attention(Q, 3, V)",
        TypeError,
        "attention: k is of type int; expected an array of NumPy, PyTorch, JAX or CuPy (the buffer "
        "protocol or DLPack): convert it, np.asarray(k)",
    ),
    (
        "v is None",
        "am.attention(Q, K, None)",
        TypeError,
        "attention: v is of type NoneType; expected an array of NumPy, PyTorch, JAX or CuPy (the buffer "
        "protocol or DLPack): convert it, np.asarray(v)",
    ),
    (
        "bias is text",
        'am.attention(Q, K, V, bias="no")',
        TypeError,
        "attention: bias is of type str; expected an array of NumPy, PyTorch, JAX or CuPy (the buffer "
        "protocol or DLPack): convert it, np.asarray(bias)",
    ),
    (
        "q is int16",
        "am.attention(Q.astype(np.int16), K, V)",
        ValueError,
        "attention: q has elements of type int16; expected float32, float16, bfloat16, float64, int32, "
        "int64, uint8 or bool: convert it",
    ),
    (
        "q is int64",
        "am.attention(Q.astype(np.int64), K, V)",
        ValueError,
        "attention: q is int64; expected float32, float16 or bfloat16: convert it",
    ),
    (
        "q is complex",
        "am.attention(Q.astype(np.complex64), K, V)",
        ValueError,
        "attention: q has elements of type complex64; expected float32, float16, bfloat16, float64, "
        "int32, int64, uint8 or bool: convert it",
    ),
    (
        "q is big-endian",
        'am.attention(Q.astype(">f4"), K, V)',
        ValueError,
        "attention: q has elements of type >f4; expected float32, float16, bfloat16, float64, int32, "
        "int64, uint8 or bool: convert it",
    ),
    (
        "q holds objects",
        "am.attention(Q.astype(object), K, V)",
        ValueError,
        "attention: q has elements of type object; expected float32, float16, bfloat16, float64, int32, "
        "int64, uint8 or bool: convert it",
    ),
    (
        "q is float64",
        "am.attention(Q.astype(np.float64), K.astype(np.float64), V.astype(np.float64))",
        am.UnsupportedError,
        "attention: no backend for this call (cpu: tensors of type float64; the CPU backend computes "
        'float32, bfloat16 and float16: convert it, or name the backend "reference"); backends that '
        'compute it: "reference"',
    ),
    (
        "k has another type",
        "am.attention(Q, K.astype(np.float16), V)",
        ValueError,
        "attention: k is float16; expected float32 like q: convert it",
    ),
    (
        "v has another type",
        "am.attention(Q, K, V.astype(np.float16))",
        ValueError,
        "attention: v is float16; expected float32 like q: convert it",
    ),
    (
        "q has no batch axis",
        "am.attention(Q[0], K[0], V[0])",
        ValueError,
        "attention: q has shape [6, 4, 8]; expected rank 4, [b, s_q, h_q, d_qk]: add the missing axis, "
        "or give cu_seqlens_q with packed tensors",
    ),
    (
        "q has five axes",
        "am.attention(Q[None], K, V)",
        ValueError,
        "attention: q has shape [1, 2, 6, 4, 8]; expected rank 4, [b, s_q, h_q, d_qk]: add the missing "
        "axis, or give cu_seqlens_q with packed tensors",
    ),
    (
        "k has three axes",
        "am.attention(Q, K[0], V)",
        ValueError,
        "attention: k has shape [5, 2, 8]; expected rank 4, [b, s_kv, h_kv, d_qk]: add the missing "
        "axis, or give cu_seqlens_q with packed tensors",
    ),
    (
        "q has nine axes",
        "am.attention(np.zeros((1,) * 9, np.float32), K, V)",
        ValueError,
        "attention: q has 9 axes; expected at most 8: reshape it",
    ),
    (
        "batch of k differs",
        "am.attention(Q, K[:1], V)",
        ValueError,
        "attention: k has shape [1, 5, 2, 8]; expected batch 2 like q: expand or slice it",
    ),
    (
        "batch of v differs",
        "am.attention(Q, K, V[:1])",
        ValueError,
        "attention: v has shape [1, 5, 2, 8]; expected batch 2 like q: expand or slice it",
    ),
    (
        "heads of k do not divide",
        "am.attention(Q, np.zeros((2, 5, 3, 8), np.float32), np.zeros((2, 5, 3, 8), np.float32))",
        ValueError,
        "attention: k has shape [2, 5, 3, 8]; h_kv must divide h_q = 4: use 1, 2 or 4",
    ),
    (
        "no heads of k",
        "am.attention(Q, K[:, :, :0], V[:, :, :0])",
        ValueError,
        "attention: k has shape [2, 5, 0, 8]; h_kv must divide h_q = 4: use 1, 2 or 4",
    ),
    (
        "no heads of q",
        "am.attention(Q[:, :, :0], K, V)",
        ValueError,
        "attention: q has shape [2, 6, 0, 8]; expected at least one head: check axis 2",
    ),
    (
        "heads of v differ",
        "am.attention(Q, K, V[:, :, :1])",
        ValueError,
        "attention: v has shape [2, 5, 1, 8]; expected as many heads as k, 2: use the same kv heads in k and v",
    ),
    (
        "keys of v differ",
        "am.attention(Q, K, V[:, :4])",
        ValueError,
        "attention: v has shape [2, 4, 2, 8]; expected 5 keys like k: k and v describe the same tokens",
    ),
    (
        "head dimension of k differs",
        "am.attention(Q, np.zeros((2, 5, 2, 16), np.float32), V)",
        ValueError,
        "attention: k has shape [2, 5, 2, 16]; expected head dimension 8 like q: q . k needs equal dimensions",
    ),
    (
        "head dimension is odd",
        "am.attention(Q[..., :5], K[..., :5], V)",
        ValueError,
        "attention: q has shape [2, 6, 4, 5]; expected a head dimension that is a multiple of 8 from 8 "
        "to 256: pad with zeros to 8",
    ),
    (
        "head dimension is too large",
        "am.attention(*[np.zeros((1, 2, 1, 264), np.float32)] * 3)",
        ValueError,
        "attention: q has shape [1, 2, 1, 264]; expected a head dimension that is a multiple of 8 from "
        "8 to 256: use more, smaller heads",
    ),
    (
        "head dimension of v is odd",
        "am.attention(Q, K, V[..., :7])",
        ValueError,
        "attention: v has shape [2, 5, 2, 7]; expected a head dimension that is a multiple of 8 from 8 "
        "to 256: pad with zeros to 8",
    ),
    (
        "head dimension is not contiguous",
        "am.attention(np.zeros((2, 6, 4, 16), np.float32)[..., ::2], K, V)",
        ValueError,
        "attention: q has stride 2 along its last axis; expected 1: copy it, np.ascontiguousarray(q)",
    ),
    (
        "head dimension is backward",
        "am.attention(Q[..., ::-1], K, V)",
        ValueError,
        "attention: q has stride -1 along its last axis; expected 1: copy it, np.ascontiguousarray(q)",
    ),
    (
        "stride of half an element",
        "am.attention(np.lib.stride_tricks.as_strided(Q, strides=(6, *Q.strides[1:])), K, V)",
        ValueError,
        "attention: q has a stride of 6 bytes along axis 0, no multiple of its elements' 4; expected "
        "whole elements: copy it, np.ascontiguousarray(q)",
    ),
    (
        "mask is an array",
        "am.attention(Q, K, V, np.ones((6, 5), bool))",
        TypeError,
        "attention: mask is of type ndarray; expected a mask: am.causal(), am.parse(text), "
        "am.dense(array of booleans), or am.from_tensor(array)",
    ),
    (
        "mask is a number",
        "am.attention(Q, K, V, 1)",
        TypeError,
        "attention: mask is of type int; expected a mask: am.causal(), am.parse(text), am.dense(array "
        "of booleans), or am.from_tensor(array)",
    ),
    (
        "mask text is wrong",
        'am.attention(Q, K, V, "cusal")',
        ValueError,
        "mask: no mask is named `cusal`; did you mean `causal`?\n  cusal\n  ^ column 1",
    ),
    (
        "mask text has a hole",
        'am.attention(Q, K, V, "causal &")',
        ValueError,
        "expected a mask, got the end of the text\n  causal &\n          ^ column 9",
    ),
    (
        "mask text lacks an array",
        'am.attention(Q, K, V, "documents(@cu)")',
        ValueError,
        "@cu: no such array; no arrays were given\n  documents(@cu)\n            ^ column 11",
    ),
    (
        "mask does not fit the keys",
        "am.attention(Q, K, V, am.documents([0, 3, 9]))",
        ValueError,
        "documents: cu ends at 9; expected s_kv = 5: the last offset is the length it cuts (in sequence 0)",
    ),
    (
        "mask does not fit the rows",
        "am.attention(Q, K, V, am.dense(np.ones((5, 5), bool)))",
        ValueError,
        "dense: array (@array0) has shape [5, 5]; expected [s_q or 1, s_kv] = [6 or 1, 5], or 4-d with "
        "[b or 1, heads or 1] before it (s_q = 6, s_kv = 5): make it fit (in sequence 0)",
    ),
    (
        "per_batch of another batch",
        "am.attention(Q, K, V, am.per_batch([am.causal()] * 3))",
        ValueError,
        "per_batch: got 3 masks; expected 2, one for each batch entry or packed sequence: give as many",
    ),
    (
        "per_head of other heads",
        "am.attention(Q, K, V, am.per_head([am.causal()] * 3))",
        ValueError,
        "per_head: got 3 masks; expected 1, h_kv = 2 or h_q = 4: give one for each head",
    ),
    (
        "bias of another shape",
        "am.attention(Q, K, V, bias=np.zeros((6, 6), np.float32))",
        ValueError,
        "attention: bias has shape [6, 6]; expected [b | 1, h_q | h_kv | 1, s_q | 1, s_kv] with b = 2, "
        "h_q = 4, h_kv = 2, s_q = 6, s_kv = 5: broadcast with axes of size 1",
    ),
    (
        "bias of integers",
        "am.attention(Q, K, V, bias=np.zeros((6, 5), np.int32))",
        ValueError,
        "attention: bias is int32; expected a floating type: convert it",
    ),
    (
        "bias of three axes",
        "am.attention(Q, K, V, bias=np.zeros((1, 6, 5), np.float32))",
        ValueError,
        "attention: bias has shape [1, 6, 5]; expected rank 4, [b | 1, h_q | h_kv | 1, s_q | 1, s_kv], "
        "or rank 2: add axes of size 1",
    ),
    (
        "scale is text",
        'am.attention(Q, K, V, scale="1")',
        TypeError,
        "attention: scale is of type str; expected a number: float(scale)",
    ),
    (
        "scale is NaN",
        'am.attention(Q, K, V, scale=float("nan"))',
        ValueError,
        "attention: scale is nan; expected a finite number: leave it None for 1 / sqrt(d)",
    ),
    (
        "scale is infinite",
        'am.attention(Q, K, V, scale=float("inf"))',
        ValueError,
        "attention: scale is inf; expected a finite number: leave it None for 1 / sqrt(d)",
    ),
    (
        "softcap is negative",
        "am.attention(Q, K, V, softcap=-1.0)",
        ValueError,
        "attention: softcap is -1; expected 0 (none) or a positive finite float32: use 0 for none",
    ),
    (
        "softcap is None",
        "am.attention(Q, K, V, softcap=None)",
        TypeError,
        "attention: softcap is of type NoneType; expected a number: float(softcap)",
    ),
    (
        "softcap is tiny",
        "am.attention(Q, K, V, softcap=1e-40)",
        ValueError,
        "attention: softcap is 1e-40, which float32 cannot hold; expected 0 or at least 1.2e-38: use 0 for none",
    ),
    (
        "sinks of another shape",
        "am.attention(Q, K, V, sinks=np.zeros(3, np.float32))",
        ValueError,
        "attention: sinks has shape [3]; expected [h_q] with h_q = 4: one number a query head",
    ),
    (
        "sinks of integers",
        "am.attention(Q, K, V, sinks=np.zeros(4, np.int64))",
        ValueError,
        "attention: sinks is int64; expected a floating type: convert it",
    ),
    (
        "slopes of another shape",
        "am.attention(Q, K, V, alibi_slopes=np.zeros((3, 4), np.float32))",
        ValueError,
        "attention: alibi_slopes has shape [3, 4]; expected [h_q] or [b, h_q] with b = 2, h_q = 4: one "
        "number a query head",
    ),
    (
        "cu_seqlens_kv alone",
        "am.attention(Q, K, V, cu_seqlens_kv=np.array([0, 5]))",
        ValueError,
        "attention: cu_seqlens_kv is given without cu_seqlens_q: pass both for packed tensors, or neither",
    ),
    (
        "packed with a batch axis",
        "am.attention(Q, K, V, cu_seqlens_q=np.array([0, 6]))",
        ValueError,
        "attention: q has shape [2, 6, 4, 8]; expected rank 3, [total_q, h_q, d_qk]: packed tensors "
        "(cu_seqlens_q is given) have no batch axis",
    ),
    (
        "offsets fall",
        "am.attention(P, P, P, cu_seqlens_q=np.array([0, 4, 2, 6]))",
        ValueError,
        "attention: cu_seqlens_q falls from 4 to 2 at index 2; offsets never decrease: give running "
        "sums of the lengths",
    ),
    (
        "offsets start late",
        "am.attention(P, P, P, cu_seqlens_q=np.array([1, 6]))",
        ValueError,
        "attention: cu_seqlens_q starts at 1; offsets start at 0: put a 0 in front",
    ),
    (
        "offsets end early",
        "am.attention(P, P, P, cu_seqlens_q=np.array([0, 5]))",
        ValueError,
        "attention: cu_seqlens_q ends at 5; expected total_q = 6: offsets end at the length they cut",
    ),
    (
        "offsets of floats",
        "am.attention(P, P, P, cu_seqlens_q=np.array([0.0, 6.0]))",
        ValueError,
        "attention: cu_seqlens_q is float64; expected int32 or int64: convert it",
    ),
    (
        "offsets of two axes",
        "am.attention(P, P, P, cu_seqlens_q=np.array([[0, 6]]))",
        ValueError,
        "attention: cu_seqlens_q has shape [1, 2]; expected [sequences + 1], offsets from 0 to total_q: "
        "pass one offset more than there are sequences",
    ),
    (
        "offsets in a list",
        "am.attention(P, P, P, cu_seqlens_q=[0, 6])",
        TypeError,
        "attention: cu_seqlens_q is of type list; expected an array of NumPy, PyTorch, JAX or CuPy (the "
        "buffer protocol or DLPack): convert it, np.asarray(cu_seqlens_q)",
    ),
    (
        "fewer sequences of keys",
        "am.attention(P, P, P, cu_seqlens_q=np.array([0, 2, 6]), cu_seqlens_kv=np.array([0, 6]))",
        ValueError,
        "attention: cu_seqlens_kv has 2 offsets and cu_seqlens_q has 3; expected as many: both cut the same sequences",
    ),
    (
        "backend is a number",
        "am.attention(Q, K, V, backend=1)",
        TypeError,
        'attention: backend is no text; expected "auto", "cpu", "cuda" or "reference": pass one of them',
    ),
    (
        "backend is unknown",
        'am.attention(Q, K, V, backend="cpo")',
        ValueError,
        'attention: backend is "cpo"; expected one of auto, cpu, cuda, reference, naive: did you mean "cpu"?',
    ),
    (
        "backend is not built",
        'am.attention(Q, K, V, backend="cuda")',
        am.UnsupportedError,
        "attention: no backend for this call (cuda: this build has no CUDA part: compute on the CPU "
        '(CPU tensors, backend "cpu"), or use a build of anymask made with a CUDA toolkit); backends '
        'that compute it: "cpu", "reference", "naive"',
    ),
    (
        "out is read-only",
        "am.attention(Q, K, V, out=np.broadcast_to(np.float32(0), Q.shape))",
        ValueError,
        "attention: out is read-only; expected an array to write into: give a writable one",
    ),
    (
        "out of another shape",
        "am.attention(Q, K, V, out=np.zeros((2, 6, 4, 16), np.float32))",
        ValueError,
        "attention: out has shape [2, 6, 4, 16]; expected [2, 6, 4, 8], [b, s_q, h_q, d_v]: give it that shape",
    ),
    (
        "out of another type",
        "am.attention(Q, K, V, out=np.zeros((2, 6, 4, 8), np.float16))",
        ValueError,
        "attention: out is float16; expected float32 like q: convert it",
    ),
    (
        "out overlaps q",
        "am.attention(Q, K, V, out=Q)",
        ValueError,
        "attention: out shares memory with q; outputs are written while inputs are read: give out memory of its own",
    ),
    (
        "out overlaps itself",
        "am.attention(Q, K, V, out=np.lib.stride_tricks.as_strided(np.zeros(400, np.float32), Q.shape, (4, 4, 4, 4)))",
        ValueError,
        "attention: out has shape [2, 6, 4, 8] with strides under which its elements overlap; outputs "
        "have an element of their own for each index: give memory that is not expanded",
    ),
    (
        "out is backward",
        "am.attention(Q, K, V, out=np.zeros_like(Q)[::-1])",
        ValueError,
        "attention: out has stride -192 along axis 0; outputs have positive strides: give a view in memory order",
    ),
    (
        "lse of another shape",
        "am.attention(Q, K, V, lse=np.zeros((2, 6, 4), np.float32))",
        ValueError,
        "attention: lse has shape [2, 6, 4]; expected [2, 4, 6], [b, h_q, s_q]: give it that shape",
    ),
    (
        "lse of another type",
        "am.attention(Q, K, V, lse=np.zeros((2, 4, 6), np.float64))",
        ValueError,
        "attention: lse is float64; expected float32: convert it",
    ),
    (
        "lse overlaps out",
        "am.attention(Q, K, V, out=BOTH[:384].reshape(Q.shape), lse=BOTH[380:428].reshape(2, 4, 6))",
        ValueError,
        "attention: lse shares memory with out; each output needs memory of its own: give it some",
    ),
    (
        "sizes beyond memory",
        "am.attention(*[huge((1, 1 << 40, 1, 8))] * 3)",
        MemoryError,
        "attention: out needs 32768 GiB, which this process cannot have: split the call, or check the shapes",
    ),
    (
        "more pairs than 64 bits",
        "am.attention(*[huge((1 << 20, (1 << 31) - 1, 1, 8))] * 3)",
        MemoryError,
        "attention: out needs more than 262144 GiB, which this process cannot have: split the call, "
        "or check the shapes",
    ),
    (
        "dout of another shape",
        "am.attention_backward(Q[:1], Q, K, V, O, L)",
        ValueError,
        "attention backward: dout has shape [1, 6, 4, 8]; expected [2, 6, 4, 8], [b, s_q, h_q, d_v]: "
        "give it that shape",
    ),
    (
        "out is missing",
        "am.attention_backward(Q, Q, K, V, None, L)",
        TypeError,
        "attention_backward: out is of type NoneType; expected an array of NumPy, PyTorch, JAX or CuPy "
        "(the buffer protocol or DLPack): convert it, np.asarray(out)",
    ),
    (
        "lse of another batch",
        "am.attention_backward(Q, Q, K, V, O, L[:1])",
        ValueError,
        "attention backward: lse has shape [1, 4, 6]; expected [2, 4, 6], [b, h_q, s_q]: give it that shape",
    ),
    (
        "dq of another shape",
        "am.attention_backward(Q, Q, K, V, O, L, dq=np.zeros_like(K))",
        ValueError,
        "attention backward: dq has shape [2, 5, 2, 8]; expected [2, 6, 4, 8], [b, s_q, h_q, d_qk]: give it that shape",
    ),
    (
        "dbias without bias",
        "am.attention_backward(Q, Q, K, V, O, L, dbias=np.zeros((6, 5), np.float32))",
        ValueError,
        "attention backward: dbias is given without bias: pass the bias of the forward, or no dbias",
    ),
    (
        "dsinks without sinks",
        "am.attention_backward(Q, Q, K, V, O, L, dsinks=np.zeros(4, np.float32))",
        ValueError,
        "attention backward: dsinks is given without sinks: pass the sinks of the forward, or no dsinks",
    ),
    (
        "dlse of another shape",
        "am.attention_backward(Q, Q, K, V, O, L, dlse=L[:, :, :2])",
        ValueError,
        "attention backward: dlse has shape [2, 4, 2]; expected [2, 4, 6], [b, h_q, s_q]: give it that shape",
    ),
    (
        "dout is not contiguous",
        "am.attention_backward(np.broadcast_to(np.float32(1), Q.shape), Q, K, V, O, L)",
        ValueError,
        "attention_backward: dout has stride 0 along its last axis; expected 1: copy it, np.ascontiguousarray(dout)",
    ),
    (
        "explain on a list",
        "am.explain([1], K, V)",
        TypeError,
        "explain: q is of type list; expected an array of NumPy, PyTorch, JAX or CuPy (the buffer "
        "protocol or DLPack): convert it, np.asarray(q)",
    ),
    (
        "threads below none",
        "am.set_num_threads(-1)",
        ValueError,
        "set_num_threads: the number is -1; expected 1 to 4096, or 0 for all this process may use",
    ),
    (
        "parse of a number",
        "am.parse(3)",
        TypeError,
        "parse: text is of type int; expected text such as 'causal & window(127, 0)'",
    ),
    (
        "parse of unknown kind",
        'am.parse("windw(1, 2)")',
        ValueError,
        "mask: no mask is named `windw`; did you mean `window`?\n  windw(1, 2)\n  ^ column 1",
    ),
    (
        "parse with too many arguments",
        'am.parse("causal(1, 2, 3)")',
        ValueError,
        "causal: got 3 arguments; expected causal(align?): leave the others out\n  causal(1, 2, 3)\n  ^ column 1",
    ),
    (
        "parse with a stray bracket",
        'am.parse("(causal")',
        ValueError,
        "this `(` is never closed; expected `)`\n  (causal\n  ^ column 1",
    ),
    (
        "window of a float",
        "am.window(1.5, 0)",
        ValueError,
        "window: left is a real number; expected an integer: keys seen before p, or -1 for all of them",
    ),
    (
        "window below -1",
        "am.window(-2, 0)",
        ValueError,
        "window: left is -2; expected 0 or more, or -1 for an open side: use -1 to see everything on it",
    ),
    (
        "window of text",
        'am.window("a", 0)',
        ValueError,
        "window: left is a word; expected an integer: keys seen before p, or -1 for all of them",
    ),
    (
        "keys the wrong way",
        "am.keys(5, 2)",
        ValueError,
        "keys: a is 5 and b is 2; expected a <= b: keys(a, b) keeps a <= kv < b",
    ),
    (
        "chunks of nothing",
        "am.chunked(0)",
        ValueError,
        "chunked: size is 0; expected a positive number: use 1 or more",
    ),
    (
        "stride of nothing",
        "am.stride(0)",
        ValueError,
        "stride: n is 0; expected a positive number: use 1 or more",
    ),
    (
        "align unknown",
        'am.causal(align="left")',
        ValueError,
        "causal: align is `left`; expected bottom_right (p = q + s_kv - s_q) or top_left (p = q): use one of them",
    ),
    (
        "documents of text",
        'am.documents("0, 3")',
        ValueError,
        "documents: cu is a word; expected a list of integers or an array: offsets of the documents, "
        "from 0 to s_kv over positions (or to s_q over rows, with cu_kv); [n + 1] or [b, n + 1]",
    ),
    (
        "documents of floats",
        "am.documents([0.5, 3.0])",
        ValueError,
        "documents: cu has type float64; expected int32 or int64: convert it",
    ),
    (
        "documents with None",
        "am.documents([0, None])",
        ValueError,
        "documents: an argument has elements of type object; expected float32, float16, bfloat16, "
        "float64, int32, int64, uint8 or bool: convert it",
    ),
    (
        "parents after their child",
        "am.tree([0, 1]).dense(4)",
        ValueError,
        "tree: parents has 0 at index 0; expected -1 (a root) or an earlier node: list parents before children",
    ),
    (
        "blocks of floats",
        "am.blocks(np.ones((2, 2), np.float32), 4, 4)",
        ValueError,
        "blocks: map has type float32; expected bool, uint8, int32 or int64: convert it",
    ),
    (
        "blocks of no size",
        "am.blocks(np.ones((2, 2), bool), 0, 4)",
        ValueError,
        "blocks: tile_q is 0; expected a positive number: use 1 or more",
    ),
    (
        "bits of booleans",
        "am.bits(np.ones((2, 2), bool))",
        ValueError,
        "bits: packed has type bool; expected uint8, eight keys a byte: pack it, or use dense",
    ),
    (
        "dense of integers",
        "am.dense(np.ones((2, 2), np.int32))",
        ValueError,
        "dense: array has type int32; expected bool or uint8, true = attend: compare it first, or use threshold",
    ),
    (
        "dense of three axes",
        "am.dense(np.ones((2, 2, 2), bool))",
        ValueError,
        "dense: array has shape [2, 2, 2]; expected [s_q or 1, s_kv], or 4-d with [b or 1, heads or 1] "
        "before it: reshape it",
    ),
    (
        "intervals of unlike shapes",
        "am.row_intervals(np.zeros((4, 2), int), np.zeros((4, 1), int))",
        ValueError,
        "row_intervals: end has shape [4, 1] and begin [4, 2]; expected the same shape: one end for each begin",
    ),
    (
        "kernel is even",
        "am.neighborhood([4, 4], 2).dense(16)",
        ValueError,
        "neighborhood: kernel is 2 on axis 0; expected an odd number: use 3",
    ),
    (
        "threshold of integers",
        "am.threshold(np.ones((2, 2), np.int32), 1)",
        ValueError,
        "threshold: bias has type int32; expected float32, float16 or bfloat16: convert it",
    ),
    (
        "topk of integers",
        "am.topk(np.ones((2, 2), np.int32), 1)",
        ValueError,
        "topk: bias has type int32; expected float32, float16 or bfloat16: convert it",
    ),
    (
        "topk of a negative window",
        "am.topk(np.ones((2, 2), np.float32), -1)",
        ValueError,
        "topk: window is -1; expected 0 or more: it counts the keys a row keeps, of which there may be fewer",
    ),
    (
        "topk among a number",
        "am.topk(np.ones((2, 2), np.float32), 1, among=4)",
        ValueError,
        "topk: among is an integer; expected a mask: the candidates; all keys unless given",
    ),
    (
        "topk of another shape",
        "am.topk(np.ones((2, 3), np.float32), 1).dense(2, 2)",
        ValueError,
        "topk: bias (@array0) has shape [2, 3]; expected [s_q or 1, s_kv] = [2 or 1, 2], or 4-d with "
        "[b or 1, heads or 1] before it (s_q = 2, s_kv = 2): make it fit",
    ),
    (
        "per_batch of one mask",
        "am.per_batch(am.causal())",
        TypeError,
        "per_batch: masks is one mask; expected a list of them: per_batch([mask, ...])",
    ),
    (
        "per_head of nothing",
        "am.per_head([])",
        ValueError,
        "per_head: got no masks; expected h_q, h_kv or 1 of them: give at least one",
    ),
    (
        "per_batch of a number",
        "am.per_batch([1])",
        TypeError,
        "per_batch: mask is of type int; expected a mask: am.causal(), am.parse(text), am.dense(array "
        "of booleans), or am.from_tensor(array)",
    ),
    (
        "bytes of nothing",
        'am.from_bytes(b"")',
        ValueError,
        "mask bytes: do not begin with AMSK; expected what to_bytes wrote: pass a serialised mask",
    ),
    (
        "bytes of rubbish",
        'am.from_bytes(b"anymask?" * 8)',
        ValueError,
        "mask bytes: do not begin with AMSK; expected what to_bytes wrote: pass a serialised mask",
    ),
    (
        "dense of an unknown head",
        "am.causal().dense(4, head=1)",
        ValueError,
        "mask dense: head is 1; expected 0 to 0: check h_q in the lengths",
    ),
    (
        "dense of an unknown sequence",
        "am.causal().dense(4, sequence=2)",
        ValueError,
        "mask dense: sequence is 2; expected 0 to 0: check the lengths",
    ),
    (
        "dense of negative length",
        "am.causal().count(-1)",
        ValueError,
        "mask count: s_q gives a sequence -1 tokens; expected 0 to 2147483647: split the sequence",
    ),
    (
        "plan of an odd tile",
        "am.causal().plan(64, tile_m=16, tile_n=48)",
        ValueError,
        "plan: tile_n is 48; expected a multiple of 64 up to 32768, or 0 for the CPU kernel's own",
    ),
    (
        "unlike heads",
        "am.causal().count(4, h_q=3, h_kv=2)",
        ValueError,
        "mask count: lengths have h_q = 3 and h_kv = 2; expected positive numbers, h_kv a divisor of "
        "h_q: use h_kv = 1 if in doubt",
    ),
]


@pytest.mark.parametrize(("expression", "kind", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bad_input(expression: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(Exception) as caught:
        eval(expression, dict(globals()))
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_the_table_is_long_enough() -> None:
    assert len(CASES) >= 80 and len({case[0] for case in CASES}) == len(CASES)


def test_unsupported_is_not_implemented() -> None:
    assert issubclass(am.UnsupportedError, NotImplementedError)


def test_a_failed_call_writes_nothing() -> None:
    out = np.full_like(Q, np.nan)
    bad: Any = np.zeros((6, 6), np.float32)
    with pytest.raises(ValueError, match="bias"):
        am.attention(Q, K, V, bias=bad, out=out)
    assert np.isnan(out).all()
