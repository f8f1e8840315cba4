// .safetensors: eight bytes of header length, a JSON header, the elements of all tensors one after the other.
#pragma once

#include <string>
#include <vector>

#include "cli/io/file.h"
#include "cli/io/tensor.h"

namespace anymask::cli {

struct SafetensorsFile {
  std::vector<Tensor> tensors;  // in the order of their data; types of no ElementType are in `unusable`
  struct Unusable {
    std::string name, dtype;
  };
  std::vector<Unusable> unusable;

  // Null when there is no such tensor; throws UsageError when its type is unusable.
  const Tensor* find(const std::string& name, const std::string& what) const;
};

// Throws UsageError when header and data disagree: lengths, offsets that overlap or leave holes, names given twice.
// Tensors share `bytes.owner`, or are copied where the file does not align them.
SafetensorsFile parse_safetensors(const Bytes& bytes, const std::string& what);
SafetensorsFile read_safetensors(const std::string& path, const std::string& what);
void write_safetensors(OutputFiles& files, int index, const std::vector<Tensor>& tensors);

}  // namespace anymask::cli
