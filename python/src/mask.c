/* Masks: Handle, which owns one, and the functions that make and read them.
 *
 * Every handle has a number, unlike any other of this process, in a table of those alive. A tensor can carry the number
 * where only tensors go (a compiled graph); a number whose mask is gone is refused, not followed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "module.h"

typedef struct {
  PyObject_HEAD anymask_mask_t mask;
  int64_t number;
  PyObject* kept; /* the arrays on a device that the mask borrows, or handles that keep them; NULL for none */
} Handle;

static PyTypeObject* handle_type;
static PyObject* alive; /* number -> address of its Handle, borrowed: dealloc takes it out */
static int64_t next_number;
static PyObject* str_h;

/* Takes the mask, and `kept` (a list, or NULL) where it holds anything. */
static PyObject* new_handle(anymask_mask_t mask, PyObject* kept) {
  Handle* self = PyObject_New(Handle, handle_type);
  if (self == NULL) {
    anymask_mask_free(mask);
    Py_XDECREF(kept);
    return NULL;
  }
  self->mask = mask;
  self->number = next_number++;
  self->kept = kept;
  if (kept != NULL && PyList_Size(kept) == 0) Py_CLEAR(self->kept);
  PyObject* number = PyLong_FromLongLong(self->number);
  PyObject* address = PyLong_FromVoidPtr(self);
  const int failed = number == NULL || address == NULL || PyDict_SetItem(alive, number, address) != 0;
  Py_XDECREF(number);
  Py_XDECREF(address);
  if (failed) Py_CLEAR(self);
  return (PyObject*)self;
}

static void handle_free(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace); /* an exception may be on its way */
  PyObject* number = PyLong_FromLongLong(((Handle*)object)->number);
  if (number == NULL || PyDict_DelItem(alive, number) != 0) PyErr_Clear();
  Py_XDECREF(number);
  PyErr_Restore(kind, value, trace);
  anymask_mask_free(((Handle*)object)->mask);
  Py_XDECREF(((Handle*)object)->kept);
  PyObject_Free(object);
  Py_DECREF(type);
}

int am_init_mask(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, handle_free}, {0, NULL}};
  static PyType_Spec spec = {"anymask._anymask.Handle", sizeof(Handle), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  handle_type = (PyTypeObject*)PyType_FromModuleAndSpec(module, &spec, NULL);
  alive = PyDict_New();
  str_h = PyUnicode_InternFromString("_h");
  /* Another process, or another run, counts from elsewhere: its numbers are not taken for ours. */
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t mixed = ((uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec) * 0x9E3779B97F4A7C15u;
  next_number = (int64_t)(mixed >> 2);
  if (handle_type == NULL || alive == NULL || str_h == NULL) return -1;
  return PyModule_AddObjectRef(module, "Handle", (PyObject*)handle_type);
}

int am_mask_of(PyObject* object, const char* operation, anymask_mask_t* out) {
  *out = NULL;
  if (object == Py_None) return 0;
  if (Py_TYPE(object) == handle_type) {
    *out = ((Handle*)object)->mask;
    return 0;
  }
  PyObject* handle = PyObject_GetAttr(object, str_h);
  if (handle != NULL && Py_TYPE(handle) == handle_type) {
    *out = ((Handle*)handle)->mask;
    Py_DECREF(handle); /* `object` keeps it */
    return 0;
  }
  Py_XDECREF(handle);
  PyErr_Clear();
  PyObject* name = PyObject_GetAttrString((PyObject*)Py_TYPE(object), "__name__");
  PyErr_Format(PyExc_TypeError,
               "%s: mask is of type %S; expected a mask: am.causal(), am.parse(text), am.dense(array of booleans), "
               "or am.from_tensor(array)",
               operation, name == NULL ? Py_None : name);
  Py_XDECREF(name);
  return -1;
}

/* Adds the handle of a mask to `kept`, where it keeps arrays itself. Returns 0 or -1. */
static int keep_handle(PyObject* kept, PyObject* object) {
  PyObject* handle = Py_TYPE(object) == handle_type ? Py_NewRef(object) : PyObject_GetAttr(object, str_h);
  if (handle == NULL) return -1;
  const int failed = ((Handle*)handle)->kept != NULL && PyList_Append(kept, handle) != 0;
  Py_DECREF(handle);
  return failed ? -1 : 0;
}

/* ------------------------------------------------------------ making */

/* Arrays on the CPU are copied; those on a device are read there, and kept. Returns 0 or -1. */
static int hold_array(PyObject* kept, PyObject* array, const AmView* view, anymask_named_array* out) {
  const DLDeviceType kind = view->tensor.device.device_type;
  out->tensor = &view->tensor;
  out->copy = kind == kDLCPU || kind == kDLCUDAHost;
  return out->copy ? 0 : PyList_Append(kept, view->held == 2 ? view->owner : array);
}

/* What the arguments of a kind hold on to while the C function reads them. */
typedef struct {
  anymask_argument c;
  AmView view;
  int64_t* ints;
} Argument;

static int read_ints(PyObject* list, const char* kind, Argument* out) {
  const Py_ssize_t count = PySequence_Size(list);
  if (count < 0) return -1;
  out->ints = malloc(sizeof(int64_t) * (size_t)(count > 0 ? count : 1));
  if (out->ints == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = PySequence_GetItem(list, i);
    PyObject* number = item == NULL ? NULL : PyNumber_Index(item);
    Py_XDECREF(item);
    out->ints[i] = number == NULL ? -1 : PyLong_AsLongLong(number);
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
      if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError,
                     "%s: element %zd of a list is no integer; expected integers: pass an array for anything else",
                     kind, i);
      return -1;
    }
  }
  out->c.type = ANYMASK_ARG_INTS;
  out->c.ints = out->ints;
  out->c.count = count;
  return 0;
}

/* An array of one element has an index too, which on a GPU would be waited for, and is not what the array holds later.
 */
static int has_axes(PyObject* object) {
  PyObject* ndim = PyObject_GetAttrString(object, "ndim");
  const long axes = ndim == NULL ? 0 : PyLong_AsLong(ndim);
  Py_XDECREF(ndim);
  PyErr_Clear();
  return axes > 0;
}

/* (name or None, value, array's name or None) */
static int read_argument(PyObject* triple, const char* kind, PyObject* kept, Argument* out) {
  PyObject *name, *value, *array_name;
  if (!PyArg_ParseTuple(triple, "OOO", &name, &value, &array_name)) return -1;
  if (name != Py_None && (out->c.name = PyUnicode_AsUTF8AndSize(name, NULL)) == NULL) return -1;
  if (PyFloat_Check(value)) {
    out->c.type = ANYMASK_ARG_REAL;
    out->c.real = PyFloat_AsDouble(value);
    return 0;
  }
  if (PyUnicode_Check(value)) {
    out->c.type = ANYMASK_ARG_TEXT;
    out->c.text = PyUnicode_AsUTF8AndSize(value, NULL);
    return out->c.text == NULL ? -1 : 0;
  }
  if (PyObject_HasAttr(value, str_h)) {
    out->c.type = ANYMASK_ARG_MASK;
    /* `triple` keeps it while it is read */
    return am_mask_of(value, kind, &out->c.mask) != 0 ? -1 : keep_handle(kept, value);
  }
  if (PyList_Check(value) || PyTuple_Check(value)) return read_ints(value, kind, out);
  if (PyIndex_Check(value) && !PyObject_CheckBuffer(value) && !has_axes(value)) {
    PyObject* number = PyNumber_Index(value);
    if (number != NULL) {
      out->c.type = ANYMASK_ARG_INT;
      out->c.integer = PyLong_AsLongLong(number);
      Py_DECREF(number);
      return PyErr_Occurred() ? -1 : 0;
    }
    PyErr_Clear();
  }
  const char* argument = out->c.name == NULL ? "an argument" : out->c.name;
  if (am_view(value, kind, argument, 0, &out->view) != 0) return -1;
  out->c.type = ANYMASK_ARG_ARRAY;
  if (hold_array(kept, value, &out->view, &out->c.array) != 0) return -1;
  if (array_name != Py_None && (out->c.array.name = PyUnicode_AsUTF8AndSize(array_name, NULL)) == NULL) return -1;
  return 0;
}

/* leaf(kind, ((name or None, value, array's name or None), ...)) */
static PyObject* leaf(PyObject* module, PyObject* args) {
  (void)module;
  const char* kind;
  PyObject* list;
  if (!PyArg_ParseTuple(args, "sO!", &kind, &PyTuple_Type, &list)) return NULL;
  enum { kMost = 8 };
  Argument arguments[kMost];
  anymask_argument c[kMost];
  const Py_ssize_t count = PyTuple_Size(list);
  if (count > kMost) return PyErr_Format(PyExc_TypeError, "%s: %zd arguments; expected at most %d", kind, count, kMost);
  memset(arguments, 0, sizeof arguments);
  anymask_mask_t mask = NULL;
  PyObject* kept = PyList_New(0);
  int failed = kept == NULL;
  for (Py_ssize_t i = 0; i < count && !failed; ++i) {
    failed = read_argument(PyTuple_GetItem(list, i), kind, kept, &arguments[i]) != 0;
    c[i] = arguments[i].c;
  }
  if (!failed) failed = am_check(anymask_mask_leaf(kind, c, count, &mask)) != 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    am_release(&arguments[i].view);
    free(arguments[i].ints);
  }
  if (failed) Py_XDECREF(kept);
  return failed ? NULL : new_handle(mask, kept);
}

/* parse(text, {name: array}) */
static PyObject* parse(PyObject* module, PyObject* args) {
  (void)module;
  const char* text;
  PyObject* arrays;
  if (!PyArg_ParseTuple(args, "sO!", &text, &PyDict_Type, &arrays)) return NULL;
  const Py_ssize_t count = PyDict_Size(arrays);
  AmView* views = calloc((size_t)count + 1, sizeof(AmView));
  anymask_named_array* c = calloc((size_t)count + 1, sizeof(anymask_named_array));
  anymask_mask_t mask = NULL;
  PyObject *name, *array, *result = NULL, *kept = PyList_New(0);
  Py_ssize_t position = 0, used = 0;
  int failed = views == NULL || c == NULL || kept == NULL;
  if (failed) PyErr_NoMemory();
  while (!failed && PyDict_Next(arrays, &position, &name, &array)) {
    c[used].name = PyUnicode_AsUTF8AndSize(name, NULL);
    failed = c[used].name == NULL || am_view(array, "mask parse", c[used].name, 0, &views[used]) != 0;
    if (failed) break;
    failed = hold_array(kept, array, &views[used], &c[used]) != 0;
    ++used;
  }
  if (!failed && am_check(anymask_mask_parse(text, c, used, &mask)) == 0) {
    result = new_handle(mask, kept);
  } else {
    Py_XDECREF(kept);
  }
  for (Py_ssize_t i = 0; i < used; ++i) am_release(&views[i]);
  free(views);
  free(c);
  return result;
}

static PyObject* from_bytes(PyObject* module, PyObject* args) {
  (void)module;
  Py_buffer bytes;
  if (!PyArg_ParseTuple(args, "y*", &bytes)) return NULL;
  anymask_mask_t mask = NULL;
  const int failed = am_check(anymask_mask_from_bytes(bytes.buf, (size_t)bytes.len, &mask));
  PyBuffer_Release(&bytes);
  return failed ? NULL : new_handle(mask, NULL);
}

static PyObject* combine(PyObject* args, const char* operation,
                         anymask_status (*make)(anymask_mask_t, anymask_mask_t, anymask_mask_t*)) {
  PyObject *a, *b;
  anymask_mask_t ma, mb, mask = NULL;
  if (!PyArg_ParseTuple(args, "OO", &a, &b) || am_mask_of(a, operation, &ma) != 0 || am_mask_of(b, operation, &mb) != 0)
    return NULL;
  PyObject* kept = PyList_New(0);
  if (kept == NULL || keep_handle(kept, a) != 0 || keep_handle(kept, b) != 0 || am_check(make(ma, mb, &mask)) != 0) {
    Py_XDECREF(kept);
    return NULL;
  }
  return new_handle(mask, kept);
}
static PyObject* mask_and(PyObject* module, PyObject* args) {
  (void)module;
  return combine(args, "mask &", anymask_mask_and);
}
static PyObject* mask_or(PyObject* module, PyObject* args) {
  (void)module;
  return combine(args, "mask |", anymask_mask_or);
}
static PyObject* mask_not(PyObject* module, PyObject* object) {
  (void)module;
  anymask_mask_t a, mask = NULL;
  if (am_mask_of(object, "mask ~", &a) != 0) return NULL;
  PyObject* kept = PyList_New(0);
  if (kept == NULL || keep_handle(kept, object) != 0 || am_check(anymask_mask_not(a, &mask)) != 0) {
    Py_XDECREF(kept);
    return NULL;
  }
  return new_handle(mask, kept);
}

static PyObject* choose(PyObject* list, const char* operation,
                        anymask_status (*make)(const anymask_mask_t*, int64_t, anymask_mask_t*)) {
  const Py_ssize_t count = PySequence_Size(list);
  if (count < 0) return NULL;
  anymask_mask_t* masks = malloc(sizeof(anymask_mask_t) * (size_t)(count > 0 ? count : 1));
  if (masks == NULL) return PyErr_NoMemory();
  anymask_mask_t mask = NULL;
  PyObject* kept = PyList_New(0);
  int failed = kept == NULL;
  for (Py_ssize_t i = 0; i < count && !failed; ++i) {
    PyObject* item = PySequence_GetItem(list, i);
    failed = item == NULL || am_mask_of(item, operation, &masks[i]) != 0 || keep_handle(kept, item) != 0;
    Py_XDECREF(item); /* the list keeps it */
  }
  failed = failed || am_check(make(masks, count, &mask)) != 0;
  free(masks);
  if (failed) Py_XDECREF(kept);
  return failed ? NULL : new_handle(mask, kept);
}
static PyObject* per_batch(PyObject* module, PyObject* list) {
  (void)module;
  return choose(list, "per_batch", anymask_mask_per_batch);
}
static PyObject* per_head(PyObject* module, PyObject* list) {
  (void)module;
  return choose(list, "per_head", anymask_mask_per_head);
}

/* random(seed, lengths, leaves) */
static PyObject* random_mask(PyObject* module, PyObject* args) {
  (void)module;
  unsigned long long seed;
  PyObject* tuple;
  int leaves;
  AmLengths lengths;
  if (!PyArg_ParseTuple(args, "KOi", &seed, &tuple, &leaves) || am_lengths(tuple, "random mask", &lengths) != 0)
    return NULL;
  anymask_mask_t mask = NULL;
  const int failed = am_check(anymask_mask_random(seed, &lengths.c, leaves, &mask));
  am_lengths_release(&lengths);
  return failed ? NULL : new_handle(mask, NULL);
}

/* The handle of a number, while its mask lives. */
static PyObject* handle_of(PyObject* module, PyObject* number) {
  (void)module;
  PyObject* address = PyDict_GetItemWithError(alive, number);
  if (address == NULL) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError,
                      "mask: the number in this tensor belongs to no mask of this process; expected one that is "
                      "alive: keep the mask, and load compiled programs where it was made");
    return NULL;
  }
  return Py_NewRef((PyObject*)PyLong_AsVoidPtr(address));
}

static PyObject* number_memory(PyObject* module, PyObject* object) {
  (void)module;
  if (Py_TYPE(object) != handle_type) return PyErr_Format(PyExc_TypeError, "number_memory: expected a Handle");
  return am_memory(object, &((Handle*)object)->number, sizeof(int64_t), 1);
}

/* ------------------------------------------------------------ reading */

static PyObject* take_text(char* text) {
  PyObject* result = PyUnicode_FromString(text);
  anymask_free(text);
  return result;
}

static PyObject* mask_text(PyObject* module, PyObject* object) {
  (void)module;
  anymask_mask_t mask;
  char* text = NULL;
  if (am_mask_of(object, "mask text", &mask) != 0 || am_check(anymask_mask_text(mask, &text)) != 0) return NULL;
  return take_text(text);
}

static PyObject* mask_equal(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *a, *b;
  anymask_mask_t ma, mb;
  int32_t equal = 0;
  if (!PyArg_ParseTuple(args, "OO", &a, &b) || am_mask_of(a, "mask ==", &ma) != 0 ||
      am_mask_of(b, "mask ==", &mb) != 0 || am_check(anymask_mask_equal(ma, mb, &equal)) != 0)
    return NULL;
  return PyBool_FromLong(equal);
}

static PyObject* mask_digest(PyObject* module, PyObject* object) {
  (void)module;
  anymask_mask_t mask;
  uint64_t digest[2];
  if (am_mask_of(object, "mask digest", &mask) != 0 || am_check(anymask_mask_digest(mask, digest)) != 0) return NULL;
  return Py_BuildValue("KK", (unsigned long long)digest[0], (unsigned long long)digest[1]);
}

static PyObject* mask_to_bytes(PyObject* module, PyObject* object) {
  (void)module;
  anymask_mask_t mask;
  uint8_t* bytes = NULL;
  size_t size = 0;
  if (am_mask_of(object, "mask bytes", &mask) != 0 || am_check(anymask_mask_to_bytes(mask, &bytes, &size)) != 0)
    return NULL;
  PyObject* result = PyBytes_FromStringAndSize((const char*)bytes, (Py_ssize_t)size);
  anymask_free(bytes);
  return result;
}

static PyObject* mask_kinds(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  char* json = NULL;
  return am_check(anymask_mask_kinds(&json)) != 0 ? NULL : take_text(json);
}

/* dense(mask, lengths, sequence, head, q_begin, kv_begin, out) */
static PyObject* mask_dense(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *object, *tuple, *out;
  long long sequence, head, q_begin, kv_begin;
  anymask_mask_t mask;
  AmLengths lengths;
  AmView view;
  if (!PyArg_ParseTuple(args, "OOLLLLO", &object, &tuple, &sequence, &head, &q_begin, &kv_begin, &out) ||
      am_mask_of(object, "mask dense", &mask) != 0 || am_lengths(tuple, "mask dense", &lengths) != 0)
    return NULL;
  int failed = am_view(out, "mask dense", "out", 1, &view);
  if (!failed) {
    anymask_status status;
    Py_BEGIN_ALLOW_THREADS status =
        anymask_mask_dense(mask, &lengths.c, sequence, head, q_begin, kv_begin, &view.tensor);
    Py_END_ALLOW_THREADS failed = am_check(status);
    am_release(&view);
  }
  am_lengths_release(&lengths);
  return failed ? NULL : Py_NewRef(Py_None);
}

/* coverage(mask, lengths, sequence, head, out) */
static PyObject* mask_coverage(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *object, *tuple, *out;
  long long sequence, head;
  anymask_mask_t mask;
  AmLengths lengths;
  AmView view;
  if (!PyArg_ParseTuple(args, "OOLLO", &object, &tuple, &sequence, &head, &out) ||
      am_mask_of(object, "mask coverage", &mask) != 0 || am_lengths(tuple, "mask coverage", &lengths) != 0)
    return NULL;
  int failed = am_view(out, "mask coverage", "out", 1, &view);
  if (!failed) {
    anymask_status status;
    Py_BEGIN_ALLOW_THREADS status = anymask_mask_coverage(mask, &lengths.c, sequence, head, &view.tensor);
    Py_END_ALLOW_THREADS failed = am_check(status);
    am_release(&view);
  }
  am_lengths_release(&lengths);
  return failed ? NULL : Py_NewRef(Py_None);
}

/* count(mask, lengths) -> (kept, pairs) */
static PyObject* mask_count(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *object, *tuple;
  anymask_mask_t mask;
  AmLengths lengths;
  if (!PyArg_ParseTuple(args, "OO", &object, &tuple) || am_mask_of(object, "mask count", &mask) != 0 ||
      am_lengths(tuple, "mask count", &lengths) != 0)
    return NULL;
  int64_t kept = 0, pairs = 0;
  anymask_status status;
  Py_BEGIN_ALLOW_THREADS status = anymask_mask_count(mask, &lengths.c, &kept, &pairs);
  Py_END_ALLOW_THREADS const int failed = am_check(status);
  am_lengths_release(&lengths);
  return failed ? NULL : Py_BuildValue("LL", (long long)kept, (long long)pairs);
}

/* select(mask, lengths) */
static PyObject* mask_select(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *object, *tuple;
  anymask_mask_t mask, selected = NULL;
  AmLengths lengths;
  if (!PyArg_ParseTuple(args, "OO", &object, &tuple) || am_mask_of(object, "mask select", &mask) != 0 ||
      am_lengths(tuple, "mask select", &lengths) != 0)
    return NULL;
  anymask_status status;
  Py_BEGIN_ALLOW_THREADS status = anymask_mask_select(mask, &lengths.c, &selected);
  Py_END_ALLOW_THREADS int failed = am_check(status);
  am_lengths_release(&lengths);
  PyObject* kept = failed ? NULL : PyList_New(0);
  if (!failed && (kept == NULL || keep_handle(kept, object) != 0)) {
    anymask_mask_free(selected);
    failed = 1;
  }
  if (failed) Py_XDECREF(kept);
  return failed ? NULL : new_handle(selected, kept);
}

PyMethodDef am_mask_methods[] = {
    {"leaf", leaf, METH_VARARGS, NULL},
    {"parse", parse, METH_VARARGS, NULL},
    {"from_bytes", from_bytes, METH_VARARGS, NULL},
    {"mask_and", mask_and, METH_VARARGS, NULL},
    {"mask_or", mask_or, METH_VARARGS, NULL},
    {"mask_not", mask_not, METH_O, NULL},
    {"per_batch", per_batch, METH_O, NULL},
    {"per_head", per_head, METH_O, NULL},
    {"random", random_mask, METH_VARARGS, NULL},
    {"handle_of", handle_of, METH_O, NULL},
    {"number_memory", number_memory, METH_O, NULL},
    {"text", mask_text, METH_O, NULL},
    {"equal", mask_equal, METH_VARARGS, NULL},
    {"digest", mask_digest, METH_O, NULL},
    {"to_bytes", mask_to_bytes, METH_O, NULL},
    {"kinds", mask_kinds, METH_NOARGS, NULL},
    {"dense", mask_dense, METH_VARARGS, NULL},
    {"coverage", mask_coverage, METH_VARARGS, NULL},
    {"count", mask_count, METH_VARARGS, NULL},
    {"select", mask_select, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
