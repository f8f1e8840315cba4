// Calls whose selection is one for all rows, computed over gathered keys, against the reference on the host: shapes,
// bands beside the selection, packed sequences, options, gradients; graphs that select anew; what is handed over to the
// general path and why.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anymask/anymask.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "cuda/captured.h"

namespace {

using namespace anymask;
using testing::HasSubstr;

bool have_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void require(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

size_t bytes_of(DType type) { return type == DType::float64 ? 8 : type == DType::float32 ? 4 : 2; }

// Numbers on the host and on the device; results begin as NaN on both.
class Numbers {
 public:
  Numbers(DType type, std::vector<int64_t> shape) : type_(type), shape_(std::move(shape)) {
    size_t count = 1;
    for (const int64_t n : shape_) count *= static_cast<size_t>(n);
    host_.assign(count * bytes_of(type), 0xff);
    require(cudaMalloc(&there_, host_.size() + 256));
    poison();
  }
  ~Numbers() { cudaFree(there_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  void fill(std::mt19937& rng, float scale) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < count(); ++i) set(i, scale * normal(rng));
    upload();
  }
  void set(size_t i, float x) {
    const __half half = __float2half_rn(x);
    const __nv_bfloat16 brain = __float2bfloat16_rn(x);
    const void* const from = type_ == DType::float32   ? static_cast<const void*>(&x)
                             : type_ == DType::float16 ? static_cast<const void*>(&half)
                                                       : static_cast<const void*>(&brain);
    std::memcpy(&host_[i * bytes_of(type_)], from, bytes_of(type_));
  }
  void upload() { require(cudaMemcpy(there_, host_.data(), host_.size(), cudaMemcpyHostToDevice)); }
  void poison() const { require(cudaMemset(there_, 0xff, host_.size())); }
  size_t count() const { return host_.size() / bytes_of(type_); }
  std::vector<uint8_t> bytes_there() const {
    std::vector<uint8_t> read(host_.size());
    require(cudaMemcpy(read.data(), there_, read.size(), cudaMemcpyDeviceToHost));
    return read;
  }
  std::vector<double> values(bool there) const {
    const std::vector<uint8_t> bytes = there ? bytes_there() : host_;
    std::vector<double> out(count());
    for (size_t i = 0; i < out.size(); ++i) {
      const uint8_t* const at = &bytes[i * bytes_of(type_)];
      if (type_ == DType::float64) {
        std::memcpy(&out[i], at, 8);
      } else if (type_ == DType::float32) {
        float x;
        std::memcpy(&x, at, 4);
        out[i] = x;
      } else {
        __half half;
        __nv_bfloat16 brain;
        std::memcpy(static_cast<void*>(&half), at, 2);
        std::memcpy(static_cast<void*>(&brain), at, 2);
        out[i] = type_ == DType::float16 ? __half2float(half) : __bfloat162float(brain);
      }
    }
    return out;
  }
  Tensor view(bool there) const {
    return there ? Tensor(there_, type_, shape_, {}, {kDLCUDA, 0}) : Tensor(host_.data(), type_, shape_);
  }
  const std::vector<int64_t>& shape() const { return shape_; }

 private:
  DType type_;
  std::vector<int64_t> shape_;
  std::vector<uint8_t> host_;
  void* there_ = nullptr;
};

struct Case {
  DType type = DType::bfloat16, bias_type = DType::bfloat16;
  int64_t b = 2, s_q = 200, s_kv = 300, h_q = 4, h_kv = 2, d = 64, d_v = 64, window = 40;
  int64_t bias_b = 2, bias_h = 2;
  std::vector<int64_t> cu_q, cu_kv;  // packed: b of them
  const char* among = "";            // the candidates; @g is a boolean a key
  const char* rest = "";             // beside the selection
  bool adds = false, adds_other = false, sinks = false, deterministic = false;
  double softcap = 0;
};

// One call, on the device and on the host.
class Call {
 public:
  Call(const Case& c, uint32_t seed) : c_(c), rng_(seed) {
    const bool packed = !c.cu_q.empty();
    const int64_t rows = packed ? c.cu_q.back() : c.s_q, keys = packed ? c.cu_kv.back() : c.s_kv;
    const auto shape = [&](int64_t tokens, int64_t heads, int64_t dim) {
      return packed ? std::vector{tokens, heads, dim} : std::vector{c.b, tokens, heads, dim};
    };
    const auto add = [&](DType type, std::vector<int64_t> of) {
      return std::make_unique<Numbers>(type, std::move(of));
    };
    q = add(c.type, shape(rows, c.h_q, c.d)), k = add(c.type, shape(keys, c.h_kv, c.d));
    v = add(c.type, shape(keys, c.h_kv, c.d_v)), dout = add(c.type, shape(rows, c.h_q, c.d_v));
    const std::vector<int64_t> stat = packed ? std::vector{c.h_q, rows} : std::vector{c.b, c.h_q, rows};
    for (const DType type : {c.type, DType::float64}) {
      auto& to = type == c.type ? ours : exact;
      const DType wide = type == c.type ? DType::float32 : type;
      to.push_back(add(type, shape(rows, c.h_q, c.d_v))), to.push_back(add(wide, stat));
      to.push_back(add(type, shape(rows, c.h_q, c.d))), to.push_back(add(type, shape(keys, c.h_kv, c.d)));
      to.push_back(add(type, shape(keys, c.h_kv, c.d_v)));
      to.push_back(add(wide, {c.bias_b, c.bias_h, 1, c.s_kv}));
      to.push_back(add(wide, {c.h_q}));
    }
    bias = add(c.bias_type, {c.bias_b, c.bias_h, 1, c.s_kv});
    other = add(c.bias_type, {c.bias_b, c.bias_h, 1, c.s_kv});
    sinks = add(DType::float32, {c.h_q});
    renew();
  }

  void renew() {
    for (Numbers* one : {q.get(), k.get(), v.get(), dout.get(), other.get(), sinks.get()}) one->fill(rng_, 1);
    std::uniform_int_distribution<int> pick(0, 999);
    for (size_t i = 0; i < bias->count(); ++i) {
      const int x = pick(rng_);
      bias->set(i, x == 0 ? NAN : x == 1 ? -INFINITY : 0.25f * static_cast<float>(x % 40 - 20));  // ties everywhere
    }
    bias->upload();
  }

  Options options(bool there, bool exactly) {
    const std::string text = std::string("topk(@b, ") + std::to_string(c_.window) + c_.among + ")" + c_.rest;
    std::vector<Array> arrays{Array::borrow(bias->view(there)).named("b")};
    std::vector<uint8_t> given(static_cast<size_t>(c_.s_kv));
    for (size_t i = 0; i < given.size(); ++i) given[i] = i % 7 != 0 && i / 20 % 3 != 0;
    if (std::string_view(c_.among).find("@g") != std::string_view::npos)
      arrays.push_back(Array(Tensor(given.data(), DType::boolean, {1, c_.s_kv})).named("g"));
    const auto& results = exactly ? exact : ours;
    Options o{.mask = Mask::parse(text, arrays)};
    // NaN as an added bias is no number: only where nothing of it is kept, which the other one has none of.
    if (c_.adds) o.bias = bias->view(there);
    if (c_.adds_other) o.bias = other->view(there);
    if (c_.adds || c_.adds_other) o.dbias = results[5]->view(there);
    o.softcap = c_.softcap;
    if (c_.sinks) o.sinks = sinks->view(there), o.dsinks = results[6]->view(there);
    if (!c_.cu_q.empty()) {
      o.cu_seqlens_q = Tensor(c_.cu_q.data(), DType::int64, {static_cast<int64_t>(c_.cu_q.size())});
      o.cu_seqlens_kv = Tensor(c_.cu_kv.data(), DType::int64, {static_cast<int64_t>(c_.cu_kv.size())});
    }
    return o;
  }

  void run(const Options& o, const Context& context, bool there, bool exactly) {
    const auto& r = exactly ? exact : ours;
    attention_forward(q->view(there), k->view(there), v->view(there), r[0]->view(there), r[1]->view(there), o, context);
    attention_backward(dout->view(there), q->view(there), k->view(there), v->view(there), r[0]->view(there),
                       r[1]->view(there), r[2]->view(there), r[3]->view(there), r[4]->view(there), o, context);
  }

  size_t workspace(const Options& o, const Context& context) const {
    const auto bytes = [&](Direction direction) {
      return workspace_bytes(q->view(true), k->view(true), v->view(true), o, context, direction);
    };
    return std::max(bytes(Direction::forward), bytes(Direction::backward));
  }
  std::string explained(Direction direction) {
    return explain(q->view(true), k->view(true), v->view(true), options(true, false), {}, direction);
  }

  // Within twice the error of the naive computation in the same type, and a little.
  void compare() {
    run(options(false, true), {.backend = "reference"}, false, true);
    std::vector<std::vector<double>> found;
    for (const auto& one : ours) found.push_back(one->values(true));
    run(options(false, false), {.backend = "naive"}, false, false);
    const char* const names[] = {"out", "lse", "dq", "dk", "dv", "dbias", "dsinks"};
    for (size_t i = 0; i < ours.size(); ++i) {
      if ((i == 5 && !c_.adds && !c_.adds_other) || (i == 6 && !c_.sinks)) continue;
      const std::vector<double> want = exact[i]->values(false), naive = ours[i]->values(false);
      double worst = 0, bound = 0, largest = 0;
      for (size_t j = 0; j < want.size(); ++j) {
        if (std::isinf(want[j])) {
          ASSERT_EQ(found[i][j], want[j]) << names[i] << ' ' << j;
          continue;
        }
        ASSERT_TRUE(std::isfinite(found[i][j])) << names[i] << ' ' << j;
        worst = std::max(worst, std::abs(found[i][j] - want[j]));
        bound = std::max(bound, std::abs(naive[j] - want[j]));
        largest = std::max(largest, std::abs(want[j]));
      }
      const double unit = c_.type == DType::float16 ? 0x1p-11 : 0x1p-8;
      EXPECT_LE(worst, 2 * bound + 2 * unit * largest + 1e-5) << names[i] << " of at most " << largest;
      if (i == 0) {
        EXPECT_GT(largest, 0) << "nothing is kept";
      }
    }
  }

  std::unique_ptr<Numbers> q, k, v, dout, bias, other, sinks;
  std::vector<std::unique_ptr<Numbers>> ours, exact;  // out lse dq dk dv dbias dsinks

 private:
  const Case& c_;
  std::mt19937 rng_;
};

class Gathered : public testing::Test {
 protected:
  void SetUp() override {
    if (!have_device()) GTEST_SKIP() << "no CUDA device";
  }
  static std::vector<std::vector<uint8_t>> results(const Call& call) {
    std::vector<std::vector<uint8_t>> all;
    for (const auto& one : call.ours) all.push_back(one->bytes_there());
    return all;
  }
  static void replay(bool by_rows);
  // On the device, in poisoned memory.
  static void run(const Case& c, Call& call) {
    const Options o = call.options(true, false);
    Context context = {.deterministic = c.deterministic};
    const Numbers workspace(DType::bfloat16, {static_cast<int64_t>(call.workspace(o, context) / 2)});
    context.workspace = workspace.view(true).data();
    context.workspace_bytes = workspace.count() * 2;
    call.run(o, context, true, false);
    require(cudaDeviceSynchronize());
  }
};

TEST_F(Gathered, AgreesWithTheReference) {
  std::mt19937 rng(5);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
  const char* const rests[] = {"",
                               " & causal",
                               " & window(90, 30)",
                               " & documents([0, 77, 300])",
                               " & causal & keys(20, 250)",
                               " & chunked(64)",
                               " & prefix(150)"};
  for (uint32_t i = 0; i < 80; ++i) {
    Case c;
    c.type = pick(0, 1) == 0 ? DType::bfloat16 : DType::float16;
    c.bias_type = std::array{DType::float32, DType::float16, DType::bfloat16}[static_cast<size_t>(pick(0, 2))];
    c.d = 8 * pick(2, 20);
    c.d_v = pick(0, 1) == 0 ? c.d : 8 * pick(2, 16);
    c.h_kv = pick(1, 2);
    c.h_q = c.h_kv * std::array{1, 2, 4}[static_cast<size_t>(pick(0, 2))];
    c.s_q = pick(0, 3) == 0 ? pick(1, 4) : pick(100, 500);
    c.window = pick(1, 60);
    c.rest = rests[i % std::size(rests)];
    c.softcap = pick(0, 3) == 0 ? 5 : 0;
    c.sinks = pick(0, 3) == 0;
    c.adds_other = pick(0, 1) == 0;
    c.adds = !c.adds_other && pick(0, 1) == 0;
    c.deterministic = pick(0, 1) == 0;
    if (i % 3 == 0 && std::string_view(c.rest).find("documents") == std::string_view::npos) {
      c.cu_q = {0, 130, 131, 131 + pick(100, 200)};
      c.cu_kv = {0, 300, 600, 900};  // a bias is as long as every sequence
      c.b = 3;
    }
    if (i % 4 == 1) c.among = i % 8 == 1 ? ", keys(30, 170)" : c.cu_q.empty() ? ", dense(@g) & keys(5, 290)" : "";
    c.bias_b = pick(0, 1) == 0 ? 1 : c.b;
    c.bias_h = std::array{int64_t{1}, c.h_kv, c.h_q}[static_cast<size_t>(pick(0, 2))];
    SCOPED_TRACE(testing::Message() << "case " << i << ": d " << c.d << " x " << c.d_v << ", heads " << c.h_q << ":"
                                    << c.h_kv << ", rows " << c.s_q << ", window " << c.window << c.among << c.rest
                                    << ", bias " << c.bias_b << " x " << c.bias_h << ", packed " << !c.cu_q.empty()
                                    << ", added " << c.adds_other << ", softcap " << c.softcap << ", sinks "
                                    << c.sinks);
    Call call(c, i);
    run(c, call);
    call.compare();
    if (c.s_q > 4 && c.h_q == c.h_kv) {
      EXPECT_THAT(call.explained(Direction::forward), HasSubstr("gathered: "));
      EXPECT_THAT(call.explained(Direction::backward), HasSubstr("gathered: "));
    }
    if (HasFailure()) break;
  }
}

// Rows that choose for themselves, several blocks of them.
TEST_F(Gathered, BlocksOfRowsAgreeWithTheReference) {
  std::mt19937 rng(6);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
  const char* const among[] = {
      ", causal",       ", window(900, 30)", ", causal & keys(40, 900)",         ", chunked(450)",
      ", prefix(1080)", ", causal",          ", window(150, 0) & keys(0, 1150)", ", documents([0, 300, 1200])"};
  const char* const rests[] = {"", " & window(300, 5)", "", " & keys(100, 1100)", " & causal", ""};
  int gathered = 0;
  constexpr uint32_t cases = 32;
  for (uint32_t i = 0; i < cases; ++i) {
    Case c;
    c.type = pick(0, 1) == 0 ? DType::bfloat16 : DType::float16;
    c.bias_type = std::array{DType::float32, DType::float16, DType::bfloat16}[static_cast<size_t>(pick(0, 2))];
    c.d = 8 * pick(2, 16);
    c.d_v = pick(0, 1) == 0 ? c.d : 8 * pick(2, 12);
    c.h_kv = pick(1, 2);
    c.h_q = c.h_kv * std::array{1, 2, 4}[static_cast<size_t>(pick(0, 2))];
    c.s_kv = 1200;
    c.s_q = pick(0, 4) == 0 ? pick(1, 200) : pick(193, 450);
    c.window = pick(1, 90);
    c.among = among[i % std::size(among)];
    c.rest = rests[i % std::size(rests)];
    c.softcap = pick(0, 3) == 0 ? 5 : 0;
    c.sinks = pick(0, 1) == 0;
    c.adds_other = pick(0, 1) == 0;
    c.adds = !c.adds_other && pick(0, 1) == 0;
    c.deterministic = pick(0, 1) == 0;
    if (i % 3 == 0 && std::string_view(c.among).find("documents") == std::string_view::npos) {
      c.cu_q = {0, 230, 231, 231 + pick(1, 200)};
      c.cu_kv = {0, 1200, 2400, 3600};
      c.b = 3;
    }
    c.bias_b = pick(0, 1) == 0 ? 1 : c.b;
    c.bias_h = std::array{int64_t{1}, c.h_kv, c.h_q}[static_cast<size_t>(pick(0, 2))];
    SCOPED_TRACE(testing::Message() << "case " << i << ": d " << c.d << " x " << c.d_v << ", heads " << c.h_q << ":"
                                    << c.h_kv << ", rows " << c.s_q << ", window " << c.window << c.among << c.rest
                                    << ", bias " << c.bias_b << " x " << c.bias_h << ", packed " << !c.cu_q.empty()
                                    << ", added " << c.adds << c.adds_other << ", softcap " << c.softcap << ", sinks "
                                    << c.sinks);
    Call call(c, i);
    run(c, call);
    call.compare();
    gathered += call.explained(Direction::forward).find("lists for blocks") != std::string::npos ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GE(gathered, static_cast<int>(cases) / 4);  // the others keep too many of their keys
}

// Captured once, replayed with another bias: it selects anew, and the same twice.
TEST_F(Gathered, GraphsSelectAnew) {
  for (const bool by_rows : {false, true}) {
    SCOPED_TRACE(by_rows);
    replay(by_rows);
  }
}
void Gathered::replay(bool by_rows) {
  Case c;
  c.rest = by_rows ? "" : " & causal";
  c.among = by_rows ? ", causal" : "";
  c.adds_other = c.deterministic = true;
  c.s_q = 300;
  c.s_kv = by_rows ? 900 : 300;
  Call call(c, 3);
  if (by_rows) {
    EXPECT_THAT(call.explained(Direction::forward), HasSubstr("lists for blocks"));
  }
  const Options o = call.options(true, false);
  Context context = {.deterministic = true};
  const Numbers workspace(DType::bfloat16, {static_cast<int64_t>(call.workspace(o, context) / 2)});
  context.workspace = workspace.view(true).data();
  context.workspace_bytes = workspace.count() * 2;
  const Captured captured([&](cudaStream_t stream) {
    context.stream = stream;
    call.run(o, context, true, false);
  });
  for (int repeat = 0; repeat < 3; ++repeat) {
    call.renew();
    std::vector<std::vector<uint8_t>> first;
    for (int again = 0; again < 2; ++again) {
      workspace.poison();
      for (const auto& one : call.ours) one->poison();
      captured.replay();
      if (again == 0) first = results(call);
    }
    EXPECT_EQ(first, results(call));
    call.compare();
  }
}

TEST_F(Gathered, SaysWhyNot) {
  Case c;
  Call call(c, 1);
  const auto explained = [&](Options o) {
    return explain(call.q->view(true), call.k->view(true), call.v->view(true), o, {}, Direction::forward);
  };
  Options o = call.options(true, false);
  EXPECT_THAT(explained(o), HasSubstr("gathered: 80 of 600"));
  o.alibi_slopes = call.sinks->view(true);
  EXPECT_THAT(explained(o), HasSubstr("ALiBi"));
  o.alibi_slopes = {};
  const Numbers rows(DType::bfloat16, {c.s_q, c.s_kv});
  o.bias = rows.view(true);
  EXPECT_THAT(explained(o), HasSubstr("a row for each query"));
  c.window = 290;
  EXPECT_THAT(explained(call.options(true, false)), HasSubstr("copying costs more"));
}

}  // namespace
