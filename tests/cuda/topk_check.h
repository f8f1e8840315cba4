// Random rows for the selection kernel, and an exhaustive selection to compare with. The kernel runs wherever the
// caller says: on a device or on the emulator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "cuda/config/topk_select.h"
#include "cuda/topk_params.h"

namespace anymask {

enum class TopkValues { normal, bits, few, equal, zeros, nothing, ascending, count };
enum class TopkAmong { all, limits, words, both, count };

struct TopkCase {
  DType dtype = DType::f16;
  int32_t planes = 1, rows = 1, keys = 1, window = 1;
  TopkValues values = TopkValues::normal;
  TopkAmong among = TopkAmong::all;
  int32_t pad = 0, step = 1;                       // elements between rows, and from key to key
  int32_t tile_m = 0;                              // 0: no bits are wanted
  int32_t fold = 1;                                // rows of a tile that are one row of the plane
  TopkAmong within = TopkAmong::all;               // of the tiles
  bool among_alike = false, within_alike = false;  // one row for all
  bool rows_wanted = true;                         // beside tiles
  uint32_t seed = 1;

  friend std::ostream& operator<<(std::ostream& out, const TopkCase& c) {
    return out << name_of(c.dtype) << ' ' << c.planes << " x " << c.rows << " x " << c.keys << " window " << c.window
               << " values " << static_cast<int>(c.values) << " among " << static_cast<int>(c.among) << " pad " << c.pad
               << " step " << c.step << " tile_m " << c.tile_m << " fold " << c.fold << " within "
               << static_cast<int>(c.within) << " alike " << c.among_alike << c.within_alike << " rows "
               << c.rows_wanted << " seed " << c.seed;
  }
};

inline TopkCase random_topk_case(uint32_t seed, int32_t most_keys, int32_t most_rows) {
  std::mt19937 rng(seed);
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng); };
  TopkCase c;
  c.seed = seed;
  c.dtype = std::array{DType::f16, DType::bf16, DType::f32}[static_cast<size_t>(pick(0, 2))];
  c.planes = pick(1, 3);
  c.rows = pick(1, most_rows);
  c.keys = pick(0, 3) == 0 ? std::min(most_keys, 128 * pick(1, std::max(most_keys / 128, 1))) : pick(1, most_keys);
  switch (pick(0, 7)) {
    case 0:
      c.window = pick(0, 1);
      break;
    case 1:
      c.window = std::max(c.keys - 1, 0);
      break;
    case 2:
      c.window = c.keys + pick(0, 3);
      break;
    default:
      c.window = pick(1, std::max(c.keys / pick(1, 16), 1));
  }
  c.values = static_cast<TopkValues>(pick(0, static_cast<int>(TopkValues::count) - 1));
  c.among = static_cast<TopkAmong>(pick(0, 1) * pick(0, static_cast<int>(TopkAmong::count) - 1));
  c.pad = pick(0, 1) * pick(0, 9);
  c.step = pick(0, 9) == 0 ? pick(2, 3) : 1;
  c.tile_m = 64 * pick(0, 4);
  c.fold = 1 << pick(0, 1) * pick(0, 6);
  c.within = static_cast<TopkAmong>(pick(0, 1) * pick(0, static_cast<int>(TopkAmong::count) - 1));
  c.among_alike = pick(0, 2) == 0;
  c.within_alike = pick(0, 2) == 0;
  c.rows_wanted = c.tile_m == 0 || pick(0, 1) == 0;
  return c;
}

// Where the kernel runs.
struct TopkMachine {
  CudaDevice device;
  std::function<void*(const void* data, size_t bytes)> put;           // to memory that lives until the case ends
  std::function<void(void* to, const void* from, size_t bytes)> get;  // once the kernel is done
  std::function<void(const TopkParams&, const TopkSelectConfig&)> run;
};

class TopkCheck {
 public:
  TopkCheck(const TopkCase& c, const TopkMachine& machine) : c_(c), machine_(machine), rng_(c.seed) {}

  // "" where everything is right.
  std::string run() {
    const auto lines = static_cast<size_t>(c_.planes) * static_cast<size_t>(c_.rows);
    make_values(lines);
    make_candidates(lines);
    const int32_t m_blocks = c_.tile_m > 0 ? (c_.rows - 1) / tokens() + 1 : 0;
    make_tiles(m_blocks);

    std::vector<TopkRow> rows(lines, TopkRow{0x55555555, 0x55555555});
    auto* const rows_there = static_cast<TopkRow*>(put(rows));
    const auto* const values = static_cast<const uint8_t*>(put(bytes_));
    const TopkKeys among = put(among_), within = put(within_);
    std::vector<TopkPlane> planes;
    for (int32_t p = 0; p < c_.planes; ++p) {
      const auto first = static_cast<size_t>(p * c_.rows);
      planes.push_back({.values = values + first * line_ * size_of(c_.dtype),
                        .stride_q = static_cast<int64_t>(line_),
                        .stride_kv = c_.step,
                        .s_kv = c_.keys,
                        .window = c_.window,
                        .first_row = p * c_.rows,
                        .num_rows = c_.rows,
                        .rows = c_.rows_wanted ? rows_there + first : nullptr,
                        .among = from_row(among, first),
                        .within = from_row(within, first),
                        .first_m_block = p * m_blocks});
    }
    std::vector<uint32_t> units(bit_tiles_ * static_cast<size_t>(c_.tile_m) * 4, 0xdeadbeefu), flags(bit_tiles_, 0);
    TopkParams params{};
    params.planes = static_cast<const TopkPlane*>(put(planes));
    params.num_planes = c_.planes;
    params.num_rows = c_.planes * c_.rows;
    if (c_.tile_m > 0) {
      params.tiles = {static_cast<const BuildDraft*>(put(drafts_)),
                      static_cast<const Run*>(put(runs_)),
                      static_cast<uint32_t*>(put(units)),
                      static_cast<uint32_t*>(put(flags)),
                      c_.tile_m,
                      fold_of(c_.fold)};
    }
    machine_.run(params, choose_topk_select(c_.dtype, params.num_rows, c_.keys, machine_.device));
    get(rows, rows_there);
    if (c_.tile_m > 0) {
      get(units, params.tiles.bit_units);
      get(flags, params.tiles.unit_flags);
    }
    for (size_t line = 0; line < lines; ++line) {
      kept_.push_back(kept(line));
      std::string wrong = c_.rows_wanted ? compare_row(line, rows[line]) : "";
      if (!wrong.empty()) return wrong;
    }
    return c_.tile_m > 0 ? compare_tiles(m_blocks, units, flags) : "";
  }

 private:
  // What of each row counts.
  struct Keys {
    bool has_limits = false, has_words = false, alike = false;
    std::vector<TopkLimits> limits;
    std::vector<uint32_t> words;
  };
  int32_t tokens() const { return c_.tile_m / c_.fold; }  // of a tile
  size_t line_words() const { return static_cast<size_t>(topk_line_words(c_.keys)); }
  // Rows that are alike are so inside a plane.
  size_t line_of(const Keys& keys, size_t line) const {
    const auto rows = static_cast<size_t>(c_.rows);
    return keys.alike ? line / rows * rows : line;
  }
  bool counts(const Keys& keys, size_t line, int32_t key) const {
    line = line_of(keys, line);
    if (keys.has_limits && (key < keys.limits[line].begin || key >= keys.limits[line].end)) return false;
    const size_t word = line * line_words() + static_cast<size_t>(key / 128 * 4 + key % 8 / 2);
    return !keys.has_words || (keys.words[word] >> (key % 128 / 8 * 2 + key % 2) & 1) != 0;
  }
  TopkKeys put(const Keys& keys) {
    TopkKeys there{nullptr, nullptr, keys.alike ? 0 : 1};
    if (keys.has_limits) there.limits = static_cast<const TopkLimits*>(put(keys.limits));
    if (keys.has_words) there.words = static_cast<const uint32_t*>(put(keys.words));
    return there;
  }
  TopkKeys from_row(TopkKeys keys, size_t row) const {
    if (keys.limits != nullptr) keys.limits += row;
    if (keys.words != nullptr) keys.words += row * line_words();
    return keys;
  }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(rng_); }

  template <class T>
  void* put(const std::vector<T>& data) {
    return machine_.put(data.data(), data.size() * sizeof(T));
  }
  template <class T>
  void get(std::vector<T>& to, const void* from) {
    machine_.get(to.data(), from, to.size() * sizeof(T));
  }

  uint32_t bits_of(float x) const {
    if (c_.dtype == DType::f32) return std::bit_cast<uint32_t>(x);
    return c_.dtype == DType::f16 ? f32_to_f16(x) : f32_to_bf16(x);
  }
  float value_of(uint32_t bits) const {
    if (c_.dtype == DType::f32) return std::bit_cast<float>(bits);
    const auto half = static_cast<uint16_t>(bits);
    return c_.dtype == DType::f16 ? f16_to_f32(half) : bf16_to_f32(half);
  }

  void make_values(size_t lines) {
    const auto keys = static_cast<size_t>(c_.keys), step = static_cast<size_t>(c_.step);
    line_ = keys * step + static_cast<size_t>(c_.pad);
    std::vector<uint32_t> all(lines * line_);
    std::normal_distribution<float> normal;
    for (uint32_t& x : all) x = static_cast<uint32_t>(rng_());  // what lies between is never read, or anything
    bits_.resize(lines * keys);
    for (size_t line = 0; line < lines; ++line) {
      const float shift = 4 * normal(rng_);
      for (size_t key = 0; key < keys; ++key) {
        uint32_t bits = static_cast<uint32_t>(rng_());
        switch (c_.values) {
          case TopkValues::normal:
            bits = bits_of(normal(rng_) + (c_.seed % 2 ? shift : 0));
            break;
          case TopkValues::few:
            bits = bits_of(std::floor(2 * normal(rng_)));
            break;
          case TopkValues::equal:
            bits = bits_of(shift);
            break;
          case TopkValues::zeros: {
            const float some[] = {0.0f, -0.0f, 1e-7f, -1e-7f, 1e-40f, INFINITY, -INFINITY, NAN};
            bits = bits_of(some[pick(0, 9) % 8]);
            break;
          }
          case TopkValues::nothing:
            bits = bits_of(pick(0, 300) == 0 ? 1.0f : pick(0, 1) ? NAN : -INFINITY);
            break;
          case TopkValues::ascending:
            bits = bits_of(static_cast<float>(key));
            break;
          default:
            break;
        }
        if (c_.dtype != DType::f32) bits &= 0xffff;
        bits_[line * keys + key] = all[line * line_ + key * step] = bits;
      }
    }
    bytes_.resize(all.size() * size_of(c_.dtype));
    for (size_t i = 0; i < all.size(); ++i) std::memcpy(&bytes_[i * size_of(c_.dtype)], &all[i], size_of(c_.dtype));
  }

  void make_candidates(size_t lines) {
    const auto interval = [this] {
      TopkLimits limits{pick(-3, c_.keys), pick(0, c_.keys + 3)};
      if (pick(0, 4) == 0) limits = {0, c_.keys};
      return limits;
    };
    const auto make = [&](Keys& keys, TopkAmong what, bool alike) {
      keys.has_limits = what == TopkAmong::limits || what == TopkAmong::both;
      keys.has_words = what == TopkAmong::words || what == TopkAmong::both;
      keys.alike = alike;
      for (size_t line = 0; line < lines; ++line) keys.limits.push_back(interval());
      keys.words.resize(lines * line_words());
      for (uint32_t& word : keys.words) word = static_cast<uint32_t>(pick(0, 3) == 0 ? ~uint64_t{0} : rng_() & rng_());
    };
    make(among_, c_.among, c_.among_alike);
    make(within_, c_.within, c_.within_alike);
  }

  void make_tiles(int32_t m_blocks) {
    const int32_t n_blocks = (c_.keys - 1) / 128 + 1;
    for (int32_t block = 0; block < c_.planes * m_blocks; ++block) {
      if (pick(0, 9) == 0) {
        drafts_.push_back({static_cast<int32_t>(runs_.size()), 0, 0});
        continue;
      }
      const int32_t begin = pick(0, 2) == 0 ? pick(0, n_blocks - 1) : 0;
      const int32_t end = pick(0, 2) == 0 ? pick(begin + 1, n_blocks) : n_blocks;
      drafts_.push_back({static_cast<int32_t>(runs_.size()), 1, static_cast<int32_t>(bit_tiles_)});
      runs_.push_back({begin, end, RunKind::partial, static_cast<int32_t>(bit_tiles_)});
      bit_tiles_ += static_cast<size_t>(end - begin);
    }
  }

  bool candidate(size_t line, int32_t key) const { return counts(among_, line, key); }

  // By sorting.
  std::vector<bool> kept(size_t line) const {
    std::vector<std::pair<float, int32_t>> order;
    for (int32_t key = 0; key < c_.keys; ++key) {
      const float x = value_of(bits_[line * static_cast<size_t>(c_.keys) + static_cast<size_t>(key)]);
      if (candidate(line, key) && !std::isnan(x) && x != -INFINITY) order.emplace_back(x, key);
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    if (order.size() > static_cast<size_t>(c_.window)) order.resize(static_cast<size_t>(c_.window));
    std::vector<bool> kept(static_cast<size_t>(c_.keys));
    for (const auto& [value, key] : order) kept[static_cast<size_t>(key)] = true;
    return kept;
  }

  std::string compare_row(size_t line, const TopkRow& row) {
    for (int32_t key = 0; key < c_.keys; ++key) {
      const uint32_t bits = bits_[line * static_cast<size_t>(c_.keys) + static_cast<size_t>(key)];
      const float x = value_of(bits);
      const int sign = c_.dtype == DType::f32 ? 31 : 15;
      const auto magnitude = static_cast<int32_t>(bits & ((1u << sign) - 1));
      const int32_t code = bits >> sign & 1 ? -magnitude : magnitude;
      const bool says =
          candidate(line, key) && !std::isnan(x) && (code > row.key || (code == row.key && key <= row.tie));
      if (says != kept_.back()[static_cast<size_t>(key)]) {
        return cat("row ", line, ", key ", key, " of value ", x, says ? " is kept" : " is dropped", ": {", row.key,
                   ", ", row.tie, "}");
      }
    }
    return "";
  }

  std::string compare_tiles(int32_t m_blocks, const std::vector<uint32_t>& units,
                            const std::vector<uint32_t>& flags) const {
    for (int32_t block = 0; block < c_.planes * m_blocks; ++block) {
      const BuildDraft& draft = drafts_[static_cast<size_t>(block)];
      if (draft.num_runs == 0) continue;
      const Run& run = runs_[static_cast<size_t>(draft.run_begin)];
      for (int32_t n = run.n_begin; n < run.n_end; ++n) {
        const auto tile = static_cast<size_t>(run.bits + n - run.n_begin);
        uint32_t found = 0;
        for (int32_t line = 0; line < c_.tile_m; ++line) {
          const int32_t q = block % m_blocks * tokens() + line / c_.fold;
          for (int32_t col = 0; col < 128; ++col) {
            const int32_t key = n * 128 + col, in_plane = q < c_.rows && key < c_.keys;
            const auto row = static_cast<size_t>(block / m_blocks * c_.rows + q);
            const bool expected = in_plane && kept_[row][static_cast<size_t>(key)] && counts(within_, row, key);
            const uint32_t word = units[(tile * static_cast<size_t>(c_.tile_m) + static_cast<size_t>(line)) * 4 +
                                        static_cast<size_t>(col % 8 / 2)];
            if ((word >> (col / 8 * 2 + col % 2) & 1) != static_cast<uint32_t>(expected))
              return cat("tile ", tile, ", row ", line, ", column ", col, " should be ", expected);
            found |= (expected ? 1u : in_plane ? 6u : 2u) << (8 * (line / 64));
          }
        }
        if (found != flags[tile]) return cat("tile ", tile, " has flags ", flags[tile], ", expected ", found);
      }
    }
    return "";
  }

  const TopkCase& c_;
  const TopkMachine& machine_;
  std::mt19937 rng_;
  size_t line_ = 0, bit_tiles_ = 0;
  std::vector<uint32_t> bits_;  // [lines][keys]
  std::vector<uint8_t> bytes_;  // as the kernel sees them
  Keys among_, within_;
  std::vector<BuildDraft> drafts_;
  std::vector<Run> runs_;
  std::vector<std::vector<bool>> kept_;
};

}  // namespace anymask
