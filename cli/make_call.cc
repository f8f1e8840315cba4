#include "cli/make_call.h"

#include <algorithm>
#include <utility>

namespace anymask::cli {

Tensor random_tensor(const char* name, ElementType type, std::vector<int64_t> shape, Random& random) {
  Tensor tensor = make_tensor(name, type, std::move(shape));
  const int64_t count = tensor.numel();
  for (int64_t i = 0; i < count; ++i) set_element(tensor, i, random.normal());
  return tensor;
}

Tensor int_tensor(const char* name, const std::vector<int64_t>& values) {
  Tensor tensor = make_tensor(name, ElementType::i32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.as<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return tensor;
}

Tensor random_bias(const std::string& axes, ElementType type, int64_t batch, int64_t h_q, int64_t h_kv, int64_t s_q,
                   int64_t s_kv, Random& random) {
  return random_tensor("bias", type,
                       {axes[0] == 'b' ? batch : 1,
                        axes[1] == 'h'   ? h_q
                        : axes[1] == 'g' ? h_kv
                                         : 1,
                        axes[2] == 'q' ? s_q : 1, s_kv},
                       random);
}

Tensor random_alibi(int64_t batch, int64_t h_q, bool per_batch, Random& random) {
  Tensor slopes =
      make_tensor("alibi", ElementType::f32, per_batch ? std::vector<int64_t>{batch, h_q} : std::vector<int64_t>{h_q});
  for (int64_t i = 0; i < slopes.numel(); ++i) slopes.as<float>()[i] = static_cast<float>(0.5 * random.uniform());
  return slopes;
}

Call make_call(const cases::AttentionCase& c, ElementType type, bool backward, uint64_t seed) {
  Random random(seed);
  Call call;
  const bool packed = !c.cu_seqlens_q.empty();
  const auto shape = [&](int64_t s, int64_t h, int64_t d) {
    return packed ? std::vector<int64_t>{s, h, d} : std::vector<int64_t>{c.b, s, h, d};
  };
  call.q = random_tensor("q", type, shape(c.s_q, c.h_q, c.d_qk), random);
  call.k = random_tensor("k", type, shape(c.s_kv, c.h_kv, c.d_qk), random);
  call.v = random_tensor("v", type, shape(c.s_kv, c.h_kv, c.d_v), random);
  if (packed) call.cu_seqlens_q = int_tensor("cu_seqlens_q", c.cu_seqlens_q);
  if (!c.cu_seqlens_kv.empty()) call.cu_seqlens_kv = int_tensor("cu_seqlens_kv", c.cu_seqlens_kv);
  if (!c.bias.empty()) call.bias = random_bias(c.bias, ElementType::f32, c.b, c.h_q, c.h_kv, c.s_q, c.s_kv, random);
  if (c.alibi) call.alibi = random_alibi(c.b, c.h_q, false, random);
  if (c.sinks) call.sinks = random_tensor("sinks", ElementType::f32, {c.h_q}, random);
  if (backward) {
    call.dout = random_tensor("dout", type, shape(c.s_q, c.h_q, c.d_v), random);
    if (c.dlse)
      call.dlse =
          random_tensor("dlse", ElementType::f32,
                        packed ? std::vector<int64_t>{c.h_q, c.s_q} : std::vector<int64_t>{c.b, c.h_q, c.s_q}, random);
  }
  call.softcap = c.softcap;
  for (const cases::CaseArray& array : c.arrays) {
    Tensor tensor = make_tensor(array.name, array.boolean ? ElementType::boolean : ElementType::i32, array.shape);
    for (size_t i = 0; i < array.values.size(); ++i) {
      if (array.boolean) {
        tensor.as<uint8_t>()[i] = array.values[i] != 0;
      } else {
        tensor.as<int32_t>()[i] = static_cast<int32_t>(array.values[i]);
      }
    }
    call.mask_arrays.push_back(std::move(tensor));
  }
  std::vector<DLTensor> views;
  std::vector<anymask_named_array> named;
  views.reserve(call.mask_arrays.size() + 1);
  for (const Tensor& array : call.mask_arrays) {
    views.push_back(array.view());
    named.push_back({array.name.c_str(), &views.back(), 0});
  }
  if (call.bias.present) {  // @bias is the call's own
    views.push_back(call.bias.view());
    named.push_back({"bias", &views.back(), 0});
  }
  anymask_mask_t mask = nullptr;
  check(anymask_mask_parse(c.mask.c_str(), named.data(), static_cast<int64_t>(named.size()), &mask));
  call.mask = std::shared_ptr<anymask_mask_s>(mask, anymask_mask_free);
  return call;
}

}  // namespace anymask::cli
