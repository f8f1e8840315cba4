"""anymask through its C API with ctypes: what bench/compare_gpu.py needs of it, on PyTorch tensors."""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

P = c.c_void_p
DTYPES = {torch.float32: (2, 32), torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.int32: (0, 32),
          torch.int64: (0, 64), torch.bool: (6, 8), torch.uint8: (1, 8)}


class DLTensor(c.Structure):
    """dlpack.h's view of a tensor."""

    _fields_ = [("data", P), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", P), ("strides", P),
                ("byte_offset", c.c_uint64)]


class NamedArray(c.Structure):
    """anymask_named_array."""

    _fields_ = [("name", c.c_char_p), ("tensor", c.POINTER(DLTensor)), ("copy", c.c_int32)]


class Options(c.Structure):
    """anymask_options."""

    _fields_ = [("struct_size", c.c_size_t), ("mask", P), ("softmax_scale", P), ("softcap", c.c_double),
                ("bias", P), ("alibi_slopes", P), ("sinks", P), ("cu_seqlens_q", P), ("cu_seqlens_kv", P),
                ("deterministic", c.c_int32), ("num_threads", c.c_int32), ("backend", c.c_char_p), ("stream", P),
                ("workspace", P), ("workspace_bytes", c.c_size_t), ("dlse", P), ("dbias", P), ("dsinks", P)]


def view(tensor: torch.Tensor) -> DLTensor:
    """Borrows the tensor's memory; shape and strides live as long as the view."""
    n = tensor.dim()
    shape, strides = (c.c_int64 * n)(*tensor.shape), (c.c_int64 * n)(*tensor.stride())
    code, bits = DTYPES[tensor.dtype]
    cuda = tensor.device.type == "cuda"
    result = DLTensor(tensor.data_ptr(), 2 if cuda else 1, tensor.device.index or 0 if cuda else 0, n, code, bits, 1,
                      c.cast(shape, P), c.cast(strides, P), 0)
    result.keep = (tensor, shape, strides)
    return result


@dataclass
class Call:
    """One attention call with its memory: forward() and backward() only enqueue."""

    library: Library
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: str
    arrays: dict[str, torch.Tensor] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # tensors and numbers, by the names of anymask_options
    with_backward: bool = False

    def __post_init__(self) -> None:
        q, v = self.q, self.v
        self.out = torch.full((*q.shape[:-1], v.shape[-1]), float("nan"), dtype=q.dtype, device=q.device)
        heads = q.shape[-2]
        rows = (heads, q.shape[0]) if q.dim() == 3 else (q.shape[0], heads, q.shape[1])
        self.lse = torch.full(rows, float("nan"), dtype=torch.float32, device=q.device)
        self.dout = self.dq = self.dk = self.dv = None
        if self.with_backward:
            self.dout = torch.randn_like(self.out)
            self.dq, self.dk, self.dv = (torch.full_like(t, float("nan")) for t in (q, self.k, v))
        self._views = {name: view(t) for name, t in vars(self).items() if isinstance(t, torch.Tensor)}
        self._mask = self.library.parse(self.mask, self.arrays)
        self._options = Options(struct_size=c.sizeof(Options), mask=self._mask, backend=b"auto",
                                stream=torch.cuda.current_stream().cuda_stream if q.is_cuda else None)
        for name, value in self.options.items():
            if isinstance(value, torch.Tensor):
                self._views[name] = view(value)
                value = c.addressof(self._views[name])
            setattr(self._options, name, value)
        size = c.c_size_t(0)
        most = 0
        for backward in range(2 if self.with_backward else 1):
            self.library.check(self.library.c.anymask_workspace_bytes(
                *self._at("q", "k", "v"), c.byref(self._options), backward, c.byref(size)))
            most = max(most, size.value)
        self.workspace = torch.full((max(1, most),), 0xFF, dtype=torch.uint8, device=q.device)
        self._options.workspace = self.workspace.data_ptr()
        self._options.workspace_bytes = most

    def _at(self, *names: str) -> list[Any]:
        return [c.byref(self._views[name]) for name in names]

    def forward(self) -> torch.Tensor:
        """out; lse stands beside it."""
        self.library.check(self.library.c.anymask_forward(*self._at("q", "k", "v", "out", "lse"),
                                                          c.byref(self._options)))
        return self.out

    def backward(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """dq, dk, dv of the out and lse that forward() wrote."""
        self.library.check(self.library.c.anymask_backward(
            *self._at("dout", "q", "k", "v", "out", "lse", "dq", "dk", "dv"), c.byref(self._options)))
        assert self.dq is not None and self.dk is not None and self.dv is not None
        return self.dq, self.dk, self.dv

    def kernel(self, backward: bool = False) -> str:
        """The kernel that computes it, as explain says."""
        import json

        text = c.c_void_p()
        self.library.check(self.library.c.anymask_explain(*self._at("q", "k", "v"), c.byref(self._options),
                                                          int(backward), c.byref(text)))
        said = json.loads(c.string_at(text.value or 0))
        self.library.c.anymask_free(text)
        return str(said["kernel"])


class Library:
    """libanymask.so."""

    def __init__(self, path: Path) -> None:
        self.c = c.CDLL(str(path))
        self.c.anymask_last_error.restype = c.c_char_p
        self.c.anymask_version.restype = c.c_char_p
        self.c.anymask_free.argtypes = [P]
        self.version = self.c.anymask_version().decode()

    def check(self, status: int) -> None:
        """Raises with the library's message."""
        if status != 0:
            raise RuntimeError(self.c.anymask_last_error().decode())

    def parse(self, text: str, arrays: dict[str, torch.Tensor]) -> c.c_void_p:
        """A mask; its arrays are copied from the host. On a device they are borrowed: `arrays` outlives the mask."""
        views = [view(t) for t in arrays.values()]
        named = (NamedArray * max(1, len(views)))(
            *[NamedArray(name.encode(), c.pointer(v), int(v.device_type == 1))
              for name, v in zip(arrays, views, strict=True)])
        mask = c.c_void_p()
        self.check(self.c.anymask_mask_parse(text.encode(), named, c.c_int64(len(views)), c.byref(mask)))
        return mask
