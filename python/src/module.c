/* anymask._anymask: the C interface of libanymask for Python, in the limited API of Python 3.11: one file for every
 * later Python. It takes arrays of any framework without copies, releases the interpreter's lock while it computes, and
 * turns statuses into exceptions. The package around it documents and types what users see.
 */
#include "module.h"

static int run(PyObject* module) {
  if (am_init_errors(module) != 0 || am_init_tensor() != 0 || am_init_memory(module) != 0 ||
      am_init_mask(module) != 0 || am_init_plan(module) != 0)
    return -1;
  if (PyModule_AddFunctions(module, am_mask_methods) != 0 || PyModule_AddFunctions(module, am_attention_methods) != 0 ||
      PyModule_AddFunctions(module, am_xla_methods) != 0 || PyModule_AddFunctions(module, am_plan_methods) != 0)
    return -1;
  return PyModule_AddStringConstant(module, "__version__", anymask_version());
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "anymask._anymask", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__anymask(void) {
  PyObject* module = PyModule_Create(&definition);
  if (module != NULL && run(module) != 0) Py_CLEAR(module);
  return module;
}
