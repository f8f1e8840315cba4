// What `anymask bench cuda` times: sizes that fill a large GPU, named like those of bench_cases().
#pragma once

#include <string>
#include <vector>

#include "cases/cases.h"

namespace anymask::cases {

inline AttentionCase gpu_case(const std::string& mask_name, const std::string& mask, int64_t b, int64_t s_q,
                              int64_t s_kv, int64_t h_q, int64_t h_kv, int64_t d, std::vector<CaseArray> arrays = {}) {
  AttentionCase c;
  c.name = mask_name + (b == 1 ? "" : "-b" + std::to_string(b)) + "-s" + std::to_string(s_q) +
           (s_q == s_kv ? "" : "x" + std::to_string(s_kv)) + "-h" + std::to_string(h_q) +
           (h_q == h_kv ? "" : "x" + std::to_string(h_kv)) + "-d" + std::to_string(d);
  c.mask = mask;
  c.b = b;
  c.s_q = s_q;
  c.s_kv = s_kv;
  c.h_q = h_q;
  c.h_kv = h_kv;
  c.d_qk = c.d_v = d;
  c.arrays = std::move(arrays);
  return c;
}

inline const std::vector<BenchCase>& gpu_bench_cases() {
  static const std::vector<BenchCase> cases = [] {
    std::vector<BenchCase> list;
    for (const char* suite : {"forward", "backward"}) {
      for (const int64_t d : {64, 128}) {
        for (const int64_t s : {4096, 16384}) {
          for (const char* mask : {"full", "causal"})
            list.push_back({suite, gpu_case(mask, mask, 16384 / s, s, s, 32, 32, d)});
        }
      }
    }
    const auto masks = [&list](const std::string& name, const std::string& mask, int64_t s_q, int64_t s_kv,
                               int64_t h_kv, std::vector<CaseArray> arrays = {}, int64_t b = 1) {
      list.push_back({"masks", gpu_case(name, mask, b, s_q, s_kv, 32, h_kv, 128, std::move(arrays))});
    };
    constexpr int64_t s = 16384, prefix = 24000, total = prefix + 5000;
    masks("causal-window1024", "causal & window(1023, 0)", s, s, 32);
    masks("documents12-causal", "causal & documents(@cu)", s, s, 32,
          {int_array("cu", {0, 500, 1700, 3100, 3900, 6100, 7000, 9300, 10000, 12100, 13000, 14900, s})});
    masks("prefix-lm4096", "causal | prefix(4096)", s, s, 32);
    masks("blocks128-keep10", "blocks(@map, 128, 128)", s, s, 32, {block_map(s / 128, s / 128, 10)});
    const std::vector<int64_t> segments(50, 100);
    const std::string shared = "shared_prefix(" + std::to_string(prefix) + ", @lengths)";
    masks("shared-prefix24000-50x100", shared, total, total, 8, {int_array("lengths", segments)});
    masks("shared-prefix24000-50x100-tail", shared, 5000, total, 8, {int_array("lengths", segments)});
    masks("stride10", "stride(10)", 8192, 8192, 8);
    masks("full", "full", 8192, 8192, 8);
    masks("tree64", "tree(@parents)", 64, 8192 + 64, 8, {tree_parents(64, 8)}, 16);
    masks("causal", "causal", 65536, 65536, 8);
    const auto topk = [&list](const char* bias, const std::string& mask, AttentionCase c) {
      c.name += std::string("-bias-") + bias;
      c.mask = mask;
      c.bias = bias;
      list.push_back({"topk", std::move(c)});
    };
    for (const char* bias : {"1gq", "11q"})
      topk(bias, "topk(@bias, 256)", gpu_case("topk256", "", 2, 4096, 4096, 8, 4, 64));
    topk("1g1", "topk(@bias, 4096)", gpu_case("topk4096", "", 1, 65536, 65536, 32, 8, 128));
    topk("1g1", "topk(@bias, 4096) & causal", gpu_case("topk4096-causal", "", 1, 65536, 65536, 32, 8, 128));
    for (const int64_t length : {50, 150, 300}) {
      for (const int64_t b : {2, 512}) {
        AttentionCase c = gpu_case("full", "full", b, length, length, 16, 16, 16);
        list.push_back({"small", c});
      }
    }
    return list;
  }();
  return cases;
}

}  // namespace anymask::cases
