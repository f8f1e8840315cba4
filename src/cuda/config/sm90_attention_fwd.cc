#include "cuda/config/sm90_attention_fwd.h"

#include <algorithm>

#include "core/error.h"
#include "cuda/config/facts.h"

namespace anymask {
namespace {

int32_t shape_for(int64_t d_qk, int64_t d_v) { return first_shape(sm90_forward_shapes, d_qk, d_v); }

// What a tensor map asks for: 16 bytes, and strides that count upwards, below 2^40 bytes (2^34 for the tokens of a
// packed tensor: launch/tensor_map.h).
bool has_map(const Tensor4& t, bool packed) {
  constexpr int64_t limit = int64_t{1} << 39;
  const auto fits = [](int64_t stride, int64_t below) { return stride >= 0 && stride < below && stride % 8 == 0; };
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && fits(t.stride_b, limit) && fits(t.stride_h, limit) &&
         fits(t.stride_s, packed ? int64_t{1} << 33 : limit);
}

// Whether the next shape, of more rows a tile, does better: where rows are long (measured: +2% from 4,096 keys a row
// on, +7% at 16,384; -2% and more below, docs/notes/sm90_forward.md), tiles are many, and are not much emptier.
bool takes_long_rows(const AttentionProblem& problem, const Sm90ForwardConfig& c) {
  const int32_t next = c.shape_index + 1;
  if (c.modified || next >= sm90_forward_num_shapes || !sm90_forward_shapes[next].long_rows) return false;
  const int64_t taller = sm90_forward_shapes[next].tile_m(), items = count_items(problem, taller);
  return c.long_keys >= long_row && items >= 4 * int64_t{c.grid} &&
         100 * items * taller <= 104 * count_items(problem, c.shape.tile_m()) * c.shape.tile_m();
}

}  // namespace

Support sm90_attention_fwd_supports(const AttentionProblem& problem, const CudaDevice& device, bool with_reason) {
  const auto no = [with_reason](const auto&... reason) { return unsupported(with_reason, reason...); };
  if (device.major != 9)
    return no("it is made of Hopper's own instructions (compute capability 9.0), and this device has ", device.major,
              ".", device.minor);
  if (problem.dtype != DType::bf16 && problem.dtype != DType::f16)
    return no("tensors are ", name_of(problem.dtype), "; expected bfloat16 or float16: convert them");
  if (problem.d_qk % 8 != 0 || problem.d_v % 8 != 0 || shape_for(problem.d_qk, problem.d_v) < 0)
    return no("head dims are ", problem.d_qk, " and ", problem.d_v,
              "; expected multiples of 8 up to 256: pad them with zeros");
  const struct {
    const char* name;
    const Tensor4& tensor;
  } tensors[] = {{"q", problem.q}, {"k", problem.k}, {"v", problem.v}, {"out", problem.out}};
  for (const auto& [name, tensor] : tensors) {
    if (!has_map(tensor, problem.packed))
      return no(name, " starts at an address or has strides (", tensor.stride_b, ", ", tensor.stride_s, ", ",
                tensor.stride_h, " elements) that are no multiples of 16 bytes; expected that: copy it");
  }
  const Sm90ForwardShape shape = sm90_forward_shapes[shape_for(problem.d_qk, problem.d_v)];
  if (shape.tensor_bytes() + 1024 > device.shared_bytes)
    return no("it needs ", shape.tensor_bytes() + 1024, " bytes of shared memory, and a block may have ",
              device.shared_bytes);
  return {};
}

Sm90ForwardConfig choose_sm90_attention_fwd(const AttentionProblem& problem, const MaskFacts& mask,
                                            const CudaDevice& device) {
  Sm90ForwardConfig c;
  c.dtype = problem.dtype;
  c.shape_index = shape_for(problem.d_qk, problem.d_v);
  c.modified = modifies_scores(problem);
  c.shape = sm90_forward_shape(c.shape_index, c.modified);
  c.grid = std::max(device.num_sms, 1);
  c.long_keys = mask.long_keys;
  if (takes_long_rows(problem, c)) c.shape = sm90_forward_shape(++c.shape_index, c.modified);
  c.fold = mask.groups_share_plane ? choose_fold(problem, c.shape.tile_m()) : 1;
  c.keys_once = problem.max_s_q * c.fold <= c.shape.tile_m();
  c.parallelism = may_split(problem, count_items(problem, c.shape.tile_m(), c.fold), c.grid) ? c.grid : 0;
  return c;
}

std::ostream& operator<<(std::ostream& out, const Sm90ForwardConfig& c) {
  out << "sm90_attention_fwd, " << name_of(c.dtype) << ", head dims up to " << c.shape.d_qk << " and " << c.shape.d_v
      << ", tile " << c.shape.tile_m() << " x 128 in steps of " << c.shape.keys << " keys, " << c.shape.warpgroups
      << " warpgroups, " << c.shape.stages << " stages, Q in " << c.shape.q_slots
      << (c.shape.q_slots == 1 ? " slot, " : " slots, ") << c.grid << " blocks";
  if (c.fold > 1) out << ", " << c.fold << " query heads in a tile's rows";
  if (c.shape.long_rows) out << ", for long rows: about " << c.long_keys << " keys each";
  if (c.modified) out << ", modified scores";
  return out;
}

}  // namespace anymask
