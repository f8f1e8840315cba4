#include "api/overlap.h"

#include <algorithm>
#include <array>

#include "api/view.h"

namespace anymask {
namespace {

// sum_i step_i * n_i over 0 <= n_i <= count_i: every distance in bytes that index tuples can make.
struct Terms {
  struct Term {
    int64_t step, count;
  };
  std::array<Term, 2 * max_rank + 1> terms;
  size_t size = 0;
  // Equal steps are one term; larger steps stand first.
  void add(int64_t step, int64_t count) {
    if (step == 0 || count == 0) return;
    size_t at = 0;
    while (at < size && terms[at].step > step) ++at;
    if (at < size && terms[at].step == step) {
      terms[at].count += count;
      return;
    }
    for (size_t i = size++; i > at; --i) terms[i] = terms[i - 1];
    terms[at] = {step, count};
  }
};

// Whether the terms from `first` on can make `target`. Steps descend; `rest[i]` is the most that terms i.. can make.
// For nested steps (each at least about what the smaller ones make together) every term leaves two or three choices.
bool reachable(const Terms& t, const std::array<int64_t, 2 * max_rank + 2>& rest, size_t first, int64_t target,
               int& budget) {
  if (target == 0) return true;
  if (target < 0 || target > rest[first]) return false;
  if (--budget < 0) return true;  // too irregular: assume the worst
  const auto [step, count] = t.terms[first];
  const int64_t most = std::min(count, target / step);
  const int64_t short_of = target - rest[first + 1];
  const int64_t least = short_of <= 0 ? 0 : (short_of + step - 1) / step;
  for (int64_t n = least; n <= most; ++n)
    if (reachable(t, rest, first + 1, target - n * step, budget)) return true;
  return false;
}

}  // namespace

bool overlap(const TensorView& a, const TensorView& b) {
  const Span x = span_of(a), y = span_of(b);
  if (!meet(x, y)) return false;

  // a's bytes lie at x.begin + sum(...), b's at y.end - 1 - sum(...): they meet where all terms together make the
  // difference.
  Terms t;
  for (const TensorView* view : {&a, &b}) {
    const int64_t size = size_of(view->dtype);
    for (int i = 0; i < view->rank; ++i)
      t.add((view->stride[i] < 0 ? -view->stride[i] : view->stride[i]) * size, view->shape[i] - 1);
    t.add(1, size - 1);
  }
  std::array<int64_t, 2 * max_rank + 2> rest = {};
  for (size_t i = t.size; i-- > 0;) rest[i] = rest[i + 1] + t.terms[i].step * t.terms[i].count;
  int budget = 4096;
  return reachable(t, rest, 0, static_cast<int64_t>(y.end - 1 - x.begin), budget);
}

bool overlaps_itself(const TensorView& view) {
  if (view.numel() <= 1) return false;
  struct Dim {
    int64_t stride, size;
  };
  std::array<Dim, max_rank> dims;  // small strides first; std::sort of so few trips g++ 12's array-bounds warning
  size_t n = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] <= 1) continue;
    size_t at = n++;
    for (; at > 0 && dims[at - 1].stride > view.stride[i]; --at) dims[at] = dims[at - 1];
    dims[at] = {view.stride[i], view.shape[i]};
  }
  int64_t extent = 1;  // elements the smaller strides span
  for (size_t i = 0; i < n; ++i) {
    const auto [stride, size] = dims[i];
    if (stride < extent) return true;
    extent += stride * (size - 1);
  }
  return false;
}

}  // namespace anymask
