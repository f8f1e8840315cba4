/* attention and attention_backward as handlers of XLA's foreign function interface: what a computation that JAX
 * compiled calls on a CPU. A handler touches no Python object and takes no lock of the interpreter: operands, results
 * and options come with the call.
 *
 * Attributes of a call. `operands` and `results` name the buffers in their order ("q k v sinks", "out lse"), so that
 * optional ones need no places of their own. `mask` holds a mask's bytes (none: full) and `mask_key` 16 bytes that
 * stand for them. `scale`, `softcap` (float64), `deterministic` (bool), `cu_seqlens_q`, `cu_seqlens_kv` (int64) and
 * `backend` are options of the C interface, left out where they have their default.
 */
#include "module.h" /* first: Python.h says which functions of the system the headers after it declare */

#include <stdio.h>
#include <string.h>

#include "xla_ffi.h"

/* Every tensor a call may have, by the name that `operands` and `results` use. */
typedef enum { Q, K, V, BIAS, SINKS, SLOPES, OUT, LSE, DOUT, DLSE, DQ, DK, DV, DBIAS, DSINKS, kNumTensors } TensorId;
static const char* const kNames[kNumTensors] = {"q",    "k",    "v",  "bias", "sinks", "alibi_slopes", "out",   "lse",
                                                "dout", "dlse", "dq", "dk",   "dv",    "dbias",        "dsinks"};

typedef struct {
  const AmXlaFrame* frame;
  const char* operation;
  DLTensor tensors[kNumTensors];
  int given[kNumTensors];
  DLTensor cu_q, cu_kv;
  int64_t cu_q_size, cu_kv_size;
  double scale;
  char backend[16];
  AmHeldMask* mask;
  anymask_options options;
} Call;

static AmXlaError* error_of(const AmXlaFrame* frame, AmXlaCode code, const char* message) {
  AmXlaErrorCreate args = {sizeof args, NULL, message, code};
  return frame->api->error_create(&args);
}

/* "attention: <what>", for what only a call made by other hands than this package's can be. */
static AmXlaError* malformed(const Call* call, const char* what, const char* name, size_t size) {
  char text[256];
  snprintf(text, sizeof text, "%s: %s %.*s: call anymask.jax.attention, which makes the call", call->operation, what,
           (int)(size < 64 ? size : 64), name);
  return error_of(call->frame, AM_XLA_INVALID_ARGUMENT, text);
}

static AmXlaError* failure(const Call* call, anymask_status status) {
  AmXlaCode code = AM_XLA_INTERNAL;
  switch (status) {
    case ANYMASK_OK:
      return NULL;
    case ANYMASK_INVALID_ARGUMENT:
      code = AM_XLA_INVALID_ARGUMENT;
      break;
    case ANYMASK_UNSUPPORTED:
      code = AM_XLA_UNIMPLEMENTED;
      break;
    case ANYMASK_OUT_OF_MEMORY:
      code = AM_XLA_RESOURCE_EXHAUSTED;
      break;
    case ANYMASK_INTERNAL:
    case ANYMASK_INTERRUPTED:
      break;
  }
  return error_of(call->frame, code, anymask_last_error());
}

/* The attribute of a name and kind; NULL where there is none, *error where it is of another kind. */
static const void* attribute(const Call* call, const char* name, AmXlaAttributeKind kind, AmXlaError** error) {
  const AmXlaAttributes* all = &call->frame->attributes;
  const size_t size = strlen(name);
  for (int64_t i = 0; i < all->size; ++i) {
    if (all->names[i]->size != size || memcmp(all->names[i]->data, name, size) != 0) continue;
    if (all->kinds[i] == kind) return all->values[i];
    *error = malformed(call, "an attribute is of another kind than expected:", name, size);
    return NULL;
  }
  return NULL;
}

/* A number of a type into `out`, which keeps its value where the attribute is missing. */
static AmXlaError* scalar(const Call* call, const char* name, AmXlaType type, size_t size, void* out) {
  AmXlaError* error = NULL;
  const AmXlaScalar* found = attribute(call, name, AM_XLA_SCALAR, &error);
  if (found == NULL) return error;
  if (found->type != type) return malformed(call, "an attribute is of another type than expected:", name, strlen(name));
  memcpy(out, found->value, size);
  return NULL;
}

static DLDataType element_type(AmXlaType type) {
  DLDataType result = {kDLFloat, 0, 1};
  switch (type) {
    case AM_XLA_PRED:
      result.code = ANYMASK_DL_BOOL;
      result.bits = 8;
      break;
    case AM_XLA_U8:
      result.code = kDLUInt;
      result.bits = 8;
      break;
    case AM_XLA_S32:
    case AM_XLA_S64:
      result.code = kDLInt;
      result.bits = type == AM_XLA_S32 ? 32 : 64;
      break;
    case AM_XLA_BF16:
      result.code = kDLBfloat;
      result.bits = 16;
      break;
    case AM_XLA_F16:
      result.bits = 16;
      break;
    case AM_XLA_F32:
      result.bits = 32;
      break;
    case AM_XLA_F64:
      result.bits = 64;
      break;
  }
  return result;
}

/* Views of the buffers of `list`, by the names that the attribute gives them. */
static AmXlaError* read_tensors(Call* call, const AmXlaList* list, const char* which) {
  AmXlaError* error = NULL;
  const AmXlaSpan* names = attribute(call, which, AM_XLA_STRING, &error);
  if (names == NULL) return error != NULL ? error : malformed(call, "an attribute is missing:", which, strlen(which));
  const char *word = names->data, *end = names->data + names->size;
  int64_t next = 0;
  for (; word < end; ++next) {
    const char* stop = memchr(word, ' ', (size_t)(end - word));
    const size_t size = (size_t)((stop == NULL ? end : stop) - word);
    int id = 0;
    while (id < kNumTensors && (strlen(kNames[id]) != size || memcmp(kNames[id], word, size) != 0)) ++id;
    if (id == kNumTensors || next >= list->size || list->kinds[next] != AM_XLA_BUFFER)
      return malformed(call, "there is no buffer, or no argument, called", word, size);
    const AmXlaBuffer* buffer = list->values[next];
    DLTensor* t = &call->tensors[id];
    t->data = buffer->data;
    t->device.device_type = kDLCPU;
    t->ndim = (int32_t)buffer->rank;
    t->dtype = element_type(buffer->type);
    t->shape = buffer->shape;
    if (t->dtype.bits == 0) {
      char text[256];
      snprintf(
          text, sizeof text,
          "%s: %s has elements of XLA's type %d; expected float32, float16 or bfloat16: convert it, %s.astype(...)",
          call->operation, kNames[id], (int)buffer->type, kNames[id]);
      return error_of(call->frame, AM_XLA_INVALID_ARGUMENT, text);
    }
    call->given[id] = 1;
    word += size + 1;
  }
  return next == list->size ? NULL : malformed(call, "buffers without a name in", which, strlen(which));
}

static const DLTensor* tensor(const Call* call, TensorId id) { return call->given[id] ? &call->tensors[id] : NULL; }

static AmXlaError* offsets(const Call* call, const char* name, DLTensor* view, int64_t* size, const DLTensor** out) {
  AmXlaError* error = NULL;
  const AmXlaArray* array = attribute(call, name, AM_XLA_ARRAY, &error);
  if (array == NULL) return error;
  if (array->type != AM_XLA_S64) return malformed(call, "no int64 array is", name, strlen(name));
  *size = (int64_t)array->size;
  view->data = array->data;
  view->device.device_type = kDLCPU;
  view->ndim = 1;
  view->dtype = element_type(AM_XLA_S64);
  view->shape = size;
  *out = view;
  return NULL;
}

static AmXlaError* read_options(Call* call) {
  anymask_options* o = &call->options;
  AmXlaError* error = NULL;
  o->struct_size = sizeof *o;
  const AmXlaSpan* bytes = attribute(call, "mask", AM_XLA_STRING, &error);
  const AmXlaSpan* key = error != NULL ? NULL : attribute(call, "mask_key", AM_XLA_STRING, &error);
  if (error != NULL) return error;
  if (bytes != NULL) {
    if (key == NULL || key->size != AM_MASK_KEY) return malformed(call, "16 bytes are expected of", "mask_key", 8);
    const anymask_status status = am_hold_mask(bytes->data, bytes->size, key->data, &call->mask, &o->mask);
    if (status == ANYMASK_OUT_OF_MEMORY)
      return error_of(call->frame, AM_XLA_RESOURCE_EXHAUSTED, "attention: no memory is left to hold the mask");
    if (status != ANYMASK_OK) return failure(call, status);
  }
  const AmXlaSpan* backend = attribute(call, "backend", AM_XLA_STRING, &error);
  if (backend != NULL) { /* a name too long is cut, and no name of a backend either */
    const size_t size = backend->size < sizeof call->backend ? backend->size : sizeof call->backend - 1;
    memcpy(call->backend, backend->data, size);
    o->backend = call->backend;
  }
  call->scale = 0;
  uint8_t deterministic = 0;
  if (error != NULL || (error = scalar(call, "scale", AM_XLA_F64, sizeof call->scale, &call->scale)) != NULL ||
      (error = scalar(call, "softcap", AM_XLA_F64, sizeof o->softcap, &o->softcap)) != NULL ||
      (error = scalar(call, "deterministic", AM_XLA_PRED, 1, &deterministic)) != NULL ||
      (error = offsets(call, "cu_seqlens_q", &call->cu_q, &call->cu_q_size, &o->cu_seqlens_q)) != NULL ||
      (error = offsets(call, "cu_seqlens_kv", &call->cu_kv, &call->cu_kv_size, &o->cu_seqlens_kv)) != NULL)
    return error;
  if (attribute(call, "scale", AM_XLA_SCALAR, &error) != NULL) o->softmax_scale = &call->scale;
  o->deterministic = deterministic;
  o->num_threads = am_num_threads();
  o->bias = tensor(call, BIAS);
  o->sinks = tensor(call, SINKS);
  o->alibi_slopes = tensor(call, SLOPES);
  o->dlse = tensor(call, DLSE);
  o->dbias = tensor(call, DBIAS);
  o->dsinks = tensor(call, DSINKS);
  return NULL;
}

static AmXlaError* compute(Call* call, int backward) {
  anymask_options* o = &call->options;
  if (!backward)
    return failure(call, anymask_forward(tensor(call, Q), tensor(call, K), tensor(call, V), tensor(call, OUT),
                                         tensor(call, LSE), o));
  return failure(
      call, anymask_backward(tensor(call, DOUT), tensor(call, Q), tensor(call, K), tensor(call, V), tensor(call, OUT),
                             tensor(call, LSE), tensor(call, DQ), tensor(call, DK), tensor(call, DV), o));
}

/* XLA asks before it registers a handler. No trait is claimed: those are about graphs of devices. */
static AmXlaError* answer_metadata(const AmXlaFrame* frame) {
  AmXlaMetadata* metadata = ((const AmXlaMetadataExtension*)frame->extensions)->metadata;
  const AmXlaVersion version = {sizeof version, NULL, AM_XLA_MAJOR, AM_XLA_MINOR};
  metadata->version = version;
  metadata->traits = 0;
  return NULL;
}

static AmXlaError* handle(AmXlaFrame* frame, int backward) {
  if (frame->extensions != NULL && frame->extensions->type == AM_XLA_EXTENSION_METADATA) return answer_metadata(frame);
  Call call;
  memset(&call, 0, sizeof call);
  call.frame = frame;
  call.operation = backward ? "attention_backward" : "attention";
  if (frame->struct_size < sizeof *frame || frame->stage != AM_XLA_EXECUTE)
    return malformed(&call, "called in another stage than to execute, or by an XLA before version 0.1", "", 0);
  AmXlaError* error = read_tensors(&call, &frame->operands, "operands");
  if (error == NULL) error = read_tensors(&call, &frame->results, "results");
  if (error == NULL) error = read_options(&call);
  if (error == NULL) error = compute(&call, backward);
  am_let_mask_go(call.mask);
  return error;
}

static AmXlaError* forward(AmXlaFrame* frame) { return handle(frame, 0); }
static AmXlaError* backward(AmXlaFrame* frame) { return handle(frame, 1); }

/* xla_handlers() -> {platform: (forward, backward)}, capsules of handlers */
static PyObject* xla_handlers(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  PyObject* first = PyCapsule_New((void*)forward, NULL, NULL);
  PyObject* second = PyCapsule_New((void*)backward, NULL, NULL);
  PyObject* result = first == NULL || second == NULL ? NULL : Py_BuildValue("{s(OO)}", "cpu", first, second);
  Py_XDECREF(first);
  Py_XDECREF(second);
  return result;
}

PyMethodDef am_xla_methods[] = {
    {"xla_handlers", xla_handlers, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
