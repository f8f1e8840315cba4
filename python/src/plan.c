/* Plans: a handle, and its arrays as buffers that keep it alive. */
#include <string.h>

#include "module.h"

typedef struct {
  PyObject_HEAD anymask_plan_t plan;
} PlanHandle;

static PyTypeObject* plan_type;

static void plan_free(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  anymask_plan_free(((PlanHandle*)object)->plan);
  PyObject_Free(object);
  Py_DECREF(type);
}

int am_init_plan(PyObject* module) {
  static PyType_Slot slots[] = {{Py_tp_dealloc, plan_free}, {0, NULL}};
  static PyType_Spec spec = {"anymask._anymask.PlanHandle", sizeof(PlanHandle), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  plan_type = (PyTypeObject*)PyType_FromModuleAndSpec(module, &spec, NULL);
  return plan_type == NULL ? -1 : 0;
}

static PyObject* memory(PyObject* owner, const void* data, int64_t count, size_t size) {
  static char nothing;
  return am_memory(owner, count > 0 ? (void*)data : &nothing, (Py_ssize_t)(count * (int64_t)size), 0);
}

/* plan(mask, lengths, tile_m, tile_n, transposed, split_cost) -> dictionary of numbers and buffers */
static PyObject* plan(PyObject* module, PyObject* args) {
  (void)module;
  PyObject *object, *tuple;
  anymask_mask_t mask;
  AmLengths lengths;
  anymask_plan_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  if (!PyArg_ParseTuple(args, "OOiipf", &object, &tuple, &options.tile_m, &options.tile_n, &options.transposed,
                        &options.split_cost) ||
      am_mask_of(object, "plan", &mask) != 0 || am_lengths(tuple, "plan", &lengths) != 0)
    return NULL;
  anymask_plan_t made = NULL;
  anymask_status status;
  Py_BEGIN_ALLOW_THREADS status = anymask_plan_create(mask, &lengths.c, &options, &made);
  Py_END_ALLOW_THREADS const int failed = am_check(status);
  am_lengths_release(&lengths);
  if (failed) return NULL;
  PlanHandle* handle = PyObject_New(PlanHandle, plan_type);
  if (handle == NULL) {
    anymask_plan_free(made);
    return NULL;
  }
  handle->plan = made;
  anymask_plan_view v;
  memset(&v, 0, sizeof v);
  v.struct_size = sizeof v;
  PyObject* owner = (PyObject*)handle;
  PyObject* result = NULL;
  if (am_check(anymask_plan_get(made, &v)) == 0)
    result =
        Py_BuildValue("{sisisNsLsLsLsLsLsLsLsNsNsNsNsNsN}", "tile_m", v.tile_m, "tile_n", v.tile_n, "transposed",
                      PyBool_FromLong(v.transposed), "num_sequences", (long long)v.num_sequences, "heads",
                      (long long)v.heads, "kept_pairs", (long long)v.kept_pairs, "pairs", (long long)v.pairs,
                      "full_tiles", (long long)v.full_tiles, "partial_tiles", (long long)v.partial_tiles, "empty_tiles",
                      (long long)v.empty_tiles, "planes", memory(owner, v.planes, v.num_planes, sizeof *v.planes),
                      "plane_of", memory(owner, v.plane_of, v.num_sequences * v.heads, sizeof *v.plane_of), "row_begin",
                      memory(owner, v.row_begin, v.num_rows + 1, sizeof *v.row_begin), "runs",
                      memory(owner, v.runs, v.num_runs, sizeof *v.runs), "bit_tiles",
                      memory(owner, v.bit_tiles, v.num_bit_tiles * v.tile_m * (v.tile_n / 64), sizeof *v.bit_tiles),
                      "work", memory(owner, v.work, v.num_work, sizeof *v.work));
  if (result != NULL) {
    PyObject* bytes = PyLong_FromLongLong(v.bytes);
    if (bytes == NULL || PyDict_SetItemString(result, "bytes", bytes) != 0) Py_CLEAR(result);
    Py_XDECREF(bytes);
  }
  Py_DECREF(owner);
  return result;
}

static PyObject* cache_stats(PyObject* module, PyObject* none) {
  (void)module;
  (void)none;
  const anymask_cache_stats s = anymask_plan_cache_stats();
  return Py_BuildValue("{sLsLsLsLsL}", "entries", (long long)s.entries, "bytes", (long long)s.bytes, "hits",
                       (long long)s.hits, "misses", (long long)s.misses, "limit_bytes", (long long)s.limit_bytes);
}

static PyObject* cache_limit(PyObject* module, PyObject* object) {
  (void)module;
  const long long bytes = PyLong_AsLongLong(object);
  if (bytes == -1 && PyErr_Occurred()) return NULL;
  anymask_plan_cache_limit(bytes);
  return Py_NewRef(Py_None);
}

PyMethodDef am_plan_methods[] = {
    {"plan", plan, METH_VARARGS, NULL},
    {"plan_cache_stats", cache_stats, METH_NOARGS, NULL},
    {"plan_cache_limit", cache_limit, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
