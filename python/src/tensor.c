/* Views of other people's arrays, without copies: DLPack's C functions where a framework has them (PyTorch), else the
 * buffer protocol (NumPy, read-only arrays and bfloat16 included), else `__dlpack__` (JAX, CuPy).
 *
 * A type is asked once which of these it speaks; four PyTorch tensors then cost 0.3 us.
 */
#include "module.h" /* first: Python.h says which functions of the system the headers after it declare */

#include <stdlib.h>
#include <string.h>

enum { kMaxFrameworks = 64 };
static AmFramework frameworks[kMaxFrameworks];
static int num_frameworks;
static PyObject *str_dlpack, *str_dlpack_device, *str_view, *str_dtype, *str_name;

int am_init_tensor(void) {
  str_dlpack = PyUnicode_InternFromString("__dlpack__");
  str_dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
  str_view = PyUnicode_InternFromString("view");
  str_dtype = PyUnicode_InternFromString("dtype");
  str_name = PyUnicode_InternFromString("name");
  return str_dlpack && str_dlpack_device && str_view && str_dtype && str_name ? 0 : -1;
}

/* "numpy.ndarray", "list", for messages. New reference, or NULL without an exception. */
static PyObject* type_name(PyObject* object) {
  PyObject* name = PyObject_GetAttrString((PyObject*)Py_TYPE(object), "__name__");
  PyObject* module = PyObject_GetAttrString((PyObject*)Py_TYPE(object), "__module__");
  PyObject* text = NULL;
  if (name != NULL && module != NULL && PyUnicode_Check(module) &&
      PyUnicode_CompareWithASCIIString(module, "builtins") != 0) {
    text = PyUnicode_FromFormat("%U.%U", module, name);
    Py_DECREF(name);
  } else {
    text = name;
  }
  Py_XDECREF(module);
  PyErr_Clear();
  return text;
}

static int refuse_type(PyObject* object, const char* operation, const char* argument) {
  PyObject* name = type_name(object);
  if (name == NULL) return -1;
  PyErr_Format(PyExc_TypeError,
               "%s: %s is of type %U; expected an array of NumPy, PyTorch, JAX or CuPy (the buffer protocol or "
               "DLPack): convert it, np.asarray(%s)",
               operation, argument, name, argument);
  Py_DECREF(name);
  return -1;
}

/* The exchange table of a type, of the version spoken here, or NULL. */
static const AmExchange* find_exchange(PyTypeObject* type) {
  PyObject* capsule = PyObject_GetAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
  const AmExchange* table = NULL;
  if (capsule != NULL) table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  Py_XDECREF(capsule); /* the type keeps it */
  PyErr_Clear();
  while (table != NULL && table->version.major > 1) table = table->previous;
  if (table == NULL || table->version.major != 1 || table->view_of_object == NULL) return NULL;
  return table;
}

/* The top-level module of an array's type: cupy of cupy._core.core.ndarray. */
static PyObject* library_of(PyObject* like) {
  PyObject* module = PyObject_GetAttrString((PyObject*)Py_TYPE(like), "__module__");
  PyObject* library = NULL;
  const char* name = module == NULL ? NULL : PyUnicode_AsUTF8AndSize(module, NULL);
  if (name != NULL) {
    const size_t length = strcspn(name, ".");
    PyObject* top = PyUnicode_FromStringAndSize(name, (Py_ssize_t)length);
    if (top != NULL) library = PyImport_Import(top);
    Py_XDECREF(top);
  }
  Py_XDECREF(module);
  return library;
}

/* empty_like of an object's library, as PyTorch has it. New reference, or NULL. */
static PyObject* find_empty_like(PyObject* object) {
  PyObject* library = library_of(object);
  PyObject* function = library == NULL ? NULL : PyObject_GetAttrString(library, "empty_like");
  Py_XDECREF(library);
  PyErr_Clear();
  return function;
}

/* How an object is viewed; 0 when nothing here can. */
static int framework_of(PyObject* object, AmFramework* out) {
  PyTypeObject* type = Py_TYPE(object);
  for (int i = 0; i < num_frameworks; ++i) {
    if (frameworks[i].type == type) {
      *out = frameworks[i];
      return 1;
    }
  }
  out->type = type;
  out->protocol = AM_EXCHANGE;
  out->exchange = find_exchange(type);
  out->empty_like = NULL;
  if (out->exchange == NULL) {
    if (PyObject_CheckBuffer(object)) {
      out->protocol = AM_BUFFER;
    } else if (PyObject_HasAttr(object, str_dlpack)) {
      out->protocol = AM_DLPACK;
    } else {
      return 0;
    }
  }
  /* Before there is a place for it: an import lets other threads in. */
  if (out->exchange != NULL) out->empty_like = find_empty_like(object);
  if (num_frameworks < kMaxFrameworks) { /* a program with more types of arrays asks each time */
    Py_INCREF((PyObject*)type);          /* so that its address means it for good */
    frameworks[num_frameworks++] = *out;
  } else {
    Py_CLEAR(out->empty_like);
  }
  return 1;
}

/* ------------------------------------------------------------ buffers */

/* The element type of a buffer's format string; 0 bits for one that no DLPack code has. */
static DLDataType buffer_type(const char* format, Py_ssize_t itemsize) {
  DLDataType type = {kDLInt, 0, 1};
  if (format == NULL) format = "B";
  if (*format == '@' || *format == '=' || *format == '<' || *format == '|') ++format;
  if (format[0] == '\0' || format[1] != '\0') return type;
  if (strchr("efd", format[0]) != NULL) {
    type.code = kDLFloat;
  } else if (strchr("bhilqn", format[0]) != NULL) {
    type.code = kDLInt;
  } else if (strchr("BHILQN", format[0]) != NULL) {
    type.code = kDLUInt;
  } else if (format[0] == '?') {
    type.code = ANYMASK_DL_BOOL;
  } else {
    return type;
  }
  type.bits = (uint8_t)(8 * itemsize);
  return type;
}

/* Whether the library knows a type. */
static int known_type(DLDataType type) {
  switch (type.code) {
    case kDLFloat:
      return type.bits == 32 || type.bits == 16 || type.bits == 64;
    case kDLBfloat:
      return type.bits == 16;
    case kDLInt:
      return type.bits == 32 || type.bits == 64;
    case kDLUInt:
    case ANYMASK_DL_BOOL:
      return type.bits == 8;
    default:
      return 0;
  }
}

/* ml_dtypes' bfloat16 has no buffer format: its array viewed as uint16 has. New reference; NULL for any other array. */
static PyObject* bfloat16_as_uint16(PyObject* object) {
  PyObject* result = NULL;
  PyObject* dtype = PyObject_GetAttr(object, str_dtype);
  PyObject* name = dtype == NULL ? NULL : PyObject_GetAttr(dtype, str_name);
  if (name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0) {
    PyObject* uint16 = PyUnicode_FromString("uint16");
    result = uint16 == NULL ? NULL : PyObject_CallMethodObjArgs(object, str_view, uint16, NULL);
    Py_XDECREF(uint16);
  }
  Py_XDECREF(name);
  Py_XDECREF(dtype);
  PyErr_Clear();
  return result;
}

static int refuse_dtype(PyObject* object, const char* operation, const char* argument) {
  PyErr_Clear();
  PyObject* dtype = PyObject_GetAttr(object, str_dtype);
  PyErr_Clear();
  PyErr_Format(PyExc_ValueError,
               "%s: %s has elements of type %S; expected float32, float16, bfloat16, float64, int32, int64, uint8 or "
               "bool: convert it",
               operation, argument, dtype == NULL ? Py_None : dtype);
  Py_XDECREF(dtype);
  return -1;
}

static int view_buffer(PyObject* object, const char* operation, const char* argument, int writable, AmView* view) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  DLDataType type = {kDLBfloat, 16, 1};
  if (PyObject_GetBuffer(object, &view->buffer, flags) != 0) {
    PyErr_Clear();
    PyObject* bits = bfloat16_as_uint16(object);
    const int viewed = bits != NULL && PyObject_GetBuffer(bits, &view->buffer, flags) == 0;
    Py_XDECREF(bits); /* the buffer holds it */
    if (!viewed) {
      PyErr_Clear();
      if (!writable || PyObject_GetBuffer(object, &view->buffer, PyBUF_STRIDES | PyBUF_FORMAT) != 0)
        return refuse_dtype(object, operation, argument);
      PyBuffer_Release(&view->buffer);
      PyErr_Format(PyExc_ValueError, "%s: %s is read-only; expected an array to write into: give a writable one",
                   operation, argument);
      return -1;
    }
  } else {
    type = buffer_type(view->buffer.format, view->buffer.itemsize);
  }
  view->held = 1;
  if (view->buffer.ndim > AM_MAX_RANK) {
    PyErr_Format(PyExc_ValueError, "%s: %s has %d axes; expected at most %d: reshape it", operation, argument,
                 view->buffer.ndim, AM_MAX_RANK);
    am_release(view);
    return -1;
  }
  DLTensor* t = &view->tensor;
  t->data = view->buffer.buf;
  t->device.device_type = kDLCPU;
  t->device.device_id = 0;
  t->ndim = view->buffer.ndim;
  t->dtype = type;
  t->shape = view->shape;
  t->strides = view->strides;
  t->byte_offset = 0;
  for (int i = 0; i < t->ndim; ++i) {
    const Py_ssize_t stride = view->buffer.strides[i], size = view->buffer.itemsize;
    view->shape[i] = view->buffer.shape[i];
    view->strides[i] = stride / size;
    if (stride % size != 0 && view->shape[i] > 1) {
      PyErr_Format(PyExc_ValueError,
                   "%s: %s has a stride of %zd bytes along axis %d, no multiple of its elements' %zd; expected whole "
                   "elements: copy it, np.ascontiguousarray(%s)",
                   operation, argument, stride, i, size, argument);
      am_release(view);
      return -1;
    }
  }
  return 0;
}

/* ------------------------------------------------------------ __dlpack__ */

/* object.__dlpack__(**keywords), without what an older implementation does not know. */
static PyObject* call_dlpack(PyObject* object, PyObject* keywords) {
  PyObject* method = PyObject_GetAttr(object, str_dlpack);
  if (method == NULL) return NULL;
  PyObject* none = PyTuple_New(0);
  PyObject* capsule = none == NULL ? NULL : PyObject_Call(method, none, keywords);
  if (capsule == NULL && none != NULL && PyErr_ExceptionMatches(PyExc_TypeError) &&
      PyDict_GetItemString(keywords, "max_version") != NULL) {
    PyErr_Clear();
    if (PyDict_DelItemString(keywords, "max_version") == 0) capsule = PyObject_Call(method, none, keywords);
  }
  Py_XDECREF(none);
  Py_DECREF(method);
  return capsule;
}

static int view_dlpack(PyObject* object, const char* operation, const char* argument, int writable, AmView* view) {
  PyObject* keywords = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
  if (keywords == NULL) return -1;
  /* On a GPU no event is recorded (stream -1): work is put on the very stream the array's framework uses now. */
  PyObject* device = PyObject_CallMethodObjArgs(object, str_dlpack_device, NULL);
  int kind = kDLCPU, id = 0, failed = device == NULL || !PyArg_ParseTuple(device, "ii", &kind, &id);
  Py_XDECREF(device);
  if (!failed && kind == kDLCUDA) {
    PyObject* minus_one = PyLong_FromLong(-1);
    failed = minus_one == NULL || PyDict_SetItemString(keywords, "stream", minus_one) != 0;
    Py_XDECREF(minus_one);
  }
  PyObject* capsule = failed ? NULL : call_dlpack(object, keywords);
  Py_DECREF(keywords);
  if (capsule == NULL) return -1;

  /* The capsule keeps the memory alive: it is never marked as used, so its own destructor ends it. */
  uint64_t flags = 0;
  const DLTensor* t = NULL;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const AmManaged* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major == 1) {
      t = &managed->tensor;
      flags = managed->flags;
    }
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    t = &((const DLManagedTensor*)PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
  }
  if (t == NULL || (writable && (flags & 1) != 0)) {
    Py_DECREF(capsule);
    PyErr_Format(PyExc_ValueError,
                 t == NULL ? "%s: %s gives a DLPack capsule of an unknown version; expected DLPack 0 or 1: update its "
                             "library, or this one"
                           : "%s: %s is read-only; expected an array to write into: give a writable one",
                 operation, argument);
    return -1;
  }
  view->tensor = *t;
  view->owner = capsule;
  view->held = 2;
  return 0;
}

/* ------------------------------------------------------------ all of them */

int am_view(PyObject* object, const char* operation, const char* argument, int writable, AmView* view) {
  view->held = 0;
  if (!framework_of(object, &view->framework)) return refuse_type(object, operation, argument);
  int failed = -1;
  switch (view->framework.protocol) {
    case AM_EXCHANGE:
      failed = view->framework.exchange->view_of_object(object, &view->tensor);
      break;
    case AM_BUFFER:
      failed = view_buffer(object, operation, argument, writable, view);
      break;
    case AM_DLPACK:
      failed = view_dlpack(object, operation, argument, writable, view);
      break;
  }
  if (failed) return -1;
  if (view->tensor.dtype.lanes == 1 && known_type(view->tensor.dtype)) return 0;
  am_release(view);
  return refuse_dtype(object, operation, argument);
}

void am_release(AmView* view) {
  if (view->held == 1) PyBuffer_Release(&view->buffer);
  if (view->held == 2) Py_DECREF(view->owner);
  view->held = 0;
}

/* ------------------------------------------------------------ new arrays */

static void set_error(void* context, const char* kind, const char* message) {
  (void)context;
  const int memory = strstr(kind, "emory") != NULL || strstr(message, "memory") != NULL;
  if (!PyErr_Occurred()) PyErr_SetString(memory ? PyExc_MemoryError : PyExc_RuntimeError, message);
}

static PyObject* allocate_by_exchange(const AmView* like, DLTensor* prototype, AmView* view) {
  const AmExchange* exchange = like->framework.exchange;
  AmManaged* managed = NULL;
  void* object = NULL;
  if (exchange->allocate(prototype, &managed, NULL, set_error) != 0) return NULL;
  if (exchange->object_from_managed(managed, &object) != 0) {
    if (managed->deleter != NULL) managed->deleter(managed);
    return NULL;
  }
  view->framework = like->framework;
  view->held = 0;
  if (exchange->view_of_object(object, &view->tensor) != 0) {
    Py_DECREF((PyObject*)object);
    return NULL;
  }
  return object;
}

/* The name NumPy and its likes have for a type that this module allocates. */
static const char* dtype_name(DLDataType type) {
  if (type.code == kDLBfloat) return "bfloat16";
  if (type.code == kDLUInt) return "uint8";
  return type.bits == 64 ? "float64" : type.bits == 32 ? "float32" : "float16";
}

/* empty(shape, dtype) of `library`, and the dtypes asked for so far. */
static PyObject* numpy_empty;
static PyObject* numpy_dtypes[4]; /* float16, float32, float64, bfloat16 */

static PyObject* numpy_dtype(DLDataType type) {
  const int index = type.code == kDLBfloat ? 3 : type.bits == 64 ? 2 : type.bits == 32 ? 1 : 0;
  if (numpy_dtypes[index] != NULL) return numpy_dtypes[index];
  PyObject* library = PyImport_ImportModule(index == 3 ? "ml_dtypes" : "numpy");
  PyObject* scalar = library == NULL ? NULL : PyObject_GetAttrString(library, dtype_name(type));
  PyObject* numpy = scalar == NULL ? NULL : PyImport_ImportModule("numpy");
  PyObject* make = numpy == NULL ? NULL : PyObject_GetAttr(numpy, str_dtype);
  if (make != NULL) numpy_dtypes[index] = PyObject_CallFunctionObjArgs(make, scalar, NULL);
  Py_XDECREF(make);
  Py_XDECREF(numpy);
  Py_XDECREF(scalar);
  Py_XDECREF(library);
  return numpy_dtypes[index];
}

static PyObject* shape_tuple(int rank, const int64_t* shape) {
  PyObject* tuple = PyTuple_New(rank);
  for (int i = 0; tuple != NULL && i < rank; ++i) {
    PyObject* size = PyLong_FromLongLong(shape[i]);
    if (size == NULL || PyTuple_SetItem(tuple, i, size) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject* allocate_by_numpy(DLDataType type, int rank, const int64_t* shape) {
  if (numpy_empty == NULL) {
    PyObject* numpy = PyImport_ImportModule("numpy");
    if (numpy != NULL) numpy_empty = PyObject_GetAttrString(numpy, "empty");
    Py_XDECREF(numpy);
    if (numpy_empty == NULL) return NULL;
  }
  PyObject* dtype = numpy_dtype(type);
  PyObject* sizes = dtype == NULL ? NULL : shape_tuple(rank, shape);
  PyObject* object = sizes == NULL ? NULL : PyObject_CallFunctionObjArgs(numpy_empty, sizes, dtype, NULL);
  Py_XDECREF(sizes);
  return object;
}

/* ------ of PyTorch: by its own functions, not the exchange API's, whose tensors have a storage that record_stream() is
 * silent about and that cannot be resized, as activation offloading and sharding do. */

/* Whether an array of this type and shape is one like `t`: so much alike that strides agree, too. */
static int is_like(const DLTensor* t, DLDataType type, int rank, const int64_t* shape) {
  if (t->ndim != rank || t->dtype.code != type.code || t->dtype.bits != type.bits) return 0;
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (t->shape[i] != shape[i] || (t->strides != NULL && t->strides[i] != stride)) return 0;
    stride *= shape[i];
  }
  return 1;
}

/* An array without memory, which says what others are to be like: kept for the shapes asked for last, an lse's most of
 * all. */
typedef struct {
  AmManaged managed;
  int64_t shape[AM_MAX_RANK];
} Described;
static void free_described(AmManaged* managed) { free(managed); }

/* New reference. */
static PyObject* describe(const AmView* like, DLDataType type, int rank, const int64_t* shape) {
  enum { kKept = 8 };
  static struct {
    const AmExchange* exchange;
    DLTensor tensor;
    int64_t shape[AM_MAX_RANK];
    PyObject* object;
  } kept[kKept];
  static int oldest;
  const DLDevice device = like->tensor.device;
  for (int i = 0; i < kKept; ++i) {
    if (kept[i].object != NULL && kept[i].exchange == like->framework.exchange &&
        kept[i].tensor.device.device_type == device.device_type &&
        kept[i].tensor.device.device_id == device.device_id && is_like(&kept[i].tensor, type, rank, shape))
      return Py_NewRef(kept[i].object);
  }
  Described* described = calloc(1, sizeof *described);
  if (described == NULL) return PyErr_NoMemory();
  described->managed.version.major = 1;
  described->managed.deleter = free_described;
  DLTensor* t = &described->managed.tensor;
  t->device = device;
  t->dtype = type;
  t->ndim = rank;
  t->shape = described->shape;
  for (int i = 0; i < rank; ++i) described->shape[i] = shape[i];
  const DLTensor tensor = *t;
  void* object = NULL;
  if (like->framework.exchange->object_from_managed(&described->managed, &object) != 0) {
    free(described);
    return NULL;
  }
  PyObject* before = kept[oldest].object;
  kept[oldest].exchange = like->framework.exchange;
  kept[oldest].tensor = tensor;
  kept[oldest].tensor.shape = kept[oldest].shape;
  for (int i = 0; i < rank; ++i) kept[oldest].shape[i] = shape[i];
  kept[oldest].object = Py_NewRef((PyObject*)object);
  oldest = (oldest + 1) % kKept;
  Py_XDECREF(before); /* last: PyTorch lets other threads in here */
  return object;
}

/* PyTorch's errors about memory are RuntimeErrors. */
static void name_memory_error(void) {
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* text = value == NULL ? NULL : PyObject_Str(value);
  const char* said = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
  PyErr_Clear(); /* of a text that is none */
  if (said == NULL || strstr(said, "memory") == NULL) {
    PyErr_Restore(type, value, traceback);
  } else {
    PyErr_SetString(PyExc_MemoryError, said);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
  Py_XDECREF(text);
}

static PyObject* allocate_by_torch(const AmView* like, PyObject* like_object, DLDataType type, int rank,
                                   const int64_t* shape) {
  PyObject* described =
      is_like(&like->tensor, type, rank, shape) ? Py_NewRef(like_object) : describe(like, type, rank, shape);
  PyObject* object =
      described == NULL ? NULL : PyObject_CallFunctionObjArgs(like->framework.empty_like, described, NULL);
  Py_XDECREF(described);
  if (object == NULL) name_memory_error();
  return object;
}

static PyObject* allocate_by_library(PyObject* like, DLDataType type, int rank, const int64_t* shape) {
  PyObject* library = library_of(like);
  PyObject* empty = library == NULL ? NULL : PyObject_GetAttrString(library, "empty");
  PyObject* dtype = empty == NULL ? NULL : PyObject_GetAttrString(library, dtype_name(type));
  PyObject* sizes = dtype == NULL ? NULL : shape_tuple(rank, shape);
  PyObject* object = sizes == NULL ? NULL : PyObject_CallFunctionObjArgs(empty, sizes, dtype, NULL);
  Py_XDECREF(sizes);
  Py_XDECREF(dtype);
  Py_XDECREF(empty);
  Py_XDECREF(library);
  return object;
}

PyObject* am_allocate(const AmView* like, PyObject* like_object, DLDataType type, int rank, const int64_t* shape,
                      AmView* view) {
  PyObject* object = NULL;
  if (like->framework.empty_like != NULL) {
    object = allocate_by_torch(like, like_object, type, rank, shape);
  } else if (like->framework.protocol == AM_EXCHANGE) {
    DLTensor prototype = like->tensor;
    prototype.dtype = type;
    prototype.ndim = rank;
    prototype.shape = (int64_t*)shape;
    prototype.strides = NULL;
    return allocate_by_exchange(like, &prototype, view);
  } else if (like->framework.protocol == AM_BUFFER) {
    object = allocate_by_numpy(type, rank, shape);
  } else {
    object = allocate_by_library(like_object, type, rank, shape);
  }
  if (object != NULL && am_view(object, "attention", "out", 1, view) != 0) Py_CLEAR(object);
  return object;
}

int am_stream(const AmView* view, PyObject* object, void** stream) {
  *stream = NULL;
  const DLDeviceType kind = view->tensor.device.device_type;
  if (kind != kDLCUDA) return 0;
  if (view->framework.protocol == AM_EXCHANGE)
    return view->framework.exchange->current_stream(kind, view->tensor.device.device_id, stream);
  /* library.cuda.get_current_stream().ptr, as CuPy has it; the legacy default stream, 1, where there is none. */
  *stream = (void*)1;
  PyObject* library = library_of(object);
  PyObject* cuda = library == NULL ? NULL : PyObject_GetAttrString(library, "cuda");
  PyObject* current = cuda == NULL ? NULL : PyObject_CallMethod(cuda, "get_current_stream", NULL);
  PyObject* pointer = current == NULL ? NULL : PyObject_GetAttrString(current, "ptr");
  if (pointer != NULL) *stream = PyLong_AsVoidPtr(pointer);
  Py_XDECREF(pointer);
  Py_XDECREF(current);
  Py_XDECREF(cuda);
  Py_XDECREF(library);
  PyErr_Clear();
  return 0;
}
