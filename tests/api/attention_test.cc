// The calls that compute, through both public headers: against the reference, in every form of input and output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anymask/anymask.hpp>

#include <cmath>
#include <limits>
#include <random>

#include "world.h"

namespace {

using namespace anymask;
using anymask_test::Buffer;
using anymask_test::World;
using testing::HasSubstr;

std::vector<float> random_floats(size_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& value : x) value = normal(rng);
  return x;
}

double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::isnan(a[i]) ? 1e9 : std::fabs(double{a[i]} - b[i]));
  return largest;
}

TEST(Attention, CppEqualsTheReferenceInDouble) {
  constexpr int64_t b = 2, s = 40, h_q = 4, h_kv = 2, d = 16;
  const auto q = random_floats(b * s * h_q * d, 1), k = random_floats(b * s * h_kv * d, 2),
             v = random_floats(b * s * h_kv * d, 3);
  const auto dout = random_floats(q.size(), 4), bias = random_floats(h_q * s * s, 5),
             dlse = random_floats(b * h_q * s, 6);
  const Tensor tq(q, {b, s, h_q, d}), tk(k, {b, s, h_kv, d}), tv(v, {b, s, h_kv, d}), tdout(dout, {b, s, h_q, d});
  const Mask m = (causal() & documents({0, 7, s})) | keys(0, 2);

  std::vector<double> out(q.size()), lse(b * h_q * s), dq(q.size()), dk(k.size()), dv(v.size()), dbias(bias.size());
  Options options = {.mask = m,
                     .bias = Tensor(bias, {1, h_q, s, s}),
                     .softcap = 20,
                     .dlse = Tensor(dlse, {b, h_q, s}),
                     .dbias = Tensor(dbias, {1, h_q, s, s})};
  const Context reference = {.backend = "reference"};
  attention_forward(tq, tk, tv, Tensor(out, {b, s, h_q, d}), Tensor(lse, {b, h_q, s}), options, reference);
  attention_backward(tdout, tq, tk, tv, Tensor(out, {b, s, h_q, d}), Tensor(lse, {b, h_q, s}),
                     Tensor(dq, {b, s, h_q, d}), Tensor(dk, {b, s, h_kv, d}), Tensor(dv, {b, s, h_kv, d}), options,
                     reference);

  for (const char* backend : {"auto", "cpu", "naive"}) {
    std::vector<float> out_f(q.size(), NAN), lse_f(lse.size(), NAN), dq_f(q.size(), NAN), dk_f(k.size(), NAN),
        dv_f(v.size(), NAN), dbias_f(bias.size(), NAN);
    options.dbias = Tensor(dbias_f, {1, h_q, s, s});
    const Context context = {.backend = backend, .num_threads = 2};
    attention_forward(tq, tk, tv, Tensor(out_f, {b, s, h_q, d}), Tensor(lse_f, {b, h_q, s}), options, context);
    attention_backward(tdout, tq, tk, tv, Tensor(out_f, {b, s, h_q, d}), Tensor(lse_f, {b, h_q, s}),
                       Tensor(dq_f, {b, s, h_q, d}), Tensor(dk_f, {b, s, h_kv, d}), Tensor(dv_f, {b, s, h_kv, d}),
                       options, context);
    EXPECT_LT(largest_difference(out_f, out), 2e-6) << backend;
    EXPECT_LT(largest_difference(lse_f, lse), 4e-6) << backend;
    EXPECT_LT(largest_difference(dq_f, dq), 2e-5) << backend;
    EXPECT_LT(largest_difference(dk_f, dk), 2e-5) << backend;
    EXPECT_LT(largest_difference(dv_f, dv), 2e-5) << backend;
    EXPECT_LT(largest_difference(dbias_f, dbias), 2e-5) << backend;
  }
}

TEST(Attention, LseIsOptionalForward) {
  World a, c;
  c.lse.null = true;
  ASSERT_EQ(a.forward(), ANYMASK_OK) << anymask_last_error();
  ASSERT_EQ(c.forward(), ANYMASK_OK) << anymask_last_error();
  EXPECT_EQ(a.out.memory, c.out.memory);
}

TEST(Attention, NoOptionsMeansFull) {
  World w;
  std::vector<float> with(w.out.numel()), without(w.out.numel());
  w.out.dl.data = with.data();
  ASSERT_EQ(anymask_forward(w.q.get(), w.k.get(), w.v.get(), w.out.get(), nullptr, nullptr), ANYMASK_OK)
      << anymask_last_error();
  anymask_options options = {};
  options.struct_size = sizeof(options);
  const Mask all = full();
  options.mask = all.get();
  const double scale = 0.25;  // 1 / sqrt(16)
  options.softmax_scale = &scale;
  w.out.dl.data = without.data();
  ASSERT_EQ(anymask_forward(w.q.get(), w.k.get(), w.v.get(), w.out.get(), nullptr, &options), ANYMASK_OK)
      << anymask_last_error();
  EXPECT_EQ(with, without);
}

// q, k, v in one [b, s, 3, h, d] tensor, and their gradients in another.
TEST(Attention, InterleavedInputsAndOutputs) {
  constexpr int64_t b = 2, s = 9, h = 2, d = 8;
  const auto qkv = random_floats(b * s * 3 * h * d, 1), dout = random_floats(b * s * h * d, 2);
  std::vector<float> dqkv(qkv.size(), NAN), out(dout.size()), lse(b * h * s);
  const auto part = [&](const std::vector<float>& x, int64_t i) {
    return Tensor(x.data() + i * h * d, {b, s, h, d}, {s * 3 * h * d, 3 * h * d, d, 1});
  };
  const Options options = {.mask = causal()};
  const Tensor to(out, {b, s, h, d}), tl(lse, {b, h, s});
  attention_forward(part(qkv, 0), part(qkv, 1), part(qkv, 2), to, tl, options);
  attention_backward(Tensor(dout, {b, s, h, d}), part(qkv, 0), part(qkv, 1), part(qkv, 2), to, tl, part(dqkv, 0),
                     part(dqkv, 1), part(dqkv, 2), options);

  std::vector<float> q, k, v, dq(dout.size()), dk(dout.size()), dv(dout.size()), out2(dout.size());
  for (int64_t token = 0; token < b * s; ++token)
    for (int64_t i = 0; i < h * d; ++i) {
      q.push_back(qkv[static_cast<size_t>(token * 3 * h * d + i)]);
      k.push_back(qkv[static_cast<size_t>((token * 3 + 1) * h * d + i)]);
      v.push_back(qkv[static_cast<size_t>((token * 3 + 2) * h * d + i)]);
    }
  const auto plain = [&](const std::vector<float>& x) { return Tensor(x, {b, s, h, d}); };
  attention_forward(plain(q), plain(k), plain(v), plain(out2), tl, options);
  EXPECT_EQ(out, out2);
  attention_backward(Tensor(dout, {b, s, h, d}), plain(q), plain(k), plain(v), plain(out2), tl, plain(dq), plain(dk),
                     plain(dv), options);
  for (int64_t token = 0; token < b * s; ++token)
    for (int64_t i = 0; i < h * d; ++i) {
      EXPECT_EQ(dqkv[static_cast<size_t>(token * 3 * h * d + i)], dq[static_cast<size_t>(token * h * d + i)]);
      EXPECT_EQ(dqkv[static_cast<size_t>((token * 3 + 1) * h * d + i)], dk[static_cast<size_t>(token * h * d + i)]);
      EXPECT_EQ(dqkv[static_cast<size_t>((token * 3 + 2) * h * d + i)], dv[static_cast<size_t>(token * h * d + i)]);
    }
}

// Moves a buffer into memory whose axes lie in another order (`order[0]` outermost), with gaps of NaN between elements
// and rows, and the axis `reversed`, if any, running backward.
void rearrange(Buffer& x, const std::vector<size_t>& order, int64_t gap, int reversed = -1) {
  const std::vector<double> old = x.memory;
  const auto* from = reinterpret_cast<const float*>(old.data());
  const size_t rank = x.shape.size();
  x.strides.assign(rank, 0);
  int64_t stride = gap;
  for (size_t i = rank; i-- > 0;) {
    x.strides[order[i]] = stride;
    stride = stride * x.shape[order[i]] + 3;
  }
  x.memory.assign(static_cast<size_t>(stride), std::nan(""));
  for (int64_t i = 0; i < 2 * stride; ++i) x.f32()[i] = NAN;
  x.dl.data = x.memory.data();
  if (reversed >= 0) {
    const auto axis = static_cast<size_t>(reversed);
    x.dl.byte_offset = static_cast<uint64_t>((x.shape[axis] - 1) * x.strides[axis]) * sizeof(float);
    x.strides[axis] = -x.strides[axis];
  }
  auto* base = reinterpret_cast<float*>(static_cast<char*>(x.dl.data) + x.dl.byte_offset);
  for (int64_t n = 0; n < x.numel(); ++n) {
    int64_t at = 0, rest = n;
    for (size_t i = rank; i-- > 0; rest /= x.shape[i]) at += rest % x.shape[i] * x.strides[i];
    base[at] = from[n];
  }
}

std::vector<float> values(const Buffer& x) {
  const auto* base = reinterpret_cast<const float*>(static_cast<const char*>(x.dl.data) + x.dl.byte_offset);
  std::vector<float> all;
  for (int64_t n = 0; n < x.numel(); ++n) {
    int64_t at = x.strides.empty() ? n : 0, rest = n;
    for (size_t i = x.strides.size(); i-- > 0; rest /= x.shape[i]) at += rest % x.shape[i] * x.strides[i];
    all.push_back(base[at]);
  }
  return all;
}

TEST(Attention, EveryTensorMayBeStrided) {
  for (const char* backend : {"cpu", "naive", "reference"}) {
    for (const bool packed : {false, true}) {
      World plain(packed), strided(packed);
      for (Buffer* x : {&strided.q, &strided.v, &strided.out, &strided.dout, &strided.dq, &strided.dk, &strided.dv})
        rearrange(*x, packed ? std::vector<size_t>{1, 0, 2} : std::vector<size_t>{2, 0, 1, 3}, 1);
      rearrange(strided.k, packed ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{1, 2, 0, 3}, 1, packed ? 0 : 1);
      for (Buffer* x : {&strided.lse, &strided.dlse})
        rearrange(*x, packed ? std::vector<size_t>{1, 0} : std::vector<size_t>{2, 0, 1}, 2);
      for (Buffer* x : {&strided.bias, &strided.dbias}) rearrange(*x, {3, 1, 0, 2}, 2);
      rearrange(strided.alibi, {1, 0}, 1);
      for (Buffer* x : {&strided.sinks, &strided.dsinks}) rearrange(*x, {0}, 3);
      for (World* w : {&plain, &strided}) {
        w->options.backend = backend;
        ASSERT_EQ(w->forward(), ANYMASK_OK) << backend << ": " << anymask_last_error();
        ASSERT_EQ(w->backward(), ANYMASK_OK) << backend << ": " << anymask_last_error();
      }
      EXPECT_EQ(values(plain.out), values(strided.out)) << backend;
      EXPECT_EQ(values(plain.lse), values(strided.lse)) << backend;
      EXPECT_EQ(values(plain.dq), values(strided.dq)) << backend;
      EXPECT_EQ(values(plain.dk), values(strided.dk)) << backend;
      EXPECT_EQ(values(plain.dv), values(strided.dv)) << backend;
      EXPECT_EQ(values(plain.dbias), values(strided.dbias)) << backend;
      EXPECT_EQ(values(plain.dsinks), values(strided.dsinks)) << backend;
    }
  }
}

TEST(Attention, BiasOfRankTwoSpreadsOverBatchAndHeads) {
  World two, four;
  const auto bias = random_floats(World::s_q * World::s_kv, 9);
  for (World* w : {&two, &four}) w->bias.dl.data = const_cast<float*>(bias.data());
  two.bias.shape = {World::s_q, World::s_kv};
  four.bias.shape = {1, 1, World::s_q, World::s_kv};
  two.dbias.make({World::s_q, World::s_kv});
  four.dbias.make({1, 1, World::s_q, World::s_kv});
  for (World* w : {&two, &four}) {
    ASSERT_EQ(w->forward(), ANYMASK_OK) << anymask_last_error();
    ASSERT_EQ(w->backward(), ANYMASK_OK) << anymask_last_error();
  }
  EXPECT_EQ(two.out.memory, four.out.memory);
  EXPECT_EQ(two.dbias.memory, four.dbias.memory);
}

TEST(Attention, EmptyCallsSucceed) {
  for (const char* backend : {"cpu", "reference", "naive"}) {
    for (int which = 0; which < 3; ++which) {
      World w;
      w.options.backend = backend;
      const int64_t b = which == 0 ? 0 : 2, s_q = which == 1 ? 0 : 4, s_kv = which == 2 ? 0 : 6;
      w.q.shape = w.dq.shape = {b, s_q, World::h_q, World::d_qk};
      w.k.shape = w.dk.shape = {b, s_kv, World::h_kv, World::d_qk};
      w.v.shape = w.dv.shape = {b, s_kv, World::h_kv, World::d_v};
      w.out.shape = w.dout.shape = {b, s_q, World::h_q, World::d_v};
      w.lse.shape = w.dlse.shape = {b, World::h_q, s_q};
      w.bias.shape = w.dbias.shape = {1, 1, 1, s_kv};
      w.alibi.null = true;
      for (Buffer* x : {&w.out, &w.lse, &w.dq, &w.dk, &w.dv, &w.dbias, &w.dsinks}) x->poison();
      ASSERT_EQ(w.forward(), ANYMASK_OK) << backend << which << anymask_last_error();
      ASSERT_EQ(w.backward(), ANYMASK_OK) << backend << which << anymask_last_error();
      for (Buffer* x : {&w.out, &w.dq, &w.dk, &w.dv, &w.dbias})
        for (int64_t i = 0; i < x->numel(); ++i) EXPECT_EQ(x->f32()[i], 0) << backend << which;
      for (int64_t i = 0; i < w.lse.numel(); ++i)
        EXPECT_EQ(w.lse.f32()[i], w.sinks.f32()[i / 4 % 8]) << backend;  // [b, h_q, s_q]
      for (int64_t i = 0; i < World::h_q; ++i) {
        if (which != 2) {
          EXPECT_EQ(w.dsinks.f32()[i], 0) << backend << which;
        }
      }
    }
  }
}

TEST(Attention, NewerOptionsWithZerosAreFine) {
  World w;
  struct Newer {
    anymask_options options;
    uint64_t unknown[4];
  } newer = {*w.read_options(), {}};
  newer.options.struct_size = sizeof(newer);
  EXPECT_EQ(anymask_forward(w.q.get(), w.k.get(), w.v.get(), w.out.get(), w.lse.get(), &newer.options), ANYMASK_OK)
      << anymask_last_error();
  newer.unknown[2] = 1;
  EXPECT_EQ(anymask_forward(w.q.get(), w.k.get(), w.v.get(), w.out.get(), w.lse.get(), &newer.options),
            ANYMASK_INVALID_ARGUMENT);
  EXPECT_THAT(anymask_last_error(), HasSubstr("does not know"));
}

TEST(Attention, HalfTypesThroughEveryBackend) {
  for (const DLDataType dtype : {anymask_test::kF16, anymask_test::kBF16}) {
    for (const char* backend : {"cpu", "naive", "reference"}) {
      World w;
      w.options.backend = backend;
      for (Buffer* x : {&w.q, &w.k, &w.v, &w.out, &w.dout, &w.dq, &w.dk, &w.dv}) {
        x->dl.dtype = dtype;
        auto* half = reinterpret_cast<uint16_t*>(x->memory.data());
        for (int64_t i = 0; i < x->numel(); ++i)
          half[i] = static_cast<uint16_t>(0x3c00 + i % 7);  // about 1 in either type
      }
      ASSERT_EQ(w.forward(), ANYMASK_OK) << backend << ": " << anymask_last_error();
      ASSERT_EQ(w.backward(), ANYMASK_OK) << backend << ": " << anymask_last_error();
      const auto* out = reinterpret_cast<const uint16_t*>(w.out.memory.data());
      for (int64_t i = 0; i < w.out.numel();
           ++i) {  // an average of numbers from 0x3c00 to 0x3c06, less the sink's share
        EXPECT_LE(out[i], 0x3c06) << backend;
        EXPECT_GE(out[i], 0x3000) << backend;
      }
    }
  }
}

TEST(Explain, SaysWhatWouldRun) {
  const Tensor q(static_cast<const float*>(nullptr), {1, 1024, 8, 64}),
      k(static_cast<const float*>(nullptr), {1, 1024, 2, 64});
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const std::string json = explain(q, k, k, {.mask = causal()}, {}, direction);
    for (const char* text :
         {R"("backend": "cpu")", R"("kernel": ")", R"("kept_share": 0.50048828125)", R"("tiles": {"full": )",
          R"("planned": false)", R"("plan_bytes": 0)", R"("facts": {)", R"({"backend": "cuda", "reason": ")"})
      EXPECT_THAT(json, HasSubstr(text));
    EXPECT_THAT(explain(q, k, k, {.mask = tree({-1, 0, 0})}, {}, direction), HasSubstr(R"("planned": true)"));
  }
  EXPECT_THAT(explain(q, k, k, {}, {.backend = "cuda"}), HasSubstr(R"("backend": null)"));
  EXPECT_THAT(explain(q, k, k, {}, {.backend = "reference"}), HasSubstr(R"("backend": "reference")"));
  EXPECT_EQ(workspace_bytes(q, k, k, {.mask = causal()}), 0u);
  EXPECT_THROW(explain(q, q, k), Error);
  EXPECT_EQ(anymask_explain(nullptr, nullptr, nullptr, nullptr, 0, nullptr), ANYMASK_INVALID_ARGUMENT);
  EXPECT_EQ(anymask_workspace_bytes(nullptr, nullptr, nullptr, nullptr, 0, nullptr), ANYMASK_INVALID_ARGUMENT);
}

TEST(TensorView, ChecksWhatItCan) {
  std::vector<float> x(10);
  EXPECT_THROW(Tensor(x, {2, 6}), Error);
  EXPECT_THROW(Tensor(x, {int64_t{1} << 40, int64_t{1} << 40}), Error);
  EXPECT_THROW(Tensor(x.data(), {2, 5}, {1}), Error);
  EXPECT_THROW(Tensor(x.data(), {1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_NO_THROW(Tensor(x, {2, 5}));
  EXPECT_FALSE(Tensor().defined());
  const DLTensor dl = Tensor(x, {2, 5}).dlpack();
  EXPECT_EQ(dl.ndim, 2);
  EXPECT_EQ(dl.strides, nullptr);
}

}  // namespace
