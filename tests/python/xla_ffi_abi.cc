// The layouts of python/src/xla_ffi.h against those of the installed jaxlib: compiled by test_jax.py, never run.
#include <xla/ffi/api/c_api.h>

#include <type_traits>

#include "xla_ffi.h"

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, field, theirs, their_field)                      \
  static_assert(offsetof(ours, field) == offsetof(theirs, their_field) && \
                sizeof(std::declval<ours>().field) == sizeof(std::declval<theirs>().their_field))
#define SAME_VALUE(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))

// The handler's own call, and what metadata is asked with.
SAME_FIELD(AmXlaExtension, struct_size, XLA_FFI_Extension_Base, struct_size);
SAME_FIELD(AmXlaExtension, type, XLA_FFI_Extension_Base, type);
SAME_FIELD(AmXlaExtension, next, XLA_FFI_Extension_Base, next);
SAME_SIZE(AmXlaExtension, XLA_FFI_Extension_Base);
SAME_VALUE(AM_XLA_EXTENSION_METADATA, XLA_FFI_Extension_Metadata);

SAME_FIELD(AmXlaVersion, struct_size, XLA_FFI_Api_Version, struct_size);
SAME_FIELD(AmXlaVersion, extensions, XLA_FFI_Api_Version, extension_start);
SAME_FIELD(AmXlaVersion, major_version, XLA_FFI_Api_Version, major_version);
SAME_FIELD(AmXlaVersion, minor_version, XLA_FFI_Api_Version, minor_version);
SAME_SIZE(AmXlaVersion, XLA_FFI_Api_Version);
SAME_VALUE(AM_XLA_MAJOR, XLA_FFI_API_MAJOR);
static_assert(int{AM_XLA_MINOR} <= XLA_FFI_API_MINOR);

SAME_FIELD(AmXlaMetadata, struct_size, XLA_FFI_Metadata, struct_size);
SAME_FIELD(AmXlaMetadata, version, XLA_FFI_Metadata, api_version);
SAME_FIELD(AmXlaMetadata, traits, XLA_FFI_Metadata, traits);
SAME_FIELD(AmXlaMetadataExtension, base, XLA_FFI_Metadata_Extension, extension_base);
SAME_FIELD(AmXlaMetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);

SAME_FIELD(AmXlaFrame, struct_size, XLA_FFI_CallFrame, struct_size);
SAME_FIELD(AmXlaFrame, extensions, XLA_FFI_CallFrame, extension_start);
SAME_FIELD(AmXlaFrame, api, XLA_FFI_CallFrame, api);
SAME_FIELD(AmXlaFrame, context, XLA_FFI_CallFrame, ctx);
SAME_FIELD(AmXlaFrame, stage, XLA_FFI_CallFrame, stage);
SAME_FIELD(AmXlaFrame, operands, XLA_FFI_CallFrame, args);
SAME_FIELD(AmXlaFrame, results, XLA_FFI_CallFrame, rets);
SAME_FIELD(AmXlaFrame, attributes, XLA_FFI_CallFrame, attrs);
static_assert(sizeof(AmXlaFrame) <= static_cast<int>(XLA_FFI_CallFrame_STRUCT_SIZE));
SAME_VALUE(AM_XLA_EXECUTE, XLA_FFI_ExecutionStage_EXECUTE);
static_assert(std::is_pointer_v<decltype(XLA_FFI_Handler_Bundle::execute)>);

// Operands, results, attributes.
SAME_FIELD(AmXlaBuffer, type, XLA_FFI_Buffer, dtype);
SAME_FIELD(AmXlaBuffer, data, XLA_FFI_Buffer, data);
SAME_FIELD(AmXlaBuffer, rank, XLA_FFI_Buffer, rank);
SAME_FIELD(AmXlaBuffer, shape, XLA_FFI_Buffer, dims);
SAME_SIZE(AmXlaBuffer, XLA_FFI_Buffer);

SAME_FIELD(AmXlaList, size, XLA_FFI_Args, size);
SAME_FIELD(AmXlaList, kinds, XLA_FFI_Args, types);
SAME_FIELD(AmXlaList, values, XLA_FFI_Args, args);
SAME_SIZE(AmXlaList, XLA_FFI_Args);
SAME_FIELD(AmXlaList, size, XLA_FFI_Rets, size);
SAME_FIELD(AmXlaList, kinds, XLA_FFI_Rets, types);
SAME_FIELD(AmXlaList, values, XLA_FFI_Rets, rets);
SAME_SIZE(AmXlaList, XLA_FFI_Rets);
static_assert(sizeof(*AmXlaList::kinds) == sizeof(*XLA_FFI_Args::types));
static_assert(sizeof(*AmXlaList::kinds) == sizeof(*XLA_FFI_Rets::types));
SAME_VALUE(AM_XLA_BUFFER, XLA_FFI_ArgType_BUFFER);
SAME_VALUE(AM_XLA_BUFFER, XLA_FFI_RetType_BUFFER);

SAME_FIELD(AmXlaAttributes, size, XLA_FFI_Attrs, size);
SAME_FIELD(AmXlaAttributes, kinds, XLA_FFI_Attrs, types);
SAME_FIELD(AmXlaAttributes, names, XLA_FFI_Attrs, names);
SAME_FIELD(AmXlaAttributes, values, XLA_FFI_Attrs, attrs);
SAME_SIZE(AmXlaAttributes, XLA_FFI_Attrs);
static_assert(sizeof(*AmXlaAttributes::kinds) == sizeof(*XLA_FFI_Attrs::types));
SAME_VALUE(AM_XLA_ARRAY, XLA_FFI_AttrType_ARRAY);
SAME_VALUE(AM_XLA_DICTIONARY, XLA_FFI_AttrType_DICTIONARY);
SAME_VALUE(AM_XLA_SCALAR, XLA_FFI_AttrType_SCALAR);
SAME_VALUE(AM_XLA_STRING, XLA_FFI_AttrType_STRING);
SAME_FIELD(AmXlaSpan, data, XLA_FFI_ByteSpan, ptr);
SAME_FIELD(AmXlaSpan, size, XLA_FFI_ByteSpan, len);
SAME_FIELD(AmXlaScalar, type, XLA_FFI_Scalar, dtype);
SAME_FIELD(AmXlaScalar, value, XLA_FFI_Scalar, value);
SAME_FIELD(AmXlaArray, type, XLA_FFI_Array, dtype);
SAME_FIELD(AmXlaArray, size, XLA_FFI_Array, size);
SAME_FIELD(AmXlaArray, data, XLA_FFI_Array, data);

SAME_VALUE(AM_XLA_PRED, XLA_FFI_DataType_PRED);
SAME_VALUE(AM_XLA_S32, XLA_FFI_DataType_S32);
SAME_VALUE(AM_XLA_S64, XLA_FFI_DataType_S64);
SAME_VALUE(AM_XLA_U8, XLA_FFI_DataType_U8);
SAME_VALUE(AM_XLA_F16, XLA_FFI_DataType_F16);
SAME_VALUE(AM_XLA_F32, XLA_FFI_DataType_F32);
SAME_VALUE(AM_XLA_F64, XLA_FFI_DataType_F64);
SAME_VALUE(AM_XLA_BF16, XLA_FFI_DataType_BF16);

// XLA's functions.
SAME_FIELD(AmXlaErrorCreate, message, XLA_FFI_Error_Create_Args, message);
SAME_FIELD(AmXlaErrorCreate, code, XLA_FFI_Error_Create_Args, errc);
SAME_SIZE(AmXlaErrorCreate, XLA_FFI_Error_Create_Args);
SAME_VALUE(AM_XLA_INVALID_ARGUMENT, XLA_FFI_Error_Code_INVALID_ARGUMENT);
SAME_VALUE(AM_XLA_RESOURCE_EXHAUSTED, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
SAME_VALUE(AM_XLA_UNIMPLEMENTED, XLA_FFI_Error_Code_UNIMPLEMENTED);
SAME_VALUE(AM_XLA_INTERNAL, XLA_FFI_Error_Code_INTERNAL);

SAME_FIELD(AmXlaApi, struct_size, XLA_FFI_Api, struct_size);
SAME_FIELD(AmXlaApi, version, XLA_FFI_Api, api_version);
SAME_FIELD(AmXlaApi, error_create, XLA_FFI_Api, XLA_FFI_Error_Create);
