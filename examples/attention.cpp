// Two uses of one call:
//
//   1. Speculative decoding. A tree of guessed tokens over a long context is checked in one pass: each node sees the
//   context and
//      its own ancestors. Checked against what it replaces: one causal call for each branch.
//   2. Training a prefix-LM. The prefix sees itself both ways, the rest is causal; gradients by attention_backward,
//   checked
//      against a difference quotient of the loss.
//
//   c++ -std=c++20 attention.cpp $(pkg-config --cflags --libs anymask) && ./a.out
#include <anymask/anymask.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace anymask;

namespace {

constexpr int64_t q_heads = 8, kv_heads = 2, dim = 64;

std::vector<float> random_values(int64_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& value : x) value = normal(rng);
  return x;
}

bool speculative_tree() {
  constexpr int64_t context = 1000;
  const std::vector<int64_t> parents = {-1, 0, 0, 1,
                                        1,  2, 3};  // node 6 continues 3, which continues 1, which continues 0
  const auto nodes = static_cast<int64_t>(parents.size()), s_kv = context + nodes;

  const std::vector<float> q = random_values(nodes * q_heads * dim, 1);
  const std::vector<float> k = random_values(s_kv * kv_heads * dim, 2), v = random_values(s_kv * kv_heads * dim, 3);
  std::vector<float> out(q.size());
  attention_forward(Tensor(q, {1, nodes, q_heads, dim}), Tensor(k, {1, s_kv, kv_heads, dim}),
                    Tensor(v, {1, s_kv, kv_heads, dim}), Tensor(out, {1, nodes, q_heads, dim}), {},
                    {.mask = tree(parents)});

  // Node by node: its query over a cache that holds the context and its branch alone.
  double largest = 0;
  constexpr int64_t row = kv_heads * dim;
  for (int64_t node = 0; node < nodes; ++node) {
    std::vector<int64_t> branch;
    for (int64_t n = node; n >= 0; n = parents[static_cast<size_t>(n)]) branch.insert(branch.begin(), n);
    std::vector<float> branch_k(k.begin(), k.begin() + context * row), branch_v(v.begin(), v.begin() + context * row);
    for (const int64_t n : branch) {
      branch_k.insert(branch_k.end(), k.begin() + (context + n) * row, k.begin() + (context + n + 1) * row);
      branch_v.insert(branch_v.end(), v.begin() + (context + n) * row, v.begin() + (context + n + 1) * row);
    }
    const auto keys = context + static_cast<int64_t>(branch.size());
    std::vector<float> one(static_cast<size_t>(q_heads * dim));
    attention_forward(Tensor(q.data() + node * q_heads * dim, {1, 1, q_heads, dim}),
                      Tensor(branch_k, {1, keys, kv_heads, dim}), Tensor(branch_v, {1, keys, kv_heads, dim}),
                      Tensor(one, {1, 1, q_heads, dim}), {}, {.mask = causal()});
    for (size_t i = 0; i < one.size(); ++i)
      largest = std::max(largest, std::fabs(double{one[i]} - double{out[static_cast<size_t>(node) * one.size() + i]}));
  }
  std::printf("speculative tree: %d nodes over %d tokens in one call; branch by branch differs by %.1e\n",
              static_cast<int>(nodes), static_cast<int>(context), largest);
  return largest < 1e-5;
}

bool prefix_language_model() {
  constexpr int64_t tokens = 96, prefix_tokens = 32;
  const Mask mask = causal() | prefix(prefix_tokens);
  std::vector<float> q = random_values(tokens * q_heads * dim, 4);
  const std::vector<float> k = random_values(tokens * kv_heads * dim, 5), v = random_values(tokens * kv_heads * dim, 6);
  const std::vector<float> dout =
      random_values(tokens * q_heads * dim, 7);  // the gradient that arrives from the layer above
  std::vector<float> out(q.size()), lse(q_heads * tokens), dq(q.size()), dk(k.size()), dv(v.size());
  const Tensor tq(q, {1, tokens, q_heads, dim}), tk(k, {1, tokens, kv_heads, dim}), tv(v, {1, tokens, kv_heads, dim});
  const Tensor tout(out, {1, tokens, q_heads, dim}), tlse(lse, {1, q_heads, tokens});

  attention_forward(tq, tk, tv, tout, tlse, {.mask = mask});
  attention_backward(Tensor(dout, {1, tokens, q_heads, dim}), tq, tk, tv, tout, tlse,
                     Tensor(dq, {1, tokens, q_heads, dim}), Tensor(dk, {1, tokens, kv_heads, dim}),
                     Tensor(dv, {1, tokens, kv_heads, dim}), {.mask = mask});

  // Move q along a direction: the loss sum(dout * out) must change by sum(dq * direction).
  const std::vector<float> direction = random_values(tokens * q_heads * dim, 8);
  const auto loss_at = [&](float step) {
    for (size_t i = 0; i < q.size(); ++i) q[i] += step * direction[i];
    attention_forward(tq, tk, tv, tout, {}, {.mask = mask});
    for (size_t i = 0; i < q.size(); ++i) q[i] -= step * direction[i];
    double loss = 0;
    for (size_t i = 0; i < out.size(); ++i) loss += double{dout[i]} * double{out[i]};
    return loss;
  };
  constexpr float step = 1e-2f;
  const double quotient = (loss_at(step) - loss_at(-step)) / (2 * double{step});
  double predicted = 0;
  for (size_t i = 0; i < q.size(); ++i) predicted += double{dq[i]} * double{direction[i]};
  std::printf("prefix-LM: %s keeps %.1f%%; the loss changes by %.4f a step, the gradient says %.4f\n",
              mask.str().c_str(), 100 * mask.density({.s_q = tokens, .s_kv = tokens}), quotient, predicted);
  return std::fabs(quotient - predicted) < 1e-2 * std::fabs(predicted);
}

}  // namespace

int main() try {
  const bool tree_is_right = speculative_tree();
  const bool gradient_is_right = prefix_language_model();
  return tree_is_right && gradient_is_right ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
