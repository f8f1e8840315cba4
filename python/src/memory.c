/* Memory: bytes of a C object as a Python buffer, which keeps the object alive. */
#include "module.h"

typedef struct {
  PyObject_HEAD PyObject* owner;
  void* data;
  Py_ssize_t size;
  int writable;
} Memory;

static PyTypeObject* memory_type;

static int memory_buffer(PyObject* object, Py_buffer* view, int flags) {
  Memory* self = (Memory*)object;
  return PyBuffer_FillInfo(view, object, self->data, self->size, !self->writable, flags);
}

static void memory_free(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  Py_XDECREF(((Memory*)object)->owner);
  PyObject_Free(object);
  Py_DECREF(type);
}

PyObject* am_memory(PyObject* owner, void* data, Py_ssize_t size, int writable) {
  Memory* self = PyObject_New(Memory, memory_type);
  if (self == NULL) return NULL;
  self->owner = Py_NewRef(owner);
  self->data = data;
  self->size = size;
  self->writable = writable;
  return (PyObject*)self;
}

int am_init_memory(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_bf_getbuffer, memory_buffer},
      {Py_tp_dealloc, memory_free},
      {0, NULL},
  };
  static PyType_Spec spec = {"anymask._anymask.Memory", sizeof(Memory), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  memory_type = (PyTypeObject*)PyType_FromModuleAndSpec(module, &spec, NULL);
  return memory_type == NULL ? -1 : 0;
}
