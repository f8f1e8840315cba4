/* The lengths a mask is looked at with, from the tuple that the Python side makes. */
#include "module.h"

/* An optional offsets array into `view`; NULL for None. Returns 0 or -1. */
static int offsets(PyObject* object, const char* operation, const char* argument, AmView* view, const DLTensor** out) {
  *out = NULL;
  view->held = 0;
  if (object == Py_None) return 0;
  if (am_view(object, operation, argument, 0, view) != 0) return -1;
  *out = &view->tensor;
  return 0;
}

int am_lengths(PyObject* tuple, const char* operation, AmLengths* out) {
  PyObject *cu_q, *cu_kv;
  const anymask_lengths zero = {sizeof(anymask_lengths), 0, 0, 0, 0, 0, NULL, NULL};
  out->c = zero;
  out->cu_q.held = out->cu_kv.held = 0;
  long long batch, s_q, s_kv, h_q, h_kv;
  if (!PyArg_ParseTuple(tuple, "LLLLLOO", &batch, &s_q, &s_kv, &h_q, &h_kv, &cu_q, &cu_kv)) return -1;
  out->c.batch = batch;
  out->c.s_q = s_q;
  out->c.s_kv = s_kv;
  out->c.h_q = h_q;
  out->c.h_kv = h_kv;
  if (offsets(cu_q, operation, "cu_seqlens_q", &out->cu_q, &out->c.cu_seqlens_q) != 0) return -1;
  if (offsets(cu_kv, operation, "cu_seqlens_kv", &out->cu_kv, &out->c.cu_seqlens_kv) != 0) {
    am_release(&out->cu_q);
    return -1;
  }
  return 0;
}

void am_lengths_release(AmLengths* lengths) {
  am_release(&lengths->cu_q);
  am_release(&lengths->cu_kv);
}
