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

// Whether blocks that wait for memory once and for no other kernel are faster than fewer products (docs/notes/sm80.md,
// Backward).
void choose_small(const AttentionProblem& problem, const CudaDevice& device, Sm80AttentionBwdConfig& c) {
  const int64_t head_dim = std::max(problem.d_qk, problem.d_v);
  const int32_t rounded = head_dim <= 16 ? 16 : head_dim <= 32 ? 32 : head_dim <= 64 ? 64 : 128;
  const auto blocks_of = [](int64_t tokens) { return (tokens + sm80_bwd_small_rows - 1) / sm80_bwd_small_rows; };
  int64_t blocks = 0;
  for (const Sequence& s : problem.sequences)
    blocks += blocks_of(s.s_kv) * problem.h_kv + blocks_of(s.s_q) * problem.h_q;
  const bool one_wave = blocks <= int64_t{device.num_sms} * sm80_bwd_small_blocks(rounded);
  constexpr int64_t most = 65535;  // of a grid's second and third axis
  if (c.natural) {
    c.why_not_small = "scores have a softcap, a bias or ALiBi";
  } else if (problem.dsinks.defined()) {
    c.why_not_small = "the gradient of the sinks is a sum over all rows";
  } else if (head_dim > 128) {
    c.why_not_small = "head dims beyond 128 leave it no registers";
  } else if (std::max(problem.max_s_q, problem.max_s_kv) > sm80_bwd_small_tokens(rounded, one_wave)) {
    c.why_not_small = "sequences are longer than what seven products a tile are worth";
  } else if (static_cast<int64_t>(problem.sequences.size()) > most || problem.h_q > most) {
    c.why_not_small = "there are more than 65,535 sequences or heads";
  } else {
    c.small_head_dim = rounded;
    c.small_key_blocks = static_cast<int32_t>(blocks_of(problem.max_s_kv));
    c.small_query_blocks = static_cast<int32_t>(blocks_of(problem.max_s_q));
  }
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
  choose_small(problem, device, c);
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

std::vector<Fact> Sm80AttentionBwdConfig::small_facts() const {
  return {{"kernel", "sm80_attention_bwd_small"},
          {"head dim", cat(small_head_dim)},
          {"launches", "one, of blocks of keys and blocks of queries"},
          {"copies", aligned ? "16 bytes" : "element by element: strides or addresses are not multiples of 16 bytes"}};
}

}  // namespace anymask
