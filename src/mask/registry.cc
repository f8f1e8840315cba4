// The table of kinds, built once from kinds/list.h; per_batch and per_head stand behind them.
#include "mask/registry.h"

#include "mask/kind.h"
#include "mask/kinds/list.h"
#include "mask/nearest.h"

namespace anymask {

#define ANYMASK_DECLARE(name, Kind) KindRow name##_kind();
ANYMASK_KINDS(ANYMASK_DECLARE)
#undef ANYMASK_DECLARE

std::span<const KindRow> kind_rows() {
#define ANYMASK_ROW(name, Kind) name##_kind(),
  static const std::vector<KindRow> rows = {ANYMASK_KINDS(ANYMASK_ROW)};
#undef ANYMASK_ROW
  return rows;
}

const KindRow* find_row(Op op) {
  for (const KindRow& row : kind_rows()) {
    if (row.kind.op == op) return &row;
  }
  return nullptr;
}

namespace {

MaskKind choice(Op op, const char* name, const char* keeps, const char* summary, const char* example,
                Mask (*random)(std::mt19937_64&, const ExampleShape&)) {
  return {.op = op,
          .name = name,
          .arguments = {{"masks", ArgumentType::masks, true, "", "a list of masks in brackets"}},
          .keeps = keeps,
          .summary = summary,
          .example = example,
          .random = random};
}

// `count` simple masks, so that the choice differs between planes.
std::vector<Mask> some_leaves(std::mt19937_64& rng, const ExampleShape& shape, int64_t count) {
  std::vector<Mask> masks;
  const auto rows = kind_rows();
  for (int64_t i = 0; i < count; ++i) masks.push_back(rows[rng() % rows.size()].kind.random(rng, shape));
  return masks;
}

Mask random_per_batch(std::mt19937_64& rng, const ExampleShape& shape) {
  return shape.batch == 0 ? Mask() : Mask::per_batch(some_leaves(rng, shape, shape.batch));
}

Mask random_per_head(std::mt19937_64& rng, const ExampleShape& shape) {
  const int64_t heads[] = {1, shape.h_kv, shape.h_q};
  return Mask::per_head(some_leaves(rng, shape, heads[rng() % 3]));
}

}  // namespace

std::span<const MaskKind> mask_kinds() {
  static const std::vector<MaskKind> kinds = [] {
    std::vector<MaskKind> all;
    for (const KindRow& row : kind_rows()) all.push_back(row.kind);
    all.push_back(choice(Op::per_batch, "per_batch", "what the mask of the batch entry keeps; equal ones share a plane",
                         "its own mask for each batch entry, or each packed sequence", "per_batch([causal])",
                         random_per_batch));
    all.push_back(choice(Op::per_head, "per_head",
                         "what the mask of the head keeps; as many masks as heads: h_q, h_kv or 1",
                         "its own mask for each head", "per_head([window(4, 0)])", random_per_head));
    return all;
  }();
  return kinds;
}

const MaskKind* find_kind(std::string_view name) {
  for (const MaskKind& kind : mask_kinds()) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

std::string nearest_kind(std::string_view name) {
  std::vector<std::string> names;
  for (const MaskKind& kind : mask_kinds()) names.emplace_back(kind.name);
  return nearest_name(name, names);
}

}  // namespace anymask
