// A 128-bit digest of data, for plan caches and for finding equal planes. Well mixed, not cryptographic: 16 bytes a
// step, two products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/array.h"
#include "mask/mask.h"

namespace anymask {

class Hasher {
 public:
  void add(uint64_t value) { step(value, ++count_); }
  void add(const Digest& digest) { step(digest[0], digest[1]); }
  void add_words(const uint64_t* words, int64_t count);
  void add_bytes(const void* bytes, int64_t count);
  Digest finish() const;

 private:
  void step(uint64_t a, uint64_t b);
  uint64_t low_ = 0x9e3779b97f4a7c15, high_ = 0xd1b54a32d192ed03, count_ = 0;
};

// Of type, shape and elements, whatever the strides; int32 and int64 arrays of equal values give equal digests. An
// array on a device is its place: address, type and strides.
Digest array_digest(const Array& array);
void add_place(Hasher& hasher, const TensorView& view);

}  // namespace anymask
