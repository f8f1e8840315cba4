#include "cli/call.h"

#include <cstring>

#include "cli/call_arguments.h"

namespace anymask::cli {

namespace {

Tensor poisoned(const char* name, ElementType type, const std::vector<int64_t>& shape) {
  Tensor tensor = make_tensor(name, type, shape);
  if (tensor.data) std::memset(tensor.data.get(), 0xff, static_cast<size_t>(tensor.bytes()));
  return tensor;
}

int64_t integer(const Tensor& tensor, int64_t index) {
  return tensor.type == ElementType::i32 ? tensor.as<int32_t>()[index] : tensor.as<int64_t>()[index];
}

}  // namespace

std::vector<Tensor*> Results::all() {
  std::vector<Tensor*> present;
  for (Tensor* tensor : {&out, &lse, &dq, &dk, &dv, &dbias, &dsinks}) {
    if (tensor->present) present.push_back(tensor);
  }
  return present;
}
std::vector<const Tensor*> Results::all() const {
  const std::vector<Tensor*> present = const_cast<Results*>(this)->all();
  return {present.begin(), present.end()};
}

std::vector<Stretch> stretches(const Call& call) {
  std::vector<Stretch> list;
  if (!call.packed()) {
    for (int64_t b = 0; b < call.q.shape[0]; ++b) {
      list.push_back({b * call.q.shape[1], call.q.shape[1], b * call.k.shape[1], call.k.shape[1]});
    }
    return list;
  }
  const Tensor& cu_q = call.cu_seqlens_q;
  const Tensor& cu_kv = call.cu_seqlens_kv.present ? call.cu_seqlens_kv : cu_q;
  for (int64_t i = 0; i + 1 < cu_q.numel(); ++i) {
    const int64_t q0 = integer(cu_q, i), kv0 = integer(cu_kv, i);
    list.push_back({q0, integer(cu_q, i + 1) - q0, kv0, integer(cu_kv, i + 1) - kv0});
  }
  return list;
}

void check_ranks(const Call& call) {
  const size_t rank = call.packed() ? 3 : 4;
  for (const Tensor* tensor : {&call.q, &call.k, &call.v}) {
    if (tensor->shape.size() == rank) continue;
    throw UsageError(tensor->name + " has shape " + tensor->shape_text() +
                     (call.packed() ? "; with cu_seqlens expected [total, heads, dim]: drop the batch axis"
                                    : "; expected [batch, tokens, heads, dim]: add axes, or give --cu-seqlens-q for "
                                      "packed [total, heads, dim]"));
  }
}

Results allocate_results(const Call& call, bool backward, bool wide) {
  const ElementType type = wide ? ElementType::f64 : call.q.type;
  const ElementType wide_f32 = wide ? ElementType::f64 : ElementType::f32;
  Results results;
  std::vector<int64_t> shape = call.q.shape;
  shape.back() = call.d_v();
  results.out = poisoned("out", type, shape);
  const std::vector<int64_t> rows = call.packed() ? std::vector<int64_t>{call.h_q(), call.q.shape[0]}
                                                  : std::vector<int64_t>{call.q.shape[0], call.h_q(), call.q.shape[1]};
  results.lse = poisoned("lse", wide_f32, rows);
  if (!backward) return results;
  results.dq = poisoned("dq", type, call.q.shape);
  results.dk = poisoned("dk", type, call.k.shape);
  results.dv = poisoned("dv", type, call.v.shape);
  if (call.bias.present) results.dbias = poisoned("dbias", wide_f32, call.bias.shape);
  if (call.sinks.present) results.dsinks = poisoned("dsinks", wide_f32, call.sinks.shape);
  return results;
}

CallLengths::CallLengths(const Call& call) {
  value.struct_size = sizeof(anymask_lengths);
  if (call.packed()) {
    cu_q = call.cu_seqlens_q.view();
    cu_kv = (call.cu_seqlens_kv.present ? call.cu_seqlens_kv : call.cu_seqlens_q).view();
    value.cu_seqlens_q = &cu_q;
    value.cu_seqlens_kv = &cu_kv;
  } else {
    value.batch = call.q.shape[0];
    value.s_q = call.q.shape[1];
    value.s_kv = call.k.shape[1];
  }
  value.h_q = call.h_q();
  value.h_kv = call.h_kv();
}

std::string explain_json(const Call& call, bool backward) {
  CallArguments arguments(call);
  if (call.backend == "cuda") arguments.pretend_device(0);
  if (backward) arguments.options.dlse = arguments.view(call.dlse);
  char* json = nullptr;
  check(anymask_explain(arguments.view(call.q), arguments.view(call.k), arguments.view(call.v), &arguments.options,
                        backward ? 1 : 0, &json));
  return take(json);
}

PairCount count_pairs(const Call& call) {
  const CallLengths lengths(call);
  PairCount count;
  if (!call.mask) {
    for (const Stretch& s : stretches(call)) count.pairs += s.s_q * s.s_kv * call.h_q();
    count.kept = count.pairs;
    return count;
  }
  check(anymask_mask_count(call.mask.get(), &lengths.value, &count.kept, &count.pairs));
  return count;
}

double forward_flops(const Call& call, int64_t kept) {
  return 2.0 * static_cast<double>(call.d_qk() + call.d_v()) * static_cast<double>(kept);
}

double backward_flops(const Call& call, int64_t kept) {
  return 2.0 * static_cast<double>(3 * call.d_qk() + 2 * call.d_v()) * static_cast<double>(kept);
}

}  // namespace anymask::cli
