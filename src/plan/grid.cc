#include "plan/grid.h"

#include <limits>

#include "core/error.h"

namespace anymask {
namespace {

constexpr int64_t max_tile_pairs = int64_t{1} << 28;  // a bit tile of 32 MiB
constexpr int64_t max_blocks = std::numeric_limits<int32_t>::max();

int32_t blocks(int64_t length, int32_t tile, const char* axis) {
  const int64_t count = length / tile + (length % tile != 0);
  if (count > max_blocks) {
    fail_invalid("plan: ", length, " ", axis, " make ", count, " tiles of ", tile, "; at most ", max_blocks,
                 " fit 32-bit tile indices: use a larger tile");
  }
  return static_cast<int32_t>(count);
}

}  // namespace

Grid make_grid(const PlaneMask& plane, const PlanRequest& request) {
  if (request.tile_m < 1) fail_invalid("plan: tile_m is ", request.tile_m, "; expected 1 or more");
  if (request.tile_n < 64 || request.tile_n % 64 != 0) {
    fail_invalid("plan: tile_n is ", request.tile_n,
                 "; expected a positive multiple of 64, since bits are kept in 64-bit words");
  }
  if (int64_t{request.tile_m} * request.tile_n > max_tile_pairs) {
    fail_invalid("plan: tiles of ", request.tile_m, " x ", request.tile_n, " hold more than ", max_tile_pairs,
                 " pairs: use a smaller tile_m or tile_n");
  }
  if (!(request.split_cost >= 0)) {
    fail_invalid("plan: split_cost is ", request.split_cost, "; expected tiles a piece, or 0 to split nothing");
  }
  Grid grid;
  grid.transposed = request.transposed;
  grid.rows = request.transposed ? plane.s_kv : plane.s_q;
  grid.cols = request.transposed ? plane.s_q : plane.s_kv;
  grid.tile_m = request.tile_m;
  grid.tile_n = request.tile_n;
  grid.m_blocks = blocks(grid.rows, grid.tile_m, request.transposed ? "keys" : "queries");
  grid.n_blocks = blocks(grid.cols, grid.tile_n, request.transposed ? "queries" : "keys");
  int64_t pairs = 0;
  if (__builtin_mul_overflow(grid.rows, grid.cols, &pairs)) {
    fail_invalid("plan: ", plane.s_q, " queries x ", plane.s_kv,
                 " keys are more pairs than 64 bits count: plan pieces of the call");
  }
  return grid;
}

}  // namespace anymask
