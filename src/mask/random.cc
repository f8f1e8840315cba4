// Random expressions, for tests: every kind, every operator, valid for the shape they are made for.
#include "mask/build.h"

namespace anymask {

Mask random_mask(uint64_t seed, const ExampleShape& shape, int leaves) {
  std::mt19937_64 rng(seed * 0x9e3779b97f4a7c15 + 1);
  const auto kinds = kind_rows();
  // Joins two random members of a pool of leaves until one is left: trees of every form.
  std::vector<Mask> pool;
  const int count = leaves <= 1 ? 1 : 1 + static_cast<int>(rng() % static_cast<uint64_t>(leaves));
  for (int i = 0; i < count; ++i) pool.push_back(kinds[rng() % kinds.size()].kind.random(rng, shape));
  const auto take = [&] {
    std::swap(pool[rng() % pool.size()], pool.back());
    Mask mask = std::move(pool.back());
    pool.pop_back();
    return mask;
  };
  while (pool.size() > 1 || rng() % 4 == 0) {
    const Mask a = take();
    const uint64_t choice = rng() % 16;
    if (choice < 2 || pool.empty()) {
      pool.push_back(~a);
    } else if (choice < 4 && shape.batch > 0 && shape.batch <= static_cast<int64_t>(pool.size()) + 1) {
      std::vector<Mask> masks{a};
      while (static_cast<int64_t>(masks.size()) < shape.batch) masks.push_back(take());
      pool.push_back(Mask::per_batch(std::move(masks)));
    } else if (choice < 6) {
      const int64_t heads[] = {1, shape.h_kv, shape.h_q};
      const int64_t wanted = heads[rng() % 3];
      std::vector<Mask> masks{a};
      // Too few masks left: some heads share one.
      while (static_cast<int64_t>(masks.size()) < wanted)
        masks.push_back(pool.empty() ? masks[rng() % masks.size()] : take());
      pool.push_back(Mask::per_head(std::move(masks)));
    } else {
      const Mask b = take();
      pool.push_back(choice % 2 == 0 ? a & b : a | b);
    }
  }
  return pool[0];
}

}  // namespace anymask
