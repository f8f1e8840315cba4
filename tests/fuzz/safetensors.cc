// Fuzzes the .safetensors reader: any bytes give tensors whose every element can be read, or a UsageError.
#include <cstddef>
#include <cstdint>

#include "cli/args.h"
#include "cli/io/safetensors.h"
#include "fuzz/read_all.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  anymask::cli::Bytes bytes;
  bytes.data = data;
  bytes.size = static_cast<int64_t>(size);
  try {
    const anymask::cli::SafetensorsFile file = anymask::cli::parse_safetensors(bytes, "fuzzed");
    for (const anymask::cli::Tensor& tensor : file.tensors) anymask::fuzz::read_all(tensor);
    for (const auto& tensor : file.unusable) file.find(tensor.name, "fuzzed");
  } catch (const anymask::cli::UsageError&) {
  }
  return 0;
}
