// From a plan's runs and bit tiles to cells: every run of tiles is laid over the grid of cells and its kept pairs are
// counted there. Time is that of the plan plus one pass over its bit tiles; memory is the plan and rows x cols
// counters.
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <span>

#include "cli/library.h"
#include "cli/picture/picture.h"

namespace anymask::cli {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Positions a cell must hold so that `length` of them fit in `most` cells: aligned to the tile (a divisor or a multiple
// of it) unless that would make cells twice as large as needed.
int64_t cell_side(int64_t length, int64_t most, int64_t tile) {
  const int64_t need = std::max<int64_t>(1, ceil_div(length, most));
  int64_t aligned = ceil_div(need, tile) * tile;
  for (int64_t side = need; side < tile && side < 2 * need; ++side) {
    if (tile % side == 0) {
      aligned = side;
      break;
    }
  }
  return aligned < 2 * need ? aligned : need;
}

// Most cells along one side: in proportion to the plane, but at least an eighth of the other side's.
int64_t side_room(int64_t most, int64_t length, int64_t other_most, int64_t other_length) {
  if (length >= other_length) return most;
  const double proportion = std::max(static_cast<double>(length) / static_cast<double>(other_length), 0.125);
  return std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(other_most) * proportion + 0.5), 1, most);
}

// Counts over the cells of one plane, m downwards and n to the right as the plan has them.
class Grid {
 public:
  Grid(int64_t rows, int64_t cols, int64_t cell_m, int64_t cell_n)
      : rows_(rows),
        cols_(cols),
        cell_m_(cell_m),
        cell_n_(cell_n),
        m_cells_(ceil_div(rows, cell_m)),
        n_cells_(ceil_div(cols, cell_n)),
        kept_(static_cast<size_t>(m_cells_ * n_cells_)),
        seen_(kept_.size()) {}

  // Tiles of one kind over rows [m0, m1) and columns [n0, n1).
  void whole(int64_t m0, int64_t m1, int64_t n0, int64_t n1, TileKind kind) {
    m1 = std::min(m1, rows_), n1 = std::min(n1, cols_);
    for (int64_t i = m0 / cell_m_; i * cell_m_ < m1; ++i) {
      const int64_t height = std::min(m1, (i + 1) * cell_m_) - std::max(m0, i * cell_m_);
      for (int64_t j = n0 / cell_n_; j * cell_n_ < n1; ++j) {
        const size_t at = static_cast<size_t>(i * n_cells_ + j);
        seen_[at] |= bit(kind);
        if (kind == TileKind::full) kept_[at] += height * (std::min(n1, (j + 1) * cell_n_) - std::max(n0, j * cell_n_));
      }
    }
  }

  // One PARTIAL tile at (m0, n0): bits [tile_m, words], of which `set` are 1 (none beyond the plane).
  void partial(int64_t m0, int64_t n0, int64_t tile_m, int64_t words, const uint64_t* bits, int64_t set) {
    const int64_t m1 = std::min(m0 + tile_m, rows_), n1 = std::min(n0 + 64 * words, cols_);
    whole(m0, m1, n0, n1, TileKind::partial);
    if (m0 / cell_m_ == (m1 - 1) / cell_m_ && n0 / cell_n_ == (n1 - 1) / cell_n_) {  // the tile lies in one cell
      kept_[static_cast<size_t>(m0 / cell_m_ * n_cells_ + n0 / cell_n_)] += set;
      return;
    }
    for (int64_t m = m0; m < m1; ++m) {
      const uint64_t* row = bits + (m - m0) * words;
      int64_t* cells = kept_.data() + m / cell_m_ * n_cells_;
      for (int64_t w = 0; w < words; ++w) {
        uint64_t left = row[w];
        const int64_t word_begin = n0 + 64 * w;
        while (left != 0) {  // the cell of the lowest bit, then all its bits of this word
          const int64_t j = (word_begin + std::countr_zero(left)) / cell_n_;
          const int64_t end = (j + 1) * cell_n_ - word_begin;
          const uint64_t here = end >= 64 ? left : left & ((uint64_t{1} << end) - 1);
          if (j < n_cells_) cells[j] += std::popcount(here);
          left &= ~here;
        }
      }
    }
  }

  float share(int64_t i, int64_t j) const {
    const int64_t height = std::min(rows_, (i + 1) * cell_m_) - i * cell_m_;
    const int64_t width = std::min(cols_, (j + 1) * cell_n_) - j * cell_n_;
    return static_cast<float>(static_cast<double>(kept_[static_cast<size_t>(i * n_cells_ + j)]) /
                              static_cast<double>(height * width));
  }
  TileKind kind(int64_t i, int64_t j) const {
    const uint8_t seen = seen_[static_cast<size_t>(i * n_cells_ + j)];
    if (seen & bit(TileKind::partial)) return TileKind::partial;
    if (seen == bit(TileKind::full)) return TileKind::full;
    return seen == bit(TileKind::empty) ? TileKind::empty : TileKind::mixed;
  }

 private:
  static constexpr uint8_t bit(TileKind kind) { return static_cast<uint8_t>(1u << static_cast<unsigned>(kind)); }
  int64_t rows_, cols_, cell_m_, cell_n_, m_cells_, n_cells_;
  std::vector<int64_t> kept_;
  std::vector<uint8_t> seen_;
};

void lay_plane(const anymask_plan_view& plan, const anymask_plan_plane& plane, Grid& grid) {
  const int64_t tile_m = plan.tile_m, tile_n = plan.tile_n, words = tile_n / 64;
  // Equal tiles are one bit tile: bits are counted once each, when first met.
  std::vector<int64_t> set(static_cast<size_t>(plan.num_bit_tiles), -1);
  for (int64_t m_block = 0; m_block < plane.m_blocks; ++m_block) {
    const int64_t m0 = m_block * tile_m, m1 = m0 + tile_m;
    const int64_t* row = plan.row_begin + plane.first_row + m_block;
    int64_t next = 0;  // tiles before this one are drawn
    for (const anymask_run& run : std::span(plan.runs + row[0], plan.runs + row[1])) {
      grid.whole(m0, m1, next * tile_n, run.n_begin * tile_n, TileKind::empty);
      next = run.n_end;
      if (run.kind == 0) {
        grid.whole(m0, m1, run.n_begin * tile_n, run.n_end * tile_n, TileKind::full);
        continue;
      }
      for (int64_t n = run.n_begin; n < run.n_end; ++n) {
        const int64_t tile = run.bits + (run.kind == 1 ? n - run.n_begin : 0);
        const uint64_t* bits = plan.bit_tiles + tile * tile_m * words;
        int64_t& count = set[static_cast<size_t>(tile)];
        if (count < 0) {
          count = 0;
          for (int64_t i = 0; i < tile_m * words; ++i) count += std::popcount(bits[i]);
        }
        grid.partial(m0, n * tile_n, tile_m, words, bits, count);
      }
    }
    grid.whole(m0, m1, next * tile_n, plane.n_blocks * tile_n, TileKind::empty);
  }
}

struct Planned {
  PlanHandle handle;
  anymask_plan_view view{};
  std::string title;
  int64_t h_q = 1;
};

Planned make_plan(anymask_mask_t mask, const anymask_lengths& lengths, const PictureOptions& options) {
  anymask_plan_options request{};
  request.struct_size = sizeof request;
  request.tile_m = options.tile_m;
  request.tile_n = options.tile_n;
  request.transposed = options.transposed;
  Planned planned;
  anymask_plan_t plan = nullptr;
  check(anymask_plan_create(mask, &lengths, &request, &plan));
  planned.handle.reset(plan);
  planned.view.struct_size = sizeof planned.view;
  check(anymask_plan_get(plan, &planned.view));
  char* text = nullptr;
  check(anymask_mask_text(mask, &text));
  planned.title = take(text);
  planned.h_q = std::max<int64_t>(lengths.h_q, 1);
  const int64_t sequences = planned.view.num_sequences;
  if (options.sequence < 0 || options.sequence >= sequences) {
    throw UsageError(sequences == 0
                         ? "there are no sequences to draw; expected at least one in --batch or --cu-seqlens-q"
                         : fmt::format("--sequence is {}; expected 0 to {}: there are {} of them", options.sequence,
                                       sequences - 1, sequences));
  }
  if (options.head < 0 || options.head >= planned.h_q) {
    throw UsageError(
        fmt::format("--head is {}; expected 0 to {}: raise --heads to see more", options.head, planned.h_q - 1));
  }
  return planned;
}

int32_t plane_index(const Planned& planned, int64_t sequence, int64_t head) {
  return planned.view.plane_of[sequence * planned.view.heads + (planned.view.heads == 1 ? 0 : head)];
}

MaskPicture draw_plane(const Planned& planned, int32_t index, const PictureOptions& options) {
  const anymask_plan_view& plan = planned.view;
  const anymask_plan_plane& plane = plan.planes[index];
  const bool transposed = plan.transposed != 0;
  MaskPicture picture;
  picture.title = planned.title;
  picture.transposed = transposed;
  picture.s_q = transposed ? plane.cols : plane.rows;
  picture.s_kv = transposed ? plane.rows : plane.cols;
  picture.tile_q = transposed ? plan.tile_n : plan.tile_m;
  picture.tile_kv = transposed ? plan.tile_m : plan.tile_n;
  picture.kept = plane.kept_pairs;
  picture.pairs = plane.rows * plane.cols;
  picture.full_tiles = plane.full_tiles;
  picture.partial_tiles = plane.partial_tiles;
  picture.empty_tiles = static_cast<int64_t>(plane.m_blocks) * plane.n_blocks - plane.full_tiles - plane.partial_tiles;
  if (plan.num_sequences > 1) picture.note = fmt::format("sequence {} of {}", options.sequence, plan.num_sequences);
  if (picture.pairs == 0) return picture;

  const int64_t most_rows = side_room(options.max_rows, picture.s_q, options.max_cols, picture.s_kv);
  const int64_t most_cols = side_room(options.max_cols, picture.s_kv, options.max_rows, picture.s_q);
  picture.cell_q = cell_side(picture.s_q, most_rows, picture.tile_q);
  picture.cell_kv = cell_side(picture.s_kv, most_cols, picture.tile_kv);
  picture.rows = ceil_div(picture.s_q, picture.cell_q);
  picture.cols = ceil_div(picture.s_kv, picture.cell_kv);

  Grid grid(plane.rows, plane.cols, transposed ? picture.cell_kv : picture.cell_q,
            transposed ? picture.cell_q : picture.cell_kv);
  lay_plane(plan, plane, grid);
  for (int64_t i = 0; i < picture.rows; ++i) {
    for (int64_t j = 0; j < picture.cols; ++j) {
      picture.share.push_back(transposed ? grid.share(j, i) : grid.share(i, j));
      picture.tile.push_back(transposed ? grid.kind(j, i) : grid.kind(i, j));
    }
  }
  return picture;
}

// "head 3", "heads 0-3, 7".
std::string heads_text(const std::vector<int64_t>& heads) {
  std::string text = heads.size() == 1 ? "head " : "heads ";
  for (size_t i = 0; i < heads.size();) {
    size_t end = i + 1;
    while (end < heads.size() && heads[end] == heads[end - 1] + 1) ++end;
    if (i > 0) text += ", ";
    text += end - i == 1 ? fmt::format("{}", heads[i]) : fmt::format("{}-{}", heads[i], heads[end - 1]);
    i = end;
  }
  return text;
}

void add_note(MaskPicture& picture, const std::string& note) {
  picture.note += (picture.note.empty() ? "" : ", ") + note;
}

}  // namespace

MaskPicture make_picture(anymask_mask_t mask, const anymask_lengths& lengths, const PictureOptions& options) {
  const Planned planned = make_plan(mask, lengths, options);
  MaskPicture picture = draw_plane(planned, plane_index(planned, options.sequence, options.head), options);
  if (planned.view.heads > 1) add_note(picture, fmt::format("head {} of {}", options.head, planned.h_q));
  return picture;
}

std::vector<MaskPicture> make_head_pictures(anymask_mask_t mask, const anymask_lengths& lengths,
                                            const PictureOptions& options) {
  const Planned planned = make_plan(mask, lengths, options);
  std::vector<int32_t> planes;
  std::vector<std::vector<int64_t>> heads_of;
  for (int64_t head = 0; head < planned.h_q; ++head) {
    const int32_t index = plane_index(planned, options.sequence, head);
    const auto at = static_cast<size_t>(std::find(planes.begin(), planes.end(), index) - planes.begin());
    if (at == planes.size()) planes.push_back(index), heads_of.emplace_back();
    heads_of[at].push_back(head);
  }
  std::vector<MaskPicture> pictures;
  for (size_t i = 0; i < planes.size(); ++i) {
    pictures.push_back(draw_plane(planned, planes[i], options));
    if (planes.size() > 1) add_note(pictures.back(), heads_text(heads_of[i]));
  }
  return pictures;
}

}  // namespace anymask::cli
