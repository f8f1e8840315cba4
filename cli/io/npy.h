// .npy, versions 1 to 3: a header (a Python dictionary) and the elements. Read without copying where the file's layout
// allows.
//
// NumPy has no bfloat16: it saves such arrays (of ml_dtypes) as "V2", raw pairs of bytes, read here as uint16. Writing
// widens bfloat16 to float32.
#pragma once

#include <string>

#include "cli/io/file.h"
#include "cli/io/tensor.h"

namespace anymask::cli {

// Throws UsageError when the bytes are no .npy file, when header and size disagree, or when the type is none of
// ElementType. Fortran order is copied into C order. The tensor shares `bytes.owner`.
Tensor parse_npy(const Bytes& bytes, const std::string& what);
Tensor read_npy(const std::string& path, const std::string& name);
void write_npy(OutputFiles& files, int index, const Tensor& tensor);

}  // namespace anymask::cli
