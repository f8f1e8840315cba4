#include "cuda/config/sm80_attention_bwd.h"

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "cuda/config/facts.h"

namespace anymask {
namespace {

int32_t head_dim_class(int64_t dim) {
  for (const int32_t size : {32, 64, 96, 128, 192})
    if (dim <= size) return size;
  return 256;
}

}  // namespace

Sm80AttentionBwdConfig choose_sm80_attention_bwd(const AttentionProblem& problem, const CudaDevice& device,
                                                 bool group_shares_plane) {
  Sm80AttentionBwdConfig c;
  c.dtype = problem.dtype;
  c.head_dim = head_dim_class(std::max(problem.d_qk, problem.d_v));
  c.small_tiles = device.shared_bytes < 163 * 1024;
  c.tiles = sm80_bwd_tiles(c.head_dim, c.small_tiles);

  c.aligned = true;
  for (const Tensor4* t :
       {&problem.q, &problem.k, &problem.v, &problem.out, &problem.dout, &problem.dq, &problem.dk, &problem.dv})
    c.aligned = c.aligned && rows_aligned(*t);
  c.natural = problem.softcap > 0 || problem.bias.defined() || problem.alibi.defined();

  if (problem.dbias.defined()) {
    const Bias& b = problem.dbias;
    std::copy(std::begin(b.shape), std::end(b.shape), std::begin(c.dbias_shape));
    const bool broadcast = (b.shape[0] == 1 && problem.sequences.size() > 1) || (b.shape[1] == 1 && problem.h_q > 1) ||
                           b.group > 1 || (b.shape[2] == 1 && problem.max_s_q > 1);
    c.dbias = broadcast ? Sm80AttentionBwdConfig::Dbias::summed : Sm80AttentionBwdConfig::Dbias::stored;
  }
  c.two_passes = problem.deterministic || problem.dbias.defined();
  c.why_passes = problem.dbias.defined() ? "dbias is written by the pass that owns query rows"
                 : problem.deterministic ? "deterministic: no atomics on floats"
                                         : "5 products a tile instead of 7";

  // Items of the dK/dV pass, were a group one item.
  int64_t tiles = 0;
  for (const Sequence& s : problem.sequences) tiles += (s.s_kv + c.tiles.keys - 1) / c.tiles.keys;
  const bool enough = tiles * problem.h_kv >= 2 * int64_t{device.num_sms};
  c.per_kv_head = problem.group() == 1 || (group_shares_plane && enough);
  c.why_per_head = problem.group() == 1  ? "one query head a kv head"
                   : !group_shares_plane ? "the heads of a group keep different pairs"
                   : enough              ? "key tiles enough for every SM"
                                         : "too few key tiles to fill the device by kv heads";
  return c;
}

std::vector<Fact> Sm80AttentionBwdConfig::facts() const {
  const char* const sums = dbias == Dbias::none     ? "not wanted"
                           : dbias == Dbias::stored ? "stored pair by pair"
                                                    : "summed in fixed point, in any order to the same bits";
  return {{"kernel", "sm80_attention_bwd"},
          {"head dim", cat(head_dim)},
          {"dK/dV tile", cat(tiles.keys, " keys x ", tiles.queries, " queries, ", tiles.stages,
                             tiles.stages == 1 ? " buffer" : " buffers")},
          {"dQ", two_passes ? cat("a second pass, ", tiles.dq_rows, " queries x ", tiles.dq_keys, " keys: ", why_passes)
                            : cat("added in fp32 by the dK/dV pass: ", why_passes)},
          {"dK, dV", per_kv_head ? cat("in registers: ", why_per_head) : cat("fp32 sums a query head: ", why_per_head)},
          {"copies", aligned ? "16 bytes" : "element by element: strides or addresses are not multiples of 16 bytes"},
          {"dbias", sums}};
}

}  // namespace anymask
