/* attention, attention_backward, explain: views of the arguments, outputs where none are given, one C call without the
 * interpreter's lock. Arguments come by position from the typed functions of the package, which documents them.
 */
#include "module.h" /* first: Python.h says which functions of the system the headers after it declare */

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { kMostViews = 20 };

typedef struct {
  const char* operation;
  AmView views[kMostViews];
  int used;
  PyObject* owned[8]; /* outputs and workspace made here */
  int num_owned;
  double scale;
  anymask_options options;
  PyThreadState* state; /* while the interpreter's lock is released */
} Call;

/* Whether this is the thread that runs Python's signal handlers. */
static int on_main_thread(void) {
#if defined(__linux__)
  return gettid() == getpid();
#elif defined(__APPLE__)
  return pthread_main_np();
#else
  return 0;
#endif
}

/* Asked now and then while the call computes: runs Python's signal handlers. One that raises, as Ctrl-C's does, stops
 * the call. No other thread may take the lock here: where the interpreter is ending, taking it ends the thread, through
 * the C++ frames above. */
static int32_t interrupted(void* context) {
  PyThreadState** state = context;
  if (!on_main_thread()) return 0;
  PyEval_RestoreThread(*state);
  const int raised = PyErr_CheckSignals() != 0;
  *state = PyEval_SaveThread();
  return raised;
}

static void begin(Call* call, const char* operation) {
  call->operation = operation;
  call->used = call->num_owned = 0;
  memset(&call->options, 0, sizeof call->options);
  call->options.struct_size = sizeof call->options;
}

static void end(Call* call) {
  for (int i = 0; i < call->used; ++i) am_release(&call->views[i]);
  for (int i = 0; i < call->num_owned; ++i) Py_DECREF(call->owned[i]);
}

/* The interpreter's lock, around what computes. */
static void release_lock(Call* call) {
  call->options.interrupted = interrupted;
  call->options.interrupted_context = &call->state;
  call->state = PyEval_SaveThread();
}
static void take_lock(Call* call) { PyEval_RestoreThread(call->state); }

/* The next view, of `object`; NULL with an exception. */
static AmView* view(Call* call, PyObject* object, const char* argument, int writable) {
  AmView* v = &call->views[call->used];
  if (am_view(object, call->operation, argument, writable, v) != 0) return NULL;
  ++call->used;
  return v;
}

/* The same for rows that a kernel reads whole: the last axis is contiguous. */
static AmView* rows(Call* call, PyObject* object, const char* argument) {
  AmView* v = view(call, object, argument, 0);
  if (v == NULL || v->tensor.ndim == 0 || v->tensor.strides == NULL) return v;
  const int last = v->tensor.ndim - 1;
  if (v->tensor.strides[last] == 1 || v->tensor.shape[last] <= 1) return v;
  for (int i = 0; i < last; ++i)
    if (v->tensor.shape[i] == 0) return v;
  PyErr_Format(PyExc_ValueError, "%s: %s has stride %lld along its last axis; expected 1: copy it, %s%s%s",
               call->operation, argument, (long long)v->tensor.strides[last],
               v->framework.protocol == AM_EXCHANGE ? "" : "np.ascontiguousarray(", argument,
               v->framework.protocol == AM_EXCHANGE ? ".contiguous()" : ")");
  return NULL;
}

/* The same for an argument that may be None: *out stays NULL. Returns 0 or -1. */
static int optional(Call* call, PyObject* object, const char* argument, int writable, const DLTensor** out) {
  *out = NULL;
  if (object == Py_None) return 0;
  const AmView* v = view(call, object, argument, writable);
  if (v == NULL) return -1;
  *out = &v->tensor;
  return 0;
}

static int number(const Call* call, PyObject* object, const char* argument, double* out) {
  *out = PyFloat_AsDouble(object);
  if (*out != -1.0 || !PyErr_Occurred()) return 0;
  if (PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyObject* name = PyObject_GetAttrString((PyObject*)Py_TYPE(object), "__name__");
    PyErr_Format(PyExc_TypeError, "%s: %s is of type %S; expected a number: float(%s)", call->operation, argument,
                 name == NULL ? Py_None : name, argument);
    Py_XDECREF(name);
  }
  return -1;
}

static atomic_int num_threads;
int am_num_threads(void) { return num_threads; }

/* mask, bias, scale, softcap, sinks, alibi_slopes, cu_seqlens_q, cu_seqlens_kv, deterministic, backend */
enum { kNumOptions = 10 };
static int read_options(Call* call, PyObject* const* args) {
  anymask_options* o = &call->options;
  if (am_mask_of(args[0], call->operation, &o->mask) != 0 || optional(call, args[1], "bias", 0, &o->bias) != 0)
    return -1;
  if (args[2] != Py_None) {
    if (number(call, args[2], "scale", &call->scale) != 0) return -1;
    if (!isfinite(call->scale)) {
      PyErr_Format(PyExc_ValueError, "%s: scale is %S; expected a finite number: leave it None for 1 / sqrt(d)",
                   call->operation, args[2]);
      return -1;
    }
    o->softmax_scale = &call->scale;
  }
  if (number(call, args[3], "softcap", &o->softcap) != 0 || optional(call, args[4], "sinks", 0, &o->sinks) != 0 ||
      optional(call, args[5], "alibi_slopes", 0, &o->alibi_slopes) != 0 ||
      optional(call, args[6], "cu_seqlens_q", 0, &o->cu_seqlens_q) != 0 ||
      optional(call, args[7], "cu_seqlens_kv", 0, &o->cu_seqlens_kv) != 0)
    return -1;
  const int deterministic = PyObject_IsTrue(args[8]);
  if (deterministic < 0) return -1;
  o->deterministic = deterministic;
  if (args[9] != Py_None) {
    if (!PyUnicode_Check(args[9])) {
      PyErr_Format(PyExc_TypeError,
                   "%s: backend is no text; expected \"auto\", \"cpu\", \"cuda\" or \"reference\": pass one of them",
                   call->operation);
      return -1;
    }
    o->backend = PyUnicode_AsUTF8AndSize(args[9], NULL);
    if (o->backend == NULL) return -1;
  }
  o->num_threads = num_threads;
  return 0;
}

/* Bytes of an array; -1 for more than 2^48, which no process can have. */
static int64_t bytes_of(DLDataType type, int rank, const int64_t* shape) {
  int64_t bytes = type.bits / 8;
  for (int i = 0; i < rank; ++i)
    if (__builtin_mul_overflow(bytes, shape[i], &bytes)) return -1;
  return bytes > (INT64_C(1) << 48) ? -1 : bytes;
}

/* An output: the caller's, or a new one like `like`. NULL with an exception; borrowed. */
static PyObject* output(Call* call, PyObject* given, const char* argument, const AmView* like, PyObject* like_object,
                        DLDataType type, int rank, const int64_t* shape, const DLTensor** out) {
  if (given != Py_None) {
    if (optional(call, given, argument, 1, out) != 0) return NULL;
    return given;
  }
  AmView* v = &call->views[call->used];
  const int64_t bytes = bytes_of(type, rank, shape);
  PyObject* made = bytes < 0 ? PyErr_NoMemory() : am_allocate(like, like_object, type, rank, shape, v);
  if (made == NULL) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
      const long long gib = bytes < 0 ? 1 << 18 : (long long)(bytes >> 30);
      PyErr_Format(PyExc_MemoryError,
                   "%s: %s needs %s%lld GiB, which this process cannot have: split the call, or check the shapes",
                   call->operation, argument, bytes < 0 ? "more than " : "", gib);
    }
    return NULL;
  }
  ++call->used;
  call->owned[call->num_owned++] = made;
  *out = &v->tensor;
  return made;
}

/* The stream, and device memory if the call needs some. Nothing on a CPU. */
static int prepare_device(Call* call, const AmView* q, PyObject* q_object, const DLTensor* k, const DLTensor* v,
                          int backward) {
  const DLDeviceType kind = q->tensor.device.device_type;
  if (kind == kDLCPU || kind == kDLCUDAHost) return 0;
  if (am_stream(q, q_object, &call->options.stream) != 0) return -1;
  size_t bytes = 0;
  if (am_check(anymask_workspace_bytes(&q->tensor, k, v, &call->options, backward, &bytes)) != 0) return -1;
  if (bytes == 0) return 0;
  const DLDataType type = {kDLUInt, 8, 1};
  const int64_t size = (int64_t)bytes;
  const DLTensor* workspace = NULL;
  if (output(call, Py_None, "workspace", q, q_object, type, 1, &size, &workspace) == NULL) return -1;
  call->options.workspace = (char*)workspace->data + workspace->byte_offset;
  call->options.workspace_bytes = bytes;
  return 0;
}

static const DLDataType kFloat32 = {kDLFloat, 32, 1};

/* attention(q, k, v, <options>, return_lse, out, lse) */
static PyObject* attention(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  (void)module;
  if (count != 3 + kNumOptions + 3) return PyErr_Format(PyExc_TypeError, "attention: %zd arguments", count);
  PyObject *return_lse_object = args[13], *out_given = args[14], *lse_given = args[15];
  Call call;
  begin(&call, "attention");
  PyObject *out_object = NULL, *lse_object = NULL, *result = NULL;
  const AmView *q, *k, *v;
  const DLTensor *out = NULL, *lse = NULL;
  const int return_lse = PyObject_IsTrue(return_lse_object);
  if (return_lse < 0 || (q = rows(&call, args[0], "q")) == NULL || (k = rows(&call, args[1], "k")) == NULL ||
      (v = rows(&call, args[2], "v")) == NULL || read_options(&call, args + 3) != 0)
    goto done;

  /* Outputs of the shapes that a right call has. For a wrong one none are made: the library says what is wrong. */
  const int rank = q->tensor.ndim, packed = call.options.cu_seqlens_q != NULL;
  if (rank == (packed ? 3 : 4) && v->tensor.ndim == rank && k->tensor.ndim == rank) {
    const int64_t *s = q->tensor.shape, d_v = v->tensor.shape[rank - 1];
    const int64_t out_shape[4] = {s[0], s[1], packed ? d_v : s[2], d_v};
    const int64_t lse_shape[3] = {packed ? s[1] : s[0], packed ? s[0] : s[2], packed ? 0 : s[1]};
    if (d_v <= 256 || out_given != Py_None) {
      out_object = output(&call, out_given, "out", q, args[0], q->tensor.dtype, rank, out_shape, &out);
      if (out_object == NULL) goto done;
    }
    if (return_lse || lse_given != Py_None) {
      lse_object = output(&call, lse_given, "lse", q, args[0], kFloat32, rank - 1, lse_shape, &lse);
      if (lse_object == NULL) goto done;
    }
  }
  if (prepare_device(&call, q, args[0], &k->tensor, &v->tensor, 0) != 0) goto done;
  release_lock(&call);
  const anymask_status status = anymask_forward(&q->tensor, &k->tensor, &v->tensor, out, lse, &call.options);
  take_lock(&call);
  if (am_check(status) == 0) result = return_lse ? PyTuple_Pack(2, out_object, lse_object) : Py_NewRef(out_object);
done:
  end(&call);
  return result;
}

/* attention_backward(dout, q, k, v, out, lse, <options>, dlse, need_dbias, need_dsinks, dq, dk, dv, dbias, dsinks)
 * -> (dq, dk, dv, dbias or None, dsinks or None) */
static PyObject* attention_backward(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  (void)module;
  if (count != 6 + kNumOptions + 8) return PyErr_Format(PyExc_TypeError, "attention_backward: %zd arguments", count);
  PyObject* const* extra = args + 6 + kNumOptions;
  Call call;
  begin(&call, "attention_backward");
  PyObject *dq_object, *dk_object, *dv_object, *dbias_object = Py_None, *dsinks_object = Py_None, *result = NULL;
  const AmView *dout, *q, *k, *v, *out, *lse;
  const DLTensor *dq = NULL, *dk = NULL, *dv = NULL;
  const int need_dbias = PyObject_IsTrue(extra[1]), need_dsinks = PyObject_IsTrue(extra[2]);
  if (need_dbias < 0 || need_dsinks < 0 || (dout = rows(&call, args[0], "dout")) == NULL ||
      (q = rows(&call, args[1], "q")) == NULL || (k = rows(&call, args[2], "k")) == NULL ||
      (v = rows(&call, args[3], "v")) == NULL || (out = view(&call, args[4], "out", 0)) == NULL ||
      (lse = view(&call, args[5], "lse", 0)) == NULL || read_options(&call, args + 6) != 0 ||
      optional(&call, extra[0], "dlse", 0, &call.options.dlse) != 0)
    goto done;
  dq_object = output(&call, extra[3], "dq", q, args[1], q->tensor.dtype, q->tensor.ndim, q->tensor.shape, &dq);
  if (dq_object == NULL) goto done;
  dk_object = output(&call, extra[4], "dk", k, args[2], k->tensor.dtype, k->tensor.ndim, k->tensor.shape, &dk);
  if (dk_object == NULL) goto done;
  dv_object = output(&call, extra[5], "dv", v, args[3], v->tensor.dtype, v->tensor.ndim, v->tensor.shape, &dv);
  if (dv_object == NULL) goto done;
  const DLTensor *bias = call.options.bias, *sinks = call.options.sinks;
  if (extra[6] != Py_None || (need_dbias && bias != NULL)) {
    const DLTensor like = bias == NULL ? q->tensor : *bias;
    dbias_object = output(&call, extra[6], "dbias", q, args[1], like.dtype, like.ndim, like.shape, &call.options.dbias);
    if (dbias_object == NULL) goto done;
  }
  if (extra[7] != Py_None || (need_dsinks && sinks != NULL)) {
    const DLTensor like = sinks == NULL ? q->tensor : *sinks;
    dsinks_object =
        output(&call, extra[7], "dsinks", q, args[1], like.dtype, like.ndim, like.shape, &call.options.dsinks);
    if (dsinks_object == NULL) goto done;
  }
  if (prepare_device(&call, q, args[1], &k->tensor, &v->tensor, 1) != 0) goto done;
  release_lock(&call);
  const anymask_status status = anymask_backward(&dout->tensor, &q->tensor, &k->tensor, &v->tensor, &out->tensor,
                                                 &lse->tensor, dq, dk, dv, &call.options);
  take_lock(&call);
  if (am_check(status) == 0) result = PyTuple_Pack(5, dq_object, dk_object, dv_object, dbias_object, dsinks_object);
done:
  end(&call);
  return result;
}

/* explain(q, k, v, <options>, backward) -> JSON */
static PyObject* explain(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  (void)module;
  if (count != 3 + kNumOptions + 1) return PyErr_Format(PyExc_TypeError, "explain: %zd arguments", count);
  Call call;
  begin(&call, "explain");
  PyObject* result = NULL;
  const AmView *q, *k, *v;
  const int backward = PyObject_IsTrue(args[13]);
  if (backward < 0 || (q = rows(&call, args[0], "q")) == NULL || (k = rows(&call, args[1], "k")) == NULL ||
      (v = rows(&call, args[2], "v")) == NULL || read_options(&call, args + 3) != 0)
    goto done;
  char* json = NULL;
  anymask_status status;
  Py_BEGIN_ALLOW_THREADS status = anymask_explain(&q->tensor, &k->tensor, &v->tensor, &call.options, backward, &json);
  Py_END_ALLOW_THREADS if (am_check(status) == 0) {
    result = PyUnicode_FromString(json);
    anymask_free(json);
  }
done:
  end(&call);
  return result;
}

static PyObject* backends(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  char* json = NULL;
  if (am_check(anymask_backends(&json)) != 0) return NULL;
  PyObject* result = PyUnicode_FromString(json);
  anymask_free(json);
  return result;
}

static PyObject* set_num_threads(PyObject* module, PyObject* object) {
  (void)module;
  const long value = PyLong_AsLong(object);
  if (value == -1 && PyErr_Occurred()) return NULL;
  if (value < 0 || value > 4096)
    return PyErr_Format(PyExc_ValueError,
                        "set_num_threads: the number is %ld; expected 1 to 4096, or 0 for all this process may use",
                        value);
  num_threads = (int)value;
  return Py_NewRef(Py_None);
}

static PyObject* get_num_threads(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  return PyLong_FromLong(num_threads);
}

#define FAST(function) (PyCFunction)(void (*)(void)) function
PyMethodDef am_attention_methods[] = {
    {"attention", FAST(attention), METH_FASTCALL, NULL},
    {"attention_backward", FAST(attention_backward), METH_FASTCALL, NULL},
    {"explain", FAST(explain), METH_FASTCALL, NULL},
    {"backends", backends, METH_NOARGS, NULL},
    {"set_num_threads", set_num_threads, METH_O, NULL},
    {"get_num_threads", get_num_threads, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
