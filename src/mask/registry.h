// Every kind of mask, one row each. Grammar, the `masks` listing, random masks for tests and the docs come from here.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mask/mask.h"

namespace anymask {

enum class ArgumentType : uint8_t {
  integer,
  real,
  integers,  // integers: an inline list, an array, or one number where `scalar_too`
  array,     // by @name (or inline list where it is rank 1)
  align,     // "bottom_right" | "top_left"
  masks,     // a list of masks: per_batch, per_head
  mask,      // a mask, the leaf's operand; one a kind at most
};

struct ArgumentSpec {
  const char* name;
  ArgumentType type;
  bool required;
  const char* default_text;  // as written, "" when required or when the default is derived
  const char* doc;           // one line: meaning, shape, unit
  bool scalar_too = false;   // `integers` given as one number
};

// What a random example of a kind may assume.
struct ExampleShape {
  int64_t s_q, s_kv, batch, h_q, h_kv;
};

struct MaskKind {
  Op op;
  const char* name;
  std::vector<ArgumentSpec> arguments;
  const char* keeps;    // the rule, as in the documentation's table
  const char* summary;  // one line of what it is for
  const char* example;  // text of a small example at 16 positions that needs no @array where possible
  // A valid mask of this kind for that shape; full where no argument fits it (block_diffusion of an odd number of
  // keys).
  Mask (*random)(std::mt19937_64& rng, const ExampleShape& shape);
};

std::span<const MaskKind> mask_kinds();            // per_batch and per_head come last
const MaskKind* find_kind(std::string_view name);  // nullptr if unknown
std::string nearest_kind(std::string_view name);   // for "did you mean"

// A random expression over all kinds, valid for the shape, of at most `leaves` leaves. The same seed gives the same
// mask.
Mask random_mask(uint64_t seed, const ExampleShape& shape, int leaves);

}  // namespace anymask
