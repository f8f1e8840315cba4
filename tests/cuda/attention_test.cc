// CUDA calls as a program makes them: streams, graphs, errors that write nothing, the same bits again and again. Values
// against the reference are `anymask verify --backend cuda`'s business. Without a device every test is skipped.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anymask/anymask.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "cuda/captured.h"

namespace {

using namespace anymask;
using testing::HasSubstr;

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaGetLastError())

bool have_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

// Device memory that begins as NaN. Nothing where there is no device: every test is skipped then.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    if (!have_device()) return;
    EXPECT_EQ(cudaMalloc(&data_, bytes + 256), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0xff, bytes + 256), cudaSuccess);
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  std::vector<uint16_t> read() const {
    std::vector<uint16_t> host(bytes_ / 2);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }
  void write(const std::vector<uint16_t>& host) const {
    EXPECT_EQ(cudaMemcpy(data_, host.data(), bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  void poison() const { EXPECT_EQ(cudaMemset(data_, 0xff, bytes_), cudaSuccess); }
  bool untouched() const {
    for (const uint16_t word : read())
      if (word != 0xffff) return false;
    return true;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

std::vector<uint16_t> random_bf16(size_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) {
    const float x = normal(rng);
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    value = static_cast<uint16_t>(bits >> 16);
  }
  return values;
}

// One call's tensors in device memory: b 2, 8 query heads over 2 kv heads, d 64, bf16.
class Attention : public testing::Test {
 protected:
  static constexpr int64_t b = 2, s = 333, h_q = 8, h_kv = 2, d = 64;
  void SetUp() override {
    if (!have_device()) GTEST_SKIP() << "no CUDA device";
    for (const Memory* memory : {&q, &k, &v, &dout}) memory->write(random_bf16(memory->bytes() / 2, seed++));
  }
  static Tensor view(const Memory& memory, std::vector<int64_t> shape, DType type = DType::bfloat16,
                     int32_t device = 0) {
    return Tensor(memory.data(), type, std::move(shape), {}, {kDLCUDA, device});
  }
  Tensor rows(const Memory& memory, int32_t device = 0) const {
    return view(memory, {b, s, h_q, d}, DType::bfloat16, device);
  }
  Tensor key_view(const Memory& memory, int32_t device = 0) const {
    return view(memory, {b, s, h_kv, d}, DType::bfloat16, device);
  }
  Tensor stat(const Memory& memory) const { return view(memory, {b, h_q, s}, DType::float32); }
  size_t workspace_for(const Options& options, Direction direction, const Context& context = {}) const {
    return workspace_bytes(rows(q), key_view(k), key_view(v), options, context, direction);
  }
  void forward(const Options& options, const Context& context) {
    attention_forward(rows(q), key_view(k), key_view(v), rows(out), stat(lse), options, context);
  }
  void backward(const Options& options, const Context& context) {
    attention_backward(rows(dout), rows(q), key_view(k), key_view(v), rows(out), stat(lse), rows(dq), key_view(dk),
                       key_view(dv), options, context);
  }

  uint32_t seed = 1;
  Memory q{b * s * h_q * d * 2}, k{b * s * h_kv * d * 2}, v{b * s * h_kv * d * 2}, out{b * s * h_q * d * 2};
  Memory dout{b * s * h_q * d * 2}, dq{b * s * h_q * d * 2}, dk{b * s * h_kv * d * 2}, dv{b * s * h_kv * d * 2};
  Memory lse{b * h_q * s * 4};
};

TEST_F(Attention, RepeatsBitForBit) {
  const Options options = {.mask = (causal() & documents({0, 100, 101, s})) | keys(0, 3)};
  Context context = {.deterministic = true};
  const Memory workspace(std::max(workspace_for(options, Direction::forward, context),
                                  workspace_for(options, Direction::backward, context)));
  context.workspace = workspace.data();
  context.workspace_bytes = workspace.bytes();
  std::vector<std::vector<uint16_t>> first;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    for (const Memory* memory : {&out, &lse, &dq, &dk, &dv}) memory->poison();
    workspace.poison();
    forward(options, context);
    backward(options, context);
    std::vector<std::vector<uint16_t>> now;
    for (const Memory* memory : {&out, &lse, &dq, &dk, &dv}) now.push_back(memory->read());
    if (repeat == 0) first = now;
    ASSERT_EQ(now, first) << "repeat " << repeat;
  }
}

// A mask said as a band, as bits and as blocks gives the same bits.
TEST_F(Attention, SpellingsAgree) {
  std::vector<uint8_t> kept(s * s);
  for (int64_t i = 0; i < s; ++i)
    for (int64_t j = 0; j < s; ++j) kept[static_cast<size_t>(i * s + j)] = j <= i;
  const std::vector<Mask> spellings = {causal(), window(-1, 0),
                                       dense(Tensor(kept.data(), DType::boolean, {s, s}, {}, {kDLCPU, 0}))};
  std::vector<std::vector<uint16_t>> outs;
  for (const Mask& mask : spellings) {
    const Options options = {.mask = mask};
    const Memory workspace(workspace_for(options, Direction::forward));
    out.poison();
    forward(options, {.workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
    outs.push_back(out.read());
  }
  EXPECT_EQ(outs[0], outs[1]);
  EXPECT_EQ(outs[0], outs[2]);
}

// Captured once, replayed with new contents of q.
TEST_F(Attention, GraphsReplay) {
  const Options options = {.mask = causal() & documents({0, 100, 200, s})};
  const Memory workspace(workspace_for(options, Direction::forward));
  Context context = {.workspace = workspace.data(), .workspace_bytes = workspace.bytes()};
  const Captured call([&](cudaStream_t stream) {
    context.stream = stream;
    forward(options, context);
  });
  for (int repeat = 0; repeat < 3; ++repeat) {
    q.write(random_bf16(q.bytes() / 2, 100 + static_cast<uint32_t>(repeat)));
    workspace.poison();
    out.poison();
    call.replay();
    const std::vector<uint16_t> replayed = out.read();
    out.poison();
    forward(options, context);
    ASSERT_CUDA(cudaStreamSynchronize(call.stream()));
    EXPECT_EQ(replayed, out.read()) << "repeat " << repeat;
  }
}

// What a mask reads of device memory: int32 numbers, or bytes.
class DeviceArray {
 public:
  template <class T>
  explicit DeviceArray(const std::vector<T>& values) : bytes_(values.size() * sizeof(T)), memory_(bytes_) {
    write(values);
  }
  template <class T>
  void write(const std::vector<T>& values) const {
    EXPECT_EQ(values.size() * sizeof(T), bytes_);
    EXPECT_EQ(cudaMemcpy(memory_.data(), values.data(), bytes_, cudaMemcpyHostToDevice), cudaSuccess);
  }
  Tensor view(std::vector<int64_t> shape, DType type) const {
    return Tensor(memory_.data(), type, std::move(shape), {}, {kDLCUDA, 0});
  }

 private:
  size_t bytes_;
  Memory memory_;
};

// Forward and backward of a mask over arrays on the device, captured once, are those of the mask over the same arrays
// on the host, whatever the arrays hold when they are replayed.
TEST_F(Attention, ArraysOnTheDevice) {
  std::mt19937 rng(11);
  const auto offsets = [&rng] {
    std::vector<int32_t> cu{0, static_cast<int32_t>(s)};
    for (int i = 0; i < 5; ++i) cu.push_back(static_cast<int32_t>(rng() % (s + 1)));
    std::sort(cu.begin(), cu.end());
    return cu;
  };
  const auto parents = [&rng] {
    std::vector<int32_t> up;
    for (int i = 0; i < 100; ++i) up.push_back(static_cast<int32_t>(rng() % static_cast<unsigned>(i + 1)) - 1);
    return up;
  };
  const auto booleans = [&rng](int64_t count) {
    std::vector<uint8_t> kept(static_cast<size_t>(count));
    for (uint8_t& value : kept) value = rng() % 4 == 0;
    return kept;
  };
  struct Contents {
    std::vector<int32_t> cu, up;
    std::vector<uint8_t> kept, map;
  };
  std::vector<Contents> contents;
  for (int i = 0; i < 4; ++i) contents.push_back({offsets(), parents(), booleans(s * s), booleans(6 * 6)});
  const DeviceArray cu(contents[0].cu), up(contents[0].up), kept(contents[0].kept), map(contents[0].map);
  const auto masks = [](const Tensor& ends, const Tensor& tree_of, const Tensor& each, const Tensor& coarse) {
    return std::vector<Mask>{causal() & documents(ends), tree(tree_of) | documents(ends), dense(each),
                             blocks(coarse, 64, 64) & causal(), causal() | prefix(20) | dense(each)};
  };
  const std::vector<Mask> there = masks(cu.view({7}, DType::int32), up.view({100}, DType::int32),
                                        kept.view({s, s}, DType::boolean), map.view({6, 6}, DType::boolean));
  for (size_t i = 0; i < there.size(); ++i) {
    Context context = {.deterministic = true};
    // With a softcap, since small calls of plain scores are computed otherwise where the host knows the mask for a
    // band.
    const Options options = {.mask = there[i], .softcap = 30};
    const Memory workspace(std::max(workspace_for(options, Direction::forward, context),
                                    workspace_for(options, Direction::backward, context)));
    context.workspace = workspace.data();
    context.workspace_bytes = workspace.bytes();
    const Captured calls([&](cudaStream_t stream) {
      context.stream = stream;
      forward(options, context);
      backward(options, context);
    });
    const auto results = [this] {
      std::vector<std::vector<uint16_t>> read;
      for (const Memory* memory : {&out, &lse, &dq, &dk, &dv}) read.push_back(memory->read());
      return read;
    };
    const auto poison = [&] {
      for (const Memory* memory : {&out, &lse, &dq, &dk, &dv}) memory->poison();
      workspace.poison();
    };
    for (Contents& c : contents) {
      cu.write(c.cu), up.write(c.up), kept.write(c.kept), map.write(c.map);
      poison();
      calls.replay();
      const auto replayed = results();
      const Mask here = masks(Tensor(c.cu, {7}), Tensor(c.up, {100}), Tensor(c.kept.data(), DType::boolean, {s, s}),
                              Tensor(c.map.data(), DType::boolean, {6, 6}))[i];
      const Options on_host = {.mask = here, .softcap = 30};
      const Memory other(std::max(workspace_for(on_host, Direction::forward, context),
                                  workspace_for(on_host, Direction::backward, context)));
      Context again = context;
      again.workspace = other.data();
      again.workspace_bytes = other.bytes();
      poison();
      forward(on_host, again);
      backward(on_host, again);
      ASSERT_CUDA(cudaStreamSynchronize(calls.stream()));
      ASSERT_EQ(replayed, results()) << "mask " << i;
    }
    // Looked at on the host, it is what the array holds now.
    EXPECT_EQ(there[i].count({.s_q = s, .s_kv = s}).kept,
              masks(Tensor(contents.back().cu, {7}), Tensor(contents.back().up, {100}),
                    Tensor(contents.back().kept.data(), DType::boolean, {s, s}),
                    Tensor(contents.back().map.data(), DType::boolean, {6, 6}))[i]
                  .count({.s_q = s, .s_kv = s})
                  .kept);
  }
}

// Masks of one interval a row, of `s` rows and keys.
std::vector<Mask> bands(int64_t s) {
  return {full(),
          causal(),
          causal() & window(100, 0),
          causal() | prefix(70),
          keys(3, 200),
          chunked(64),
          causal() & documents({0, 100, 101, s})};
}

// A band needs no plan, no upload and no cleared counter, however many items it has: a call is one kernel, and replays
// of it find their tickets again.
TEST_F(Attention, BandsAreOneLaunch) {
  for (const Mask& mask : bands(s)) {
    const Options options = {.mask = mask};
    const Memory workspace(workspace_for(options, Direction::forward));
    const Captured call([&](cudaStream_t stream) {
      forward(options, {.stream = stream, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
    });
    EXPECT_EQ(call.nodes(), 1u) << mask.str();
  }
}

// So is the backward of a small call, in any mode; one that cannot be has the facts of the rows, a pass, and what sums
// in fp32 become. Without atomics each gives the same bits again, from workspaces that hold anything.
TEST_F(Attention, BackwardsOfBands) {
  for (const Mask& mask : bands(s)) {
    for (const float softcap : {0.f, 30.f}) {
      for (const bool deterministic : {false, true}) {
        const Options options = {.mask = mask, .softcap = softcap};
        Context context = {.deterministic = deterministic};
        const Memory workspace(std::max(workspace_for(options, Direction::forward, context),
                                        workspace_for(options, Direction::backward, context)));
        context.workspace = workspace.data();
        context.workspace_bytes = workspace.bytes();
        forward(options, context);
        ASSERT_CUDA(cudaDeviceSynchronize());
        const Captured call([&](cudaStream_t stream) {
          context.stream = stream;
          backward(options, context);
        });
        if (softcap == 0) {
          EXPECT_EQ(call.nodes(), 1u) << mask.str();
        } else {
          EXPECT_LE(call.nodes(), 4u) << mask.str();
        }
        std::vector<std::vector<uint16_t>> first;
        for (int repeat = 0; repeat < 3; ++repeat) {
          for (const Memory* memory : {&dq, &dk, &dv}) memory->poison();
          workspace.poison();
          call.replay();
          std::vector<std::vector<uint16_t>> now;
          for (const Memory* memory : {&dq, &dk, &dv}) now.push_back(memory->read());
          if (repeat == 0) first = now;
          if (softcap == 0 || deterministic) {
            ASSERT_EQ(now, first) << mask.str() << ", repeat " << repeat;
          }
        }
      }
    }
  }
}

// More items than blocks: tickets are drawn, from memory that holds anything, and again in each replay. Of head dims
// of 128 a band is still one launch.
TEST_F(Attention, TicketsSurviveReplays) {
  for (const int64_t width : {d, 2 * d}) {
    const int64_t batch = 40 * d / width;
    const Memory many_q(40 * q.bytes()), many_k(40 * k.bytes()), many_out(40 * out.bytes());
    for (const Memory* memory : {&many_q, &many_k}) memory->write(random_bf16(memory->bytes() / 2, seed++));
    const auto tensor = [&](const Memory& memory, int64_t heads) {
      return view(memory, {batch, s, heads, width}, DType::bfloat16);
    };
    const Options options = {.mask = causal()};
    const Memory workspace(workspace_bytes(tensor(many_q, h_q), tensor(many_k, h_kv), tensor(many_k, h_kv), options, {},
                                           Direction::forward));
    const auto run = [&](cudaStream_t stream) {
      attention_forward(tensor(many_q, h_q), tensor(many_k, h_kv), tensor(many_k, h_kv), tensor(many_out, h_q), {},
                        options,
                        {.stream = stream, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
    };
    run(nullptr);
    ASSERT_CUDA(cudaDeviceSynchronize());
    const std::vector<uint16_t> expected = many_out.read();
    const Captured calls([&](cudaStream_t stream) {
      for (int i = 0; i < 3; ++i) run(stream);
    });
    if (width == 128) {
      EXPECT_EQ(calls.nodes(), 3u);
    }
    for (int repeat = 0; repeat < 20; ++repeat) {
      many_out.poison();
      if (repeat % 2 == 0) workspace.poison();
      calls.replay();
      ASSERT_EQ(many_out.read(), expected) << "repeat " << repeat;
    }
  }
}

// Few queries over many keys: rows are cut into pieces without a plan, and merged, in one launch on Hopper. Said so
// that no band is seen, the mask has a plan, and the result is the same, to the bit.
TEST_F(Attention, CutBandsSurviveReplays) {
  constexpr int64_t few = 5, many = 20000, heads = 8, width = 128;
  const Memory rows_q(2 * few * heads * width), rows_k(2 * many * 2 * width), rows_v(rows_k.bytes());
  const Memory result(rows_q.bytes()), result_lse(4 * few * heads);
  for (const Memory* memory : {&rows_q, &rows_k, &rows_v}) memory->write(random_bf16(memory->bytes() / 2, seed++));
  const auto tensor = [&](const Memory& memory, int64_t length, int64_t of) {
    return view(memory, {1, length, of, width}, DType::bfloat16);
  };
  const auto run = [&](const Mask& mask, const Memory& workspace, cudaStream_t stream) {
    attention_forward(tensor(rows_q, few, heads), tensor(rows_k, many, 2), tensor(rows_v, many, 2),
                      tensor(result, few, heads), view(result_lse, {1, heads, few}, DType::float32), {.mask = mask},
                      {.stream = stream, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
  };
  for (const Mask& mask : {full(), causal(), causal() & window(9000, 0)}) {
    const auto workspace_of = [&](const Mask& of) {
      return workspace_bytes(tensor(rows_q, few, heads), tensor(rows_k, many, 2), tensor(rows_v, many, 2), {.mask = of},
                             {}, Direction::forward);
    };
    const Mask planned = mask & Mask::parse("stride(1)");
    const Memory other(workspace_of(planned)), workspace(workspace_of(mask));
    result.poison(), result_lse.poison();
    run(planned, other, nullptr);
    ASSERT_CUDA(cudaDeviceSynchronize());
    const std::vector<uint16_t> expected = result.read(), expected_lse = result_lse.read();
    const Captured calls([&](cudaStream_t stream) { run(mask, workspace, stream); });
    EXPECT_LE(calls.nodes(), 2u) << mask.str();
    for (int repeat = 0; repeat < 100; ++repeat) {
      result.poison(), result_lse.poison();
      if (repeat % 2 == 0) workspace.poison();
      calls.replay();
      ASSERT_EQ(result.read(), expected) << mask.str() << ", repeat " << repeat;
      ASSERT_EQ(result_lse.read(), expected_lse) << mask.str() << ", repeat " << repeat;
    }
  }
}

TEST_F(Attention, TwoStreamsAndThreadsAtOnce) {
  const Options options = {.mask = causal()};
  const size_t bytes = workspace_for(options, Direction::forward);
  const Memory alone(bytes);
  forward(options, {.workspace = alone.data(), .workspace_bytes = bytes});
  const std::vector<uint16_t> expected = out.read();
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      const Memory workspace(bytes), own(out.bytes()), own_lse(lse.bytes());
      cudaStream_t stream;
      ASSERT_CUDA(cudaStreamCreate(&stream));
      for (int repeat = 0; repeat < 50; ++repeat) {
        own.poison();
        attention_forward(rows(q), key_view(k), key_view(v), rows(own), stat(own_lse), options,
                          {.stream = stream, .workspace = workspace.data(), .workspace_bytes = bytes});
        ASSERT_CUDA(cudaStreamSynchronize(stream));
        ASSERT_EQ(own.read(), expected);
      }
      cudaStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Every refusal names what is wrong and writes nothing.
TEST_F(Attention, RefusalsWriteNothing) {
  const Options options = {.mask = causal() & Mask::parse("stride(2)")};  // planned, in a workspace
  const size_t bytes = workspace_for(options, Direction::forward);
  const Memory workspace(bytes);
  const auto message = [&](const Context& context) -> std::string {
    try {
      forward(options, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.workspace = workspace.data(), .workspace_bytes = bytes - 1}), HasSubstr("workspace_bytes"));
  EXPECT_THAT(message({}), HasSubstr("workspace_bytes"));
  EXPECT_THAT(message({.workspace = static_cast<char*>(workspace.data()) + 4, .workspace_bytes = bytes}),
              HasSubstr("256"));
  EXPECT_THAT(message({.backend = "cpu"}), HasSubstr("CUDA device 0"));
  try {
    attention_forward(rows(q, 63), key_view(k, 63), key_view(v, 63), rows(out, 63), {}, options, {});
    ADD_FAILURE() << "a device that is not there was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("63"));
  }
  EXPECT_TRUE(out.untouched());
  EXPECT_TRUE(workspace.untouched());
}

}  // namespace
