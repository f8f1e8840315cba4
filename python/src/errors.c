/* Statuses of the C interface as exceptions: ValueError, UnsupportedError, MemoryError, RuntimeError. */
#include "module.h"

PyObject* am_unsupported_error;

int am_init_errors(PyObject* module) {
  am_unsupported_error =
      PyErr_NewExceptionWithDoc("anymask.UnsupportedError",
                                "The arguments are right, but nothing here computes them; the text names the way out.",
                                PyExc_NotImplementedError, NULL);
  if (am_unsupported_error == NULL) return -1;
  return PyModule_AddObjectRef(module, "UnsupportedError", am_unsupported_error);
}

int am_check(anymask_status status) {
  PyObject* kind = PyExc_RuntimeError;
  switch (status) {
    case ANYMASK_OK:
      return 0;
    case ANYMASK_INVALID_ARGUMENT:
      kind = PyExc_ValueError;
      break;
    case ANYMASK_UNSUPPORTED:
      kind = am_unsupported_error;
      break;
    case ANYMASK_OUT_OF_MEMORY:
      kind = PyExc_MemoryError;
      break;
    case ANYMASK_INTERRUPTED: /* by the exception that a signal handler raised */
      if (PyErr_Occurred()) return -1;
      break;
    case ANYMASK_INTERNAL:
      break;
  }
  PyErr_SetString(kind, anymask_last_error());
  return -1;
}
