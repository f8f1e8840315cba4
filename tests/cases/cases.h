// Named attention cases: one table, read by `anymask verify`, `anymask bench` and the tests alike. Header-only,
// standard library alone.
//
// A case is data: shapes, the mask's text, which options are on. Tensors are made by whoever runs it. Names are stable
// and say what they hold: mask, lengths, heads (h9x3: 9 query heads over 3 kv heads), head dim (d64x32: d_qk 64, d_v
// 32), options.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace anymask::cases {

// An array that the mask's text calls by @name; @bias is the case's bias. `boolean`: bytes of 0 and 1; else int32.
struct CaseArray {
  std::string name;
  bool boolean = false;
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

struct AttentionCase {
  std::string name;
  std::string mask;
  int64_t b = 1, s_q = 0, s_kv = 0, h_q = 1, h_kv = 1, d_qk = 64, d_v = 64;
  // Which axes of the bias are full, in the order b h q: 'b' or '1'; 'h' (q heads), 'g' (kv heads) or '1'; 'q' or '1'.
  // "": no bias.
  std::string bias = "";
  double softcap = 0;
  bool alibi = false, sinks = false, dlse = false;
  std::vector<int64_t> cu_seqlens_q = {}, cu_seqlens_kv = {};  // packed: s_q and s_kv are then the totals and b is 1
  std::vector<CaseArray> arrays = {};
};

// Offsets of documents whose lengths vary around `mean`, ending at `total`: [0, ..., total]. The same arguments, the
// same offsets.
inline std::vector<int64_t> document_offsets(int64_t total, int64_t mean, uint64_t seed = 1) {
  std::mt19937_64 rng(seed);
  std::vector<int64_t> offsets{0};
  while (offsets.back() < total) {
    const int64_t length = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(2 * mean - 1));
    offsets.push_back(offsets.back() + length < total ? offsets.back() + length : total);
  }
  return offsets;
}
inline CaseArray int_array(std::string name, std::vector<int64_t> values) {
  const auto n = static_cast<int64_t>(values.size());
  return {std::move(name), false, {n}, std::move(values)};
}
// A block map with `percent` of its blocks kept, and the diagonal.
inline CaseArray block_map(int64_t rows, int64_t cols, int64_t percent, uint64_t seed = 1) {
  std::mt19937_64 rng(seed);
  CaseArray map{"map", true, {rows, cols}, {}};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) map.values.push_back(i == j || static_cast<int64_t>(rng() % 100) < percent);
  }
  return map;
}
// Parents of a tree of n nodes: each hangs below one of the `reach` nodes before it.
inline CaseArray tree_parents(int64_t n, int64_t reach, uint64_t seed = 1) {
  std::mt19937_64 rng(seed);
  CaseArray parents{"parents", false, {n}, {}};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t back = 1 + static_cast<int64_t>(rng() % static_cast<uint64_t>(reach));
    parents.values.push_back(back > i ? -1 : i - back);
  }
  return parents;
}

// Small cases: every family of lengths, heads, dims, options and masks once. A full comparison of each takes
// milliseconds.
inline const std::vector<AttentionCase>& small_cases() {
  static const std::vector<AttentionCase> cases = [] {
    std::vector<AttentionCase> list = {
        {.name = "full-s1-h1-d8", .mask = "full", .s_q = 1, .s_kv = 1, .d_qk = 8, .d_v = 8},
        {.name = "full-s63-h2-d64", .mask = "full", .s_q = 63, .s_kv = 63, .h_q = 2, .h_kv = 2},
        {.name = "full-s64-h2-d64", .mask = "full", .s_q = 64, .s_kv = 64, .h_q = 2, .h_kv = 2},
        {.name = "full-s65-h2-d64", .mask = "full", .s_q = 65, .s_kv = 65, .h_q = 2, .h_kv = 2},
        {.name = "causal-s129-h4x2-d128",
         .mask = "causal",
         .s_q = 129,
         .s_kv = 129,
         .h_q = 4,
         .h_kv = 2,
         .d_qk = 128,
         .d_v = 128},
        {.name = "causal-q1-k257-h8x1-d64", .mask = "causal", .s_q = 1, .s_kv = 257, .h_q = 8, .h_kv = 1},
        // Few rows over many keys: on a GPU their rows of tiles are cut into pieces.
        {.name = "full-q2-k1700-h8x2-d128",
         .mask = "full",
         .s_q = 2,
         .s_kv = 1700,
         .h_q = 8,
         .h_kv = 2,
         .d_qk = 128,
         .d_v = 128},
        {.name = "causal-sinks-q5-k2100-h4x2-d64",
         .mask = "causal",
         .s_q = 5,
         .s_kv = 2100,
         .h_q = 4,
         .h_kv = 2,
         .sinks = true},
        {.name = "causal-q100-k300-h3-d72",
         .mask = "causal",
         .s_q = 100,
         .s_kv = 300,
         .h_q = 3,
         .h_kv = 3,
         .d_qk = 72,
         .d_v = 72},
        {.name = "causal-q300-k100-h2-d64-empty-rows", .mask = "causal", .s_q = 300, .s_kv = 100, .h_q = 2, .h_kv = 2},
        {.name = "causal-top-left-q100-k300-h2-d40",
         .mask = "causal(align=\"top_left\")",
         .s_q = 100,
         .s_kv = 300,
         .h_q = 2,
         .h_kv = 2,
         .d_qk = 40,
         .d_v = 40},
        {.name = "none-s70-h2-d64", .mask = "none", .s_q = 70, .s_kv = 70, .h_q = 2, .h_kv = 2},
        {.name = "none-sinks-s70-h2-d64", .mask = "none", .s_q = 70, .s_kv = 70, .h_q = 2, .h_kv = 2, .sinks = true},
        {.name = "full-q0-k64-h2-d64", .mask = "full", .s_q = 0, .s_kv = 64, .h_q = 2, .h_kv = 2},
        {.name = "full-q64-k0-h2-d64", .mask = "full", .s_q = 64, .s_kv = 0, .h_q = 2, .h_kv = 2},
        {.name = "full-s100-h2-d256x8",
         .mask = "full",
         .s_q = 100,
         .s_kv = 100,
         .h_q = 2,
         .h_kv = 1,
         .d_qk = 256,
         .d_v = 8},
        {.name = "full-s100-h2-d8x256",
         .mask = "full",
         .s_q = 100,
         .s_kv = 100,
         .h_q = 2,
         .h_kv = 2,
         .d_qk = 8,
         .d_v = 256},
        {.name = "window-s200-h2-d64", .mask = "window(17, 5)", .s_q = 200, .s_kv = 200, .h_q = 2, .h_kv = 2},
        {.name = "causal-window-sinks-s200-h4-d64",
         .mask = "causal & window(31, 0) | keys(0, 4)",
         .s_q = 200,
         .s_kv = 200,
         .h_q = 4,
         .h_kv = 2,
         .sinks = true},
        {.name = "prefix-lm-s150-b2-h2-d64",
         .mask = "causal | prefix([20, 90])",
         .b = 2,
         .s_q = 150,
         .s_kv = 150,
         .h_q = 2,
         .h_kv = 2},
        {.name = "documents-s200-h2-d64",
         .mask = "causal & documents([0, 5, 5, 70, 71, 200])",
         .s_q = 200,
         .s_kv = 200,
         .h_q = 2,
         .h_kv = 2},
        {.name = "chunked-s150-h2-d64", .mask = "chunked(40)", .s_q = 150, .s_kv = 150, .h_q = 2, .h_kv = 2},
        {.name = "dilated-window-s150-h2-d64",
         .mask = "stride(3) & window(30, 0)",
         .s_q = 150,
         .s_kv = 150,
         .h_q = 2,
         .h_kv = 2},
        {.name = "shared-prefix-s200-h2-d64",
         .mask = "shared_prefix(100, [40, 0, 60])",
         .s_q = 200,
         .s_kv = 200,
         .h_q = 2,
         .h_kv = 2},
        {.name = "shared-prefix-segments-q100-k200-h6x2-d64",
         .mask = "shared_prefix(100, [40, 60])",
         .s_q = 100,
         .s_kv = 200,
         .h_q = 6,
         .h_kv = 2},
        {.name = "tree-q7-k107-h4-d64",
         .mask = "tree([-1, 0, 0, 1, 1, 2, 4])",
         .s_q = 7,
         .s_kv = 107,
         .h_q = 4,
         .h_kv = 2},
        {.name = "neighborhood-2d-s144-h2-d32",
         .mask = "neighborhood([12, 12], [5, 3], [1, 2])",
         .s_q = 144,
         .s_kv = 144,
         .h_q = 2,
         .h_kv = 2,
         .d_qk = 32,
         .d_v = 32},
        {.name = "block-diffusion-s160-h2-d64",
         .mask = "block_diffusion(80, 16)",
         .s_q = 160,
         .s_kv = 160,
         .h_q = 2,
         .h_kv = 2},
        {.name = "per-head-s100-h2-d64",
         .mask = "per_head([causal, ~causal])",
         .s_q = 100,
         .s_kv = 100,
         .h_q = 2,
         .h_kv = 2},
        {.name = "per-batch-s100-b2-h2-d64",
         .mask = "per_batch([causal, window(9, 9)])",
         .b = 2,
         .s_q = 100,
         .s_kv = 100,
         .h_q = 2,
         .h_kv = 2},
        {.name = "bias-bhq-s90-h4x2-d64",
         .mask = "causal",
         .b = 2,
         .s_q = 90,
         .s_kv = 90,
         .h_q = 4,
         .h_kv = 2,
         .bias = "bhq"},
        {.name = "bias-1g1-s90-h4x2-d64",
         .mask = "causal",
         .b = 2,
         .s_q = 90,
         .s_kv = 90,
         .h_q = 4,
         .h_kv = 2,
         .bias = "1g1"},
        {.name = "bias-b11-s90-h4x2-d64",
         .mask = "full",
         .b = 2,
         .s_q = 90,
         .s_kv = 90,
         .h_q = 4,
         .h_kv = 2,
         .bias = "b11"},
        {.name = "bias-11q-softcap-s90-h4x2-d64",
         .mask = "full",
         .b = 2,
         .s_q = 90,
         .s_kv = 90,
         .h_q = 4,
         .h_kv = 2,
         .bias = "11q",
         .softcap = 5},
        {.name = "alibi-sinks-softcap-dlse-s120-h4-d64",
         .mask = "causal",
         .s_q = 120,
         .s_kv = 120,
         .h_q = 4,
         .h_kv = 4,
         .softcap = 20,
         .alibi = true,
         .sinks = true,
         .dlse = true},
        {.name = "packed-causal-h4x2-d64",
         .mask = "causal",
         .s_q = 150,
         .s_kv = 150,
         .h_q = 4,
         .h_kv = 2,
         .dlse = true,
         .cu_seqlens_q = {0, 1, 1, 70, 150}},
        {.name = "packed-cross-h2-d64",
         .mask = "causal",
         .s_q = 60,
         .s_kv = 150,
         .h_q = 2,
         .h_kv = 2,
         .cu_seqlens_q = {0, 10, 30, 60},
         .cu_seqlens_kv = {0, 40, 50, 150}},
    };
    AttentionCase blocks{
        .name = "blocks-s200-h2-d64", .mask = "blocks(@map, 32, 16)", .s_q = 200, .s_kv = 200, .h_q = 2, .h_kv = 2};
    blocks.arrays = {block_map(7, 13, 40)};
    list.push_back(blocks);
    return list;
  }();
  return cases;
}

// Cases worth timing. `suite`: which named suite of the bench each belongs to.
struct BenchCase {
  std::string suite;
  AttentionCase shape;
};

inline const std::vector<BenchCase>& bench_cases() {
  static const std::vector<BenchCase> cases = [] {
    std::vector<BenchCase> list;
    const auto add = [&list](const char* suite, const std::string& mask_name, const std::string& mask, int64_t s,
                             int64_t h_q, int64_t h_kv, int64_t d, std::vector<CaseArray> arrays = {}) {
      AttentionCase c;
      c.name = mask_name + "-s" + std::to_string(s) + "-h" + std::to_string(h_q) +
               (h_q == h_kv ? "" : "x" + std::to_string(h_kv)) + "-d" + std::to_string(d);
      c.mask = mask;
      c.s_q = c.s_kv = s;
      c.h_q = h_q;
      c.h_kv = h_kv;
      c.d_qk = c.d_v = d;
      c.arrays = std::move(arrays);
      list.push_back({suite, c});
    };
    for (const char* suite : {"forward", "backward", "bf16"}) {
      for (const int64_t d : {64, 128}) {
        add(suite, "full", "full", 2048, 8, 8, d);
        add(suite, "causal", "causal", 2048, 8, 8, d);
        add(suite, "full", "full", 4096, 8, 8, d);
        add(suite, "causal", "causal", 4096, 8, 8, d);
      }
      add(suite, "causal", "causal", 8192, 9, 3, 64);
    }
    add("masks", "full", "full", 4096, 4, 4, 64);
    add("masks", "causal", "causal", 4096, 4, 4, 64);
    add("masks", "causal-window64", "causal & window(63, 0)", 8192, 4, 4, 64);
    add("masks", "causal-window256", "causal & window(255, 0)", 8192, 4, 4, 64);
    add("masks", "causal-window1024", "causal & window(1023, 0)", 8192, 4, 4, 64);
    add("masks", "causal-window1024-sink4", "causal & (window(1023, 0) | keys(0, 4))", 8192, 4, 4, 64);
    add("masks", "documents-mean41-causal", "causal & documents(@cu)", 8192, 9, 3, 64,
        {int_array("cu", document_offsets(8192, 41))});
    add("masks", "documents-mean512-causal", "causal & documents(@cu)", 8192, 9, 3, 64,
        {int_array("cu", document_offsets(8192, 512))});
    // 4,096 documents, and one sequence that keeps as much: they should cost alike.
    std::vector<int64_t> many;
    for (int64_t i = 0; i <= 4096; ++i) many.push_back(32 * i);
    add("masks", "documents-4096x32-causal", "causal & documents(@cu)", 131072, 1, 1, 64, {int_array("cu", many)});
    add("masks", "causal-window16", "causal & window(15, 0)", 131072, 1, 1, 64);
    add("masks", "prefix-lm2048", "causal | prefix(2048)", 8192, 4, 4, 64);
    for (const int64_t percent : {5, 10, 25, 50}) {
      // Short and long: packing keys and values grows with the length, the kept pairs with its square.
      for (const int64_t s : {4096, 16384})
        add("masks", "blocks64-keep" + std::to_string(percent), "blocks(@map, 64, 64)", s, s == 4096 ? 4 : 1,
            s == 4096 ? 4 : 1, 64, {block_map(s / 64, s / 64, percent)});
    }
    add("masks", "shared-prefix4096-40x100", "shared_prefix(4096, @lengths)", 8096, 4, 2, 64,
        {int_array("lengths", std::vector<int64_t>(40, 100))});
    AttentionCase tree;
    tree.name = "tree64-over-8192-h8x2-d64";
    tree.mask = "tree(@parents)";
    tree.s_q = 64;
    tree.s_kv = 8192 + 64;
    tree.h_q = 8;
    tree.h_kv = 2;
    tree.arrays = {tree_parents(64, 8)};
    list.push_back({"masks", tree});
    for (const int64_t s : {int64_t{8192}, int64_t{32768}}) {
      add("plan", "documents-mean512-causal", "causal & documents(@cu)", s, 1, 1, 64,
          {int_array("cu", document_offsets(s, 512))});
      add("plan", "causal-window1024-sink4", "causal & (window(1023, 0) | keys(0, 4))", s, 1, 1, 64);
      add("plan", "shared-prefix-half", "shared_prefix(" + std::to_string(s / 2) + ", @lengths)", s, 1, 1, 64,
          {int_array("lengths", std::vector<int64_t>(static_cast<size_t>(s / 2 / 128), 128))});
      add("plan", "tree-half", "tree(@parents)", s, 1, 1, 64, {tree_parents(s / 2, 8)});
      add("plan", "blocks64-keep10", "blocks(@map, 64, 64)", s, 1, 1, 64, {block_map(s / 64, s / 64, 10)});
    }
    // Top-k windows: a bias of each layout, its own row for every query or one for all.
    struct TopK {
      const char *name, *bias, *mask;
    };
    for (const TopK& t :
         {TopK{"h-q", "1hq", "topk(@bias, 256)"}, TopK{"kvh-q", "1gq", "topk(@bias, 256)"},
          TopK{"1-q", "11q", "topk(@bias, 256)"}, TopK{"kvh-q-causal", "1gq", "topk(@bias, 256, causal)"},
          TopK{"kvh-1", "1g1", "topk(@bias, 256)"}, TopK{"kvh-1-causal", "1g1", "topk(@bias, 256, causal)"},
          TopK{"kvh-1-then-causal", "1g1", "topk(@bias, 256) & causal"}}) {
      add("topk", std::string("topk256-bias-") + t.name, t.mask, 4096, 8, 4, 64);
      list.back().shape.bias = t.bias;
    }
    for (const int64_t s : {1, 16, 50, 128}) {
      add("host", "causal", "causal", s, 1, 1, 16);
      add("host", "causal-window8-sink1", "causal & window(8, 0) | keys(0, 1)", s, 1, 1, 16);
    }
    add("scaling", "causal", "causal", 4096, 8, 8, 64);
    add("scaling", "causal", "causal", 4096, 1, 1, 64);
    add("scaling", "documents-mean512-causal", "causal & documents(@cu)", 8192, 1, 1, 64,
        {int_array("cu", document_offsets(8192, 512))});
    return list;
  }();
  return cases;
}

}  // namespace anymask::cases
