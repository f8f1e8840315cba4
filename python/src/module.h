/* What the files of this module share. Everything runs with the interpreter's lock held, save computations. */
#ifndef ANYMASK_PYTHON_MODULE_H_
#define ANYMASK_PYTHON_MODULE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <anymask/anymask.h>

#include "exchange.h"

#define AM_MAX_RANK 8

/* ---- errors (errors.c) */
extern PyObject* am_unsupported_error; /* anymask.UnsupportedError, a NotImplementedError */
int am_init_errors(PyObject* module);
/* 0 for ANYMASK_OK; else -1 with the exception of that status set, its text the library's. */
int am_check(anymask_status status);

/* ---- tensors (tensor.c) */
/* How objects of one type are viewed. */
typedef enum { AM_EXCHANGE, AM_BUFFER, AM_DLPACK } AmProtocol;
typedef struct {
  PyTypeObject* type;
  AmProtocol protocol;
  const AmExchange* exchange;
  PyObject* empty_like; /* its library's function, or NULL */
} AmFramework;

/* A view of an object's memory, and what keeps it alive. Ends with am_release. */
typedef struct {
  DLTensor tensor;
  AmFramework framework;
  int held; /* 0 nothing, 1 `buffer`, 2 `owner` */
  Py_buffer buffer;
  PyObject* owner;
  int64_t shape[AM_MAX_RANK], strides[AM_MAX_RANK];
} AmView;

int am_init_tensor(void);
/* `operation` and `argument` are for messages: "attention: q is ...". Returns 0, or -1 with an exception. */
int am_view(PyObject* object, const char* operation, const char* argument, int writable, AmView* view);
void am_release(AmView* view);
/* A new contiguous array of the framework of `like`, on its device, and its view. */
PyObject* am_allocate(const AmView* like, PyObject* like_object, DLDataType type, int rank, const int64_t* shape,
                      AmView* view);
/* The stream on which the framework of `view` works now; NULL on a CPU. Returns 0 or -1. */
int am_stream(const AmView* view, PyObject* object, void** stream);

/* ---- masks (mask.c) */
int am_init_mask(PyObject* module);
/* NULL for None; else the mask of a Handle, or of an object whose `_h` is one. Returns 0 or -1. */
int am_mask_of(PyObject* object, const char* operation, anymask_mask_t* out);
extern PyMethodDef am_mask_methods[];

/* ---- masks read from bytes before (mask_cache.c) */
enum { AM_MASK_KEY = 16 }; /* bytes that stand for others: their BLAKE2b */
typedef struct AmHeldMask AmHeldMask;
/* The mask of `bytes`, held until am_let_mask_go, which takes NULL too. */
anymask_status am_hold_mask(const void* bytes, size_t size, const void* key, AmHeldMask** held, anymask_mask_t* out);
void am_let_mask_go(AmHeldMask* held);

/* ---- attention (attention.c), the same for XLA (xla.c), plans (plan.c), memory of C objects as Python buffers
 * (memory.c) */
extern PyMethodDef am_attention_methods[];
extern PyMethodDef am_xla_methods[];
extern PyMethodDef am_plan_methods[];
/* What set_num_threads was given last; from any thread, without the interpreter's lock. */
int am_num_threads(void);
int am_init_plan(PyObject* module);
int am_init_memory(PyObject* module);
/* A buffer of `size` bytes at `data`, which live as long as `owner` does. */
PyObject* am_memory(PyObject* owner, void* data, Py_ssize_t size, int writable);

/* Lengths as keyword dictionaries give them: (batch, s_q, s_kv, h_q, h_kv, cu_q, cu_kv). Ends with am_lengths_release.
 */
typedef struct {
  anymask_lengths c;
  AmView cu_q, cu_kv;
} AmLengths;
int am_lengths(PyObject* tuple, const char* operation, AmLengths* out);
void am_lengths_release(AmLengths* lengths);

#endif /* ANYMASK_PYTHON_MODULE_H_ */
