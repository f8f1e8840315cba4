#include "cuda/launch/known_mask.h"

#include <array>
#include <utility>

namespace anymask {
namespace {

constexpr size_t most_masks = 8, most_bands = 4;  // of a thread, of a mask
// What is longer takes long to compare, and its call does not end within microseconds.
constexpr size_t most_sequences = 1024, most_instructions = 64;

bool worth_keeping(const MaskProgram& program, const AttentionProblem& problem) {
  return program.arrays.empty() && program.code.size() <= most_instructions &&
         problem.sequences.size() <= most_sequences;
}

AttentionProblem lengths_of(const AttentionProblem& problem) {
  AttentionProblem lengths;
  lengths.h_q = problem.h_q;
  lengths.h_kv = problem.h_kv;
  lengths.d_qk = problem.d_qk;
  lengths.d_v = problem.d_v;
  lengths.sequences = problem.sequences;
  lengths.packed = problem.packed;
  lengths.max_s_q = problem.max_s_q;
  lengths.max_s_kv = problem.max_s_kv;
  return lengths;
}

// The maxima follow from the sequences.
bool same_lengths(const AttentionProblem& a, const AttentionProblem& b) {
  return a.h_q == b.h_q && a.h_kv == b.h_kv && a.d_qk == b.d_qk && a.d_v == b.d_v && a.packed == b.packed &&
         a.sequences == b.sequences;
}

}  // namespace

KnownMask::KnownMask(BoundMask bound, const AttentionProblem& problem)
    : lengths_(lengths_of(problem)), bound_(std::move(bound)) {}

std::shared_ptr<KnownMask> KnownMask::of(const Mask& mask, const AttentionProblem& problem) {
  thread_local std::array<std::shared_ptr<KnownMask>, most_masks> kept;
  thread_local size_t oldest = 0;
  const MaskProgram& program = mask.program();
  const bool keep = worth_keeping(program, problem);
  if (keep) {
    for (const std::shared_ptr<KnownMask>& known : kept) {
      if (known && known->program_.code == program.code && known->program_.ints == program.ints &&
          same_lengths(known->lengths_, problem))
        return known;
    }
  }
  auto made = std::make_shared<KnownMask>(
      anymask::bind(mask, problem.sequences, problem.h_q, problem.h_kv, problem.device), problem);
  if (keep) {
    made->program_ = program;
    kept[oldest] = made;
    oldest = (oldest + 1) % most_masks;
  }
  return made;
}

std::shared_ptr<const BandSource> KnownMask::band(const PlanShape& shape, bool reads) {
  for (const Made& made : bands_)
    if (made.shape == shape && made.reads == reads) return made.band;
  auto band = std::make_shared<const BandSource>(bound_, lengths_, shape, reads);
  if (bands_.size() == most_bands) bands_.clear();
  bands_.push_back({shape, reads, band});
  return band;
}

}  // namespace anymask
