// Fuzzes the .npy reader: any bytes give a tensor whose every element can be read, or a UsageError.
#include <cstddef>
#include <cstdint>

#include "cli/args.h"
#include "cli/io/npy.h"
#include "fuzz/read_all.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  anymask::cli::Bytes bytes;
  bytes.data = data;
  bytes.size = static_cast<int64_t>(size);
  try {
    anymask::fuzz::read_all(anymask::cli::parse_npy(bytes, "fuzzed"));
  } catch (const anymask::cli::UsageError&) {
  }
  return 0;
}
