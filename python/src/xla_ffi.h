/* The parts of XLA's foreign function interface that this module speaks, so that it builds without JAX and serves every
 * JAX from 0.5 on. Layouts are XLA's C ABI (xla/ffi/api/c_api.h, version 0.1 and what later versions append); a test
 * compiles this file against the header of the installed jaxlib and compares sizes, offsets and values.
 *
 * Structs that cross the boundary begin with their size as the caller knows it: a field is there when the size covers
 * it.
 */
#ifndef ANYMASK_PYTHON_XLA_FFI_H_
#define ANYMASK_PYTHON_XLA_FFI_H_

#include <stddef.h>
#include <stdint.h>

/* A handler built for an older minor version runs in a later one; the earliest serves the most JAX versions. */
enum { AM_XLA_MAJOR = 0, AM_XLA_MINOR = 1 };

typedef enum { AM_XLA_EXTENSION_METADATA = 1 } AmXlaExtensionType;
typedef struct AmXlaExtension {
  size_t struct_size;
  AmXlaExtensionType type;
  struct AmXlaExtension* next;
} AmXlaExtension;

typedef struct {
  size_t struct_size;
  AmXlaExtension* extensions;
  int major_version, minor_version;
} AmXlaVersion;

/* What a handler is asked for when it is registered. */
typedef struct {
  size_t struct_size;
  AmXlaVersion version;
  uint32_t traits;
} AmXlaMetadata;
typedef struct {
  AmXlaExtension base;
  AmXlaMetadata* metadata;
} AmXlaMetadataExtension;

/* ---- values */
typedef enum {
  AM_XLA_PRED = 1,
  AM_XLA_S32 = 4,
  AM_XLA_S64 = 5,
  AM_XLA_U8 = 6,
  AM_XLA_F16 = 10,
  AM_XLA_F32 = 11,
  AM_XLA_F64 = 12,
  AM_XLA_BF16 = 16
} AmXlaType;

typedef struct { /* row-major */
  size_t struct_size;
  AmXlaExtension* extensions;
  AmXlaType type;
  void* data;
  int64_t rank;
  int64_t* shape;
} AmXlaBuffer;

typedef struct { /* operands and results alike */
  size_t struct_size;
  AmXlaExtension* extensions;
  int64_t size;
  const int* kinds; /* AM_XLA_BUFFER */
  void** values;
} AmXlaList;
enum { AM_XLA_BUFFER = 1 };

typedef enum { AM_XLA_ARRAY = 1, AM_XLA_DICTIONARY = 2, AM_XLA_SCALAR = 3, AM_XLA_STRING = 4 } AmXlaAttributeKind;
typedef struct {
  const char* data;
  size_t size;
} AmXlaSpan;
typedef struct {
  AmXlaType type;
  void* value;
} AmXlaScalar;
typedef struct {
  AmXlaType type;
  size_t size;
  void* data;
} AmXlaArray;
typedef struct {
  size_t struct_size;
  AmXlaExtension* extensions;
  int64_t size;
  const AmXlaAttributeKind* kinds;
  AmXlaSpan** names;
  void** values;
} AmXlaAttributes;

/* ---- errors: NULL is none; XLA destroys the one that a handler returns */
typedef struct AmXlaError AmXlaError;
typedef struct AmXlaContext AmXlaContext;
typedef enum {
  AM_XLA_INVALID_ARGUMENT = 3,
  AM_XLA_RESOURCE_EXHAUSTED = 8,
  AM_XLA_UNIMPLEMENTED = 12,
  AM_XLA_INTERNAL = 13
} AmXlaCode;

typedef struct {
  size_t struct_size;
  AmXlaExtension* extensions;
  const char* message; /* copied */
  AmXlaCode code;
} AmXlaErrorCreate;
typedef struct {
  size_t struct_size;
  AmXlaExtension* extensions;
  AmXlaVersion version;
  const void* internal;
  AmXlaError* (*error_create)(AmXlaErrorCreate* args);
  /* and functions of devices, which are not called */
} AmXlaApi;

/* ---- a call */
typedef enum { AM_XLA_EXECUTE = 3 } AmXlaStage;
typedef struct {
  size_t struct_size;
  AmXlaExtension* extensions;
  const AmXlaApi* api; /* may be NULL where metadata is asked for */
  AmXlaContext* context;
  AmXlaStage stage;
  AmXlaList operands, results;
  AmXlaAttributes attributes;
} AmXlaFrame;

typedef AmXlaError* AmXlaHandler(AmXlaFrame* frame);

#endif /* ANYMASK_PYTHON_XLA_FFI_H_ */
