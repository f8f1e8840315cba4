#include <anymask/anymask.hpp>

#include <cstdio>
#include <vector>

int main() {
  using namespace anymask;
  const std::vector<float> q(2 * 8, 1.0f), k(3 * 8, 0.0f), v = [] {
    std::vector<float> x(3 * 8);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i / 8);  // 0, 1, 2: the second row sees all, the first two of them
    return x;
  }();
  std::vector<float> out(2 * 8);
  attention_forward(Tensor(q, {1, 2, 1, 8}), Tensor(k, {1, 3, 1, 8}), Tensor(v, {1, 3, 1, 8}),
                    Tensor(out, {1, 2, 1, 8}), {}, {.mask = causal()});
  std::printf("out = %g, %g\n", out[0], out[8]);
  return out[0] == 0.5f && out[8] == 1.0f ? 0 : 1;
}
