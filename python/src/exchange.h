/* The parts of DLPack 1.3 that this module speaks, for headers that are older: managed tensors with a version, and the
 * table of C functions a framework hangs on its tensor type as `__dlpack_c_exchange_api__`. Layouts are DLPack's ABI.
 */
#ifndef ANYMASK_PYTHON_EXCHANGE_H_
#define ANYMASK_PYTHON_EXCHANGE_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

typedef struct {
  uint32_t major, minor;
} AmVersion;

typedef struct AmManaged {
  AmVersion version;
  void* manager;
  void (*deleter)(struct AmManaged* self);
  uint64_t flags; /* bit 0: read-only */
  DLTensor tensor;
} AmManaged;

typedef void (*AmSetError)(void* context, const char* kind, const char* message);

/* Functions return 0, or -1 with a Python error set (the allocator reports through `set_error`). */
typedef struct AmExchange {
  AmVersion version;
  struct AmExchange* previous; /* the table of an older major version, or NULL */
  int (*allocate)(DLTensor* prototype, AmManaged** out, void* context, AmSetError set_error);
  int (*managed_from_object)(void* object, AmManaged** out);
  int (*object_from_managed)(AmManaged* managed, void** out);
  int (*view_of_object)(void* object, DLTensor* out); /* borrowed; NULL where a framework has none */
  int (*current_stream)(DLDeviceType device_type, int32_t device_id, void** out);
} AmExchange;

#endif /* ANYMASK_PYTHON_EXCHANGE_H_ */
