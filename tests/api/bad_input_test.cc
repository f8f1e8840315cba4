// Every kind of wrong tensor and option: its status, what the message says, and that nothing was written.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "world.h"

namespace anymask_test {
namespace {

enum Direction { F, B };  // forward, backward
enum Form { Batch, Packed };

struct BadCase {
  const char* name;
  Direction direction;
  Form form;
  std::function<void(World&)> spoil;
  std::vector<const char*> says;  // all of these, in any order
  anymask_status status = ANYMASK_INVALID_ARGUMENT;
};

void PrintTo(const BadCase& c, std::ostream* out) { *out << c.name; }

const std::vector<BadCase>& cases() {
  static const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  static const std::vector<BadCase> all = {
      // ---- pointers that must not be NULL
      {"q_null", F, Batch, [](World& w) { w.q.null = true; }, {"attention: q is NULL"}},
      {"k_null", F, Batch, [](World& w) { w.k.null = true; }, {"attention: k is NULL"}},
      {"v_null", F, Batch, [](World& w) { w.v.null = true; }, {"attention: v is NULL"}},
      {"out_null", F, Batch, [](World& w) { w.out.null = true; }, {"attention: out is NULL"}},
      {"lse_null_backward", B, Batch, [](World& w) { w.lse.null = true; }, {"attention backward: lse is NULL"}},
      {"out_null_backward", B, Batch, [](World& w) { w.out.null = true; }, {"attention backward: out is NULL"}},
      {"dout_null", B, Batch, [](World& w) { w.dout.null = true; }, {"attention backward: dout is NULL"}},
      {"dq_null", B, Batch, [](World& w) { w.dq.null = true; }, {"attention backward: dq is NULL"}},
      {"dk_null", B, Batch, [](World& w) { w.dk.null = true; }, {"attention backward: dk is NULL"}},
      {"dv_null", B, Batch, [](World& w) { w.dv.null = true; }, {"attention backward: dv is NULL"}},
      {"q_no_data", F, Batch, [](World& w) { w.q.dl.data = nullptr; }, {"q has shape [2, 4, 8, 16]", "NULL data"}},
      {"out_no_data", F, Batch, [](World& w) { w.out.dl.data = nullptr; }, {"out has shape", "NULL data"}},
      {"bias_no_data", F, Batch, [](World& w) { w.bias.dl.data = nullptr; }, {"bias has shape", "NULL data"}},

      // ---- rank
      {"q_rank_3", F, Batch, [](World& w) { w.q.shape = {4, 8, 16}; }, {"q has shape [4, 8, 16]", "expected rank 4", "cu_seqlens_q"}},
      {"k_rank_5", F, Batch, [](World& w) { w.k.shape = {1, 2, 6, 4, 16}; }, {"k has shape", "expected rank 4"}},
      {"q_rank_6", F, Batch, [](World& w) { w.q.shape = {1, 1, 1, 2, 6, 4}; }, {"q has rank 6", "expected 0 to 5"}},
      {"out_rank_3", F, Batch, [](World& w) { w.out.shape = {8, 8, 24}; }, {"out has shape [8, 8, 24]", "expected rank 4"}},
      {"q_rank_4_packed", F, Packed, [](World& w) { w.q.shape = {1, 5, 8, 16}; }, {"q has shape", "expected rank 3", "no batch axis"}},
      {"lse_rank_2", F, Batch, [](World& w) { w.lse.shape = {16, 4}; }, {"lse has shape [16, 4]", "[b, h_q, s_q]"}},
      {"lse_rank_3_packed", F, Packed, [](World& w) { w.lse.shape = {1, 8, 5}; }, {"lse has shape", "[h_q, total_q]"}},
      {"bias_rank_3", F, Batch, [](World& w) { w.bias.shape = {8, 4, 6}; }, {"bias has shape [8, 4, 6]", "rank 4", "rank 2"}},
      {"sinks_rank_2", F, Batch, [](World& w) { w.sinks.shape = {1, 8}; }, {"sinks has shape [1, 8]", "[h_q]"}},
      {"alibi_rank_3", F, Batch, [](World& w) { w.alibi.shape = {1, 2, 8}; }, {"alibi_slopes has shape", "[b, h_q]"}},

      // ---- heads
      {"heads_not_divisible", F, Batch,
       [](World& w) { w.k.shape[2] = w.v.shape[2] = 6; w.k.make(w.k.shape); w.v.make(w.v.shape); },
       {"attention: k has shape [2, 6, 6, 16]; h_kv must divide h_q = 8: use 1, 2, 4 or 8"}},
      {"heads_kv_0", F, Batch, [](World& w) { w.k.shape[2] = 0; }, {"k has shape [2, 6, 0, 16]", "use 1, 2, 4 or 8"}},
      {"heads_q_0", F, Batch, [](World& w) { w.q.shape[2] = 0; }, {"q has shape [2, 4, 0, 16]", "at least one head"}},
      {"heads_v", F, Batch, [](World& w) { w.v.shape[2] = 2; }, {"v has shape [2, 6, 2, 24]", "as many heads as k, 4"}},
      {"heads_out", F, Batch, [](World& w) { w.out.shape[2] = 4; }, {"out has shape [2, 4, 4, 24]", "expected [2, 4, 8, 24]"}},
      {"heads_too_many", F, Batch,
       [](World& w) { w.q.shape = {2, 0, int64_t{1} << 40, 16}; w.k.shape = {2, 6, 1, 16}; w.v.shape = {2, 6, 1, 24}; },
       {"query heads", "expected at most 65536 heads"}},

      // ---- lengths and batch
      {"batch_k", F, Batch, [](World& w) { w.k.shape[0] = 1; }, {"k has shape [1, 6, 4, 16]", "batch 2 like q"}},
      {"batch_v", F, Batch, [](World& w) { w.v.shape[0] = 1; }, {"v has shape [1, 6, 4, 24]", "batch 2 like q"}},
      {"keys_v", F, Batch, [](World& w) { w.v.shape[1] = 5; }, {"v has shape [2, 5, 4, 24]", "6 keys like k"}},
      {"rows_out", F, Batch, [](World& w) { w.out.shape[1] = 5; }, {"out has shape [2, 5, 8, 24]", "expected [2, 4, 8, 24]"}},
      {"rows_lse", F, Batch, [](World& w) { w.lse.shape[2] = 3; }, {"lse has shape [2, 8, 3]", "expected [2, 8, 4]"}},
      {"rows_dout", B, Batch, [](World& w) { w.dout.shape[1] = 3; }, {"dout has shape", "expected [2, 4, 8, 24]"}},
      {"shape_dq", B, Batch, [](World& w) { w.dq.shape[3] = 8; }, {"dq has shape [2, 4, 8, 8]", "expected [2, 4, 8, 16]"}},
      {"shape_dk", B, Batch, [](World& w) { w.dk.shape[2] = 8; }, {"dk has shape [2, 6, 8, 16]", "expected [2, 6, 4, 16]"}},
      {"shape_dv", B, Batch, [](World& w) { w.dv.shape[3] = 16; }, {"dv has shape [2, 6, 4, 16]", "expected [2, 6, 4, 24]"}},
      {"shape_dlse", B, Batch, [](World& w) { w.dlse.shape = {2, 4, 8}; }, {"dlse has shape [2, 4, 8]", "expected [2, 8, 4]"}},
      {"negative_size", F, Batch, [](World& w) { w.q.shape[1] = -4; }, {"q has shape [2, -4, 8, 16]", "negative"}},

      // ---- head dimensions
      {"dim_k", F, Batch, [](World& w) { w.k.shape[3] = 8; }, {"k has shape [2, 6, 4, 8]", "head dimension 16 like q"}},
      {"dim_not_8", F, Batch, [](World& w) { w.q.shape[3] = w.k.shape[3] = 12; }, {"q has shape", "multiple of 8", "pad with zeros to 16"}},
      {"dim_264", F, Batch, [](World& w) { w.q.make({2, 4, 8, 264}); w.k.make({2, 6, 4, 264}); }, {"q has shape", "8 to 256"}},
      {"dim_0", F, Batch, [](World& w) { w.q.shape[3] = w.k.shape[3] = 0; }, {"q has shape", "pad with zeros to 8"}},
      {"dim_v_not_8", F, Batch, [](World& w) { w.v.shape[3] = w.out.shape[3] = 20; }, {"v has shape", "multiple of 8", "24"}},
      {"dim_not_8_reference", F, Batch, [](World& w) { w.options.backend = "reference"; w.q.shape[3] = w.k.shape[3] = 12; },
       {"q has shape", "multiple of 8"}},

      // ---- types
      {"dtype_k", F, Batch, [](World& w) { w.k.dl.dtype = kF16; }, {"k is float16", "expected float32 like q"}},
      {"dtype_v", F, Batch, [](World& w) { w.v.dl.dtype = kBF16; }, {"v is bfloat16", "expected float32 like q"}},
      {"dtype_out", F, Batch, [](World& w) { w.out.dl.dtype = kF16; }, {"out is float16", "expected float32 like q"}},
      {"dtype_out_wide", F, Batch, [](World& w) { w.out.dl.dtype = kF64; }, {"out is float64", "expected float32 like q"}},
      {"dtype_lse", F, Batch, [](World& w) { w.lse.dl.dtype = kF16; }, {"lse is float16", "expected float32"}},
      {"dtype_lse_wide", F, Batch, [](World& w) { w.lse.dl.dtype = kF64; }, {"lse is float64", "expected float32"}},
      {"dtype_q_int", F, Batch, [](World& w) { w.q.dl.dtype = kI32; }, {"q is int32", "float16 or bfloat16"}},
      {"dtype_q_unknown", F, Batch, [](World& w) { w.q.dl.dtype = {kDLComplex, 64, 1}; }, {"q has DLPack type code 5, 64 bits"}},
      {"dtype_q_lanes", F, Batch, [](World& w) { w.q.dl.dtype = {kDLFloat, 32, 4}; }, {"q has DLPack type code 2", "4 lanes"}},
      {"dtype_float64", F, Batch, [](World& w) { for (Buffer* x : {&w.q, &w.k, &w.v, &w.out}) x->dl.dtype = kF64; },
       {"no backend", "float64", "\"reference\""}, ANYMASK_UNSUPPORTED},
      {"dtype_bias", F, Batch, [](World& w) { w.bias.dl.dtype = kI32; }, {"bias is int32", "floating"}},
      {"dtype_sinks", F, Batch, [](World& w) { w.sinks.dl.dtype = kU8; }, {"sinks is uint8", "floating"}},
      {"dtype_alibi", F, Batch, [](World& w) { w.alibi.dl.dtype = kI64; }, {"alibi_slopes is int64", "floating"}},
      {"dtype_dbias", B, Batch, [](World& w) { w.dbias.dl.dtype = kBF16; }, {"dbias is bfloat16", "expected float32"}},
      {"dtype_dsinks", B, Batch, [](World& w) { w.dsinks.dl.dtype = kF16; }, {"dsinks is float16", "expected float32"}},
      {"dtype_dlse", B, Batch, [](World& w) { w.dlse.dl.dtype = kBF16; }, {"dlse is bfloat16", "expected float32"}},
      {"dtype_dq", B, Batch, [](World& w) { w.dq.dl.dtype = kF16; }, {"dq is float16", "expected float32 like q"}},

      // ---- devices
      {"device_q_cuda", F, Batch,
       [](World& w) { for (Buffer* x : {&w.q, &w.k, &w.v, &w.out, &w.lse, &w.bias, &w.alibi, &w.sinks}) x->dl.device = {kDLCUDA, 0}; },
       {"no backend", "cuda:"}, ANYMASK_UNSUPPORTED},
      {"device_k_cuda", F, Batch, [](World& w) { w.k.dl.device = {kDLCUDA, 0}; }, {"k is on another device", "one device"}},
      {"device_bias_cuda", F, Batch, [](World& w) { w.bias.dl.device = {kDLCUDA, 0}; }, {"bias is on another device"}},
      {"device_metal", F, Batch, [](World& w) { w.q.dl.device = {kDLMetal, 0}; }, {"q is on a device of DLPack type 8"}, ANYMASK_UNSUPPORTED},
      {"device_offsets", F, Packed, [](World& w) { w.cu_q.dl.device = {kDLCUDA, 0}; }, {"cu_seqlens_q is on a CUDA device"}},
      {"device_offsets_bias", F, Packed,
       [](World& w) {
         for (Buffer* x : {&w.q, &w.k, &w.v, &w.out, &w.lse, &w.cu_q, &w.cu_kv}) x->dl.device = {kDLCUDA, 0};
       },
       {"bias is given and cu_seqlens_q is on the device", "pass cu_seqlens on the CPU"},
       ANYMASK_UNSUPPORTED},

      // ---- strides, alignment, sizes
      {"stride_last_q", F, Batch, [](World& w) { w.q.strides = {512, 128, 16, 2}; w.q.make({2, 4, 8, 32}); w.q.shape[3] = 16; },
       {"q has stride 2 along its last axis", "expected 1"}},
      {"stride_last_expanded", F, Batch, [](World& w) { w.v.strides = {24, 4, 1, 0}; }, {"v has stride 0 along its last axis"}},
      {"stride_out_negative", F, Batch, [](World& w) { w.out.strides = {768, -192, 24, 1}; w.out.dl.byte_offset = 3 * 192 * 4; },
       {"out has stride -192 along axis 1", "positive strides"}},
      {"stride_out_expanded", F, Batch, [](World& w) { w.out.strides = {0, 192, 24, 1}; }, {"out has shape", "elements overlap"}},
      {"stride_out_overlapping", F, Batch, [](World& w) { w.out.strides = {768, 100, 24, 1}; }, {"out has shape", "elements overlap"}},
      {"stride_dk_expanded", B, Batch, [](World& w) { w.dk.strides = {384, 64, 0, 1}; }, {"dk has shape", "elements overlap"}},
      {"stride_lse_expanded", F, Batch, [](World& w) { w.lse.strides = {32, 0, 1}; }, {"lse has shape", "elements overlap"}},
      {"stride_dbias_expanded", B, Batch, [](World& w) { w.dbias.strides = {96, 24, 0, 1}; }, {"dbias has shape", "elements overlap"}},
      {"stride_beyond_memory", F, Batch, [](World& w) { w.k.strides = {int64_t{1} << 62, 64, 16, 1}; }, {"k has shape", "span more bytes"}},
      {"stride_lowest", F, Batch, [](World& w) { w.k.strides = {std::numeric_limits<int64_t>::min(), 64, 16, 1}; }, {"span more bytes"}},
      {"misaligned", F, Batch, [](World& w) { w.q.dl.byte_offset = 2; }, {"q starts at an address", "no multiple of 4"}},
      {"elements_overflow", F, Batch, [](World& w) { w.q.shape = {int64_t{1} << 40, int64_t{1} << 40, 8, 16}; w.q.strides = {0, 0, 0, 1}; },
       {"q has shape", "more than 2^63 elements"}},
      {"tokens_too_many", F, Batch,
       [](World& w) { w.q.shape = {2, int64_t{1} << 31, 8, 16}; w.q.strides = {0, 0, 16, 1}; }, {"2147483648 tokens", "expected 0 to 2147483647"}},
      {"pairs_overflow", F, Batch,
       [](World& w) {
         w.q.shape = {2, 2147483647, 8, 16}, w.q.strides = {0, 0, 16, 1};
         w.k.shape = {2, 2147483647, 4, 16}, w.k.strides = {0, 0, 16, 1};
         w.v.shape = {2, 2147483647, 4, 24}, w.v.strides = {0, 0, 24, 1};
       },
       {"more than 2^63 pairs"}},
      {"sequences_too_many", F, Batch,
       [](World& w) {
         for (Buffer* x : {&w.q, &w.k, &w.v}) x->shape[0] = int64_t{1} << 25;
         w.q.strides = {0, 128, 16, 1}, w.k.strides = {0, 64, 16, 1}, w.v.strides = {0, 96, 24, 1};
       },
       {"33554432 sequences", "expected 0 to 16777216"}},
      {"shape_null", F, Batch, [](World& w) { w.cu_q.null = false, w.cu_q.shape.clear(); w.cu_q.shape.shrink_to_fit(); }, {"cu_seqlens_q"}},

      // ---- memory shared between outputs and other tensors
      {"alias_out_q", F, Batch, [](World& w) { w.out.dl.data = w.q.memory.data(); }, {"out shares memory with q"}},
      {"alias_out_v_tail", F, Batch, [](World& w) { w.v.dl.data = w.out.f32() + 1535; }, {"out shares memory with v"}},
      {"alias_lse_out", F, Batch, [](World& w) { w.lse.dl.data = w.out.f32() + 8; }, {"lse shares memory with out"}},
      {"alias_out_bias", F, Batch, [](World& w) { w.bias.dl.data = w.out.f32(); }, {"out shares memory with bias"}},
      {"alias_lse_sinks", F, Batch, [](World& w) { w.sinks.dl.data = w.lse.f32(); }, {"lse shares memory with sinks"}},
      {"alias_dq_q", B, Batch, [](World& w) { w.dq.dl.data = w.q.memory.data(); }, {"dq shares memory with q"}},
      {"alias_dk_dq", B, Batch, [](World& w) { w.dk.dl.data = w.dq.memory.data(); }, {"dk shares memory with dq"}},
      {"alias_dv_dout", B, Batch, [](World& w) { w.dv.dl.data = w.dout.memory.data(); }, {"dv shares memory with dout"}},
      {"alias_dbias_bias", B, Batch, [](World& w) { w.dbias.dl.data = w.bias.memory.data(); }, {"dbias shares memory with bias"}},
      {"alias_dsinks_lse", B, Batch, [](World& w) { w.dsinks.dl.data = w.lse.memory.data(); }, {"dsinks shares memory with lse"}},

      {"alias_out_mask",
       F,
       Batch,
       [](World& w) {
         static anymask_mask_t m = nullptr;
         static Buffer mask_array;
         mask_array.make({World::s_q, World::s_kv}, kU8);
         mask_array.dl.data = w.out.f32() + 3;
         const anymask_named_array array = {"m", mask_array.get(), 0};
         anymask_mask_free(m);
         anymask_mask_parse("dense(@m)", &array, 1, &m);
         w.options.mask = m;
       },
       {"out shares memory with an array of the mask, @m"}},

      // ---- scalars
      {"scale_nan", F, Batch, [](World& w) { w.scale = nan; }, {"softmax_scale is nan", "finite"}},
      {"scale_inf", F, Batch, [](World& w) { w.scale = inf; }, {"softmax_scale is inf", "finite"}},
      {"scale_beyond_float", B, Batch, [](World& w) { w.scale = 1e300; }, {"attention backward: softmax_scale", "finite float32"}},
      {"softcap_negative", F, Batch, [](World& w) { w.options.softcap = -1; }, {"softcap is -1", "use 0 for none"}},
      {"softcap_nan", F, Batch, [](World& w) { w.options.softcap = nan; }, {"softcap is nan"}},
      {"softcap_inf", F, Batch, [](World& w) { w.options.softcap = inf; }, {"softcap is inf"}},
      {"softcap_vanishing", F, Batch, [](World& w) { w.options.softcap = 1e-60; }, {"softcap is 1e-60", "float32 cannot hold"}},
      {"threads_negative", F, Batch, [](World& w) { w.options.num_threads = -1; }, {"num_threads is -1"}},
      {"threads_absurd", F, Batch, [](World& w) { w.options.num_threads = 1 << 30; }, {"num_threads is 1073741824"}},
      {"backend_unknown", F, Batch, [](World& w) { w.options.backend = "cpuu"; }, {"backend is \"cpuu\"", "did you mean \"cpu\"?"}},
      {"backend_typo", F, Batch, [](World& w) { w.options.backend = "refrence"; }, {"did you mean \"reference\"?"}},
      {"backend_cuda_here", F, Batch, [](World& w) { w.options.backend = "cuda"; }, {"cuda:", "backends that compute it: \"cpu\""},
       ANYMASK_UNSUPPORTED},
      {"struct_size_0", F, Batch, [](World& w) { w.options.struct_size = 0; }, {"options.struct_size is 0", "sizeof"}},
      {"struct_size_small", F, Batch, [](World& w) { w.options.struct_size = 8; }, {"options.struct_size is 8"}},
      {"struct_size_garbage", F, Batch, [](World& w) { w.options.struct_size = size_t{1} << 40; }, {"options.struct_size"}},

      // ---- bias, alibi, sinks
      {"bias_keys", F, Batch, [](World& w) { w.bias.shape[3] = 1; }, {"bias has shape [2, 4, 4, 1]", "s_kv = 6"}},
      {"bias_rows", F, Batch, [](World& w) { w.bias.shape[2] = 3; }, {"bias has shape [2, 4, 3, 6]", "s_q = 4"}},
      {"bias_heads", F, Batch, [](World& w) { w.bias.shape[1] = 2; }, {"bias has shape [2, 2, 4, 6]", "h_q = 8, h_kv = 4"}},
      {"bias_batch", F, Batch, [](World& w) { w.bias.shape[0] = 3; }, {"bias has shape [3, 4, 4, 6]", "b = 2"}},
      {"bias_rank_2_rows", F, Batch, [](World& w) { w.bias.shape = {6, 6}; }, {"bias has shape [6, 6]", "s_q = 4"}},
      {"bias_packed", F, Packed, [](World& w) { w.bias.shape = {2, 4, 5, 7}; }, {"bias has shape [2, 4, 5, 7]", "max_s_q = 3, max_s_kv = 4"}},
      {"alibi_heads", F, Batch, [](World& w) { w.alibi.shape = {4}; }, {"alibi_slopes has shape [4]", "h_q = 8"}},
      {"alibi_batch", F, Batch, [](World& w) { w.alibi.shape = {3, 8}; }, {"alibi_slopes has shape [3, 8]", "b = 2"}},
      {"sinks_heads", F, Batch, [](World& w) { w.sinks.shape = {4}; }, {"sinks has shape [4]", "h_q = 8"}},
      {"dsinks_heads", B, Batch, [](World& w) { w.dsinks.shape = {4}; }, {"dsinks has shape [4]", "h_q = 8"}},
      {"dsinks_without_sinks", B, Batch, [](World& w) { w.sinks.null = true; }, {"dsinks is given without sinks"}},
      {"dbias_without_bias", B, Batch, [](World& w) { w.bias.null = true; }, {"dbias is given without bias"}},
      {"dbias_shape", B, Batch, [](World& w) { w.dbias.shape[0] = 1; }, {"dbias has shape [1, 4, 4, 6]", "the bias's shape, [2, 4, 4, 6]"}},

      // ---- packed lengths
      {"offsets_rank", F, Packed, [](World& w) { w.cu_q.shape = {1, 3}; }, {"cu_seqlens_q has shape [1, 3]", "[sequences + 1]"}},
      {"offsets_none", F, Packed, [](World& w) { w.cu_q.shape = {0}; }, {"cu_seqlens_q has shape [0]", "[sequences + 1]"}},
      {"offsets_dtype", F, Packed, [](World& w) { w.cu_q.dl.dtype = kF32; }, {"cu_seqlens_q is float32", "int32 or int64"}},
      {"offsets_start", F, Packed, [](World& w) { w.set_offsets({1, 2, 5}, {0, 3, 7}); }, {"cu_seqlens_q starts at 1", "put a 0 in front"}},
      {"offsets_fall", F, Packed, [](World& w) { w.set_offsets({0, 6, 5}, {0, 3, 7}); }, {"cu_seqlens_q falls from 6 to 5 at index 2"}},
      {"offsets_end", F, Packed, [](World& w) { w.set_offsets({0, 2, 4}, {0, 3, 7}); }, {"cu_seqlens_q ends at 4", "total_q = 5"}},
      {"offsets_kv_end", F, Packed, [](World& w) { w.set_offsets({0, 2, 5}, {0, 3, 8}); }, {"cu_seqlens_kv ends at 8", "total_kv = 7"}},
      {"offsets_kv_fall", B, Packed, [](World& w) { w.set_offsets({0, 2, 5}, {0, -1, 7}); },
       {"attention backward: cu_seqlens_kv falls from 0 to -1"}},
      {"offsets_kv_count", F, Packed, [](World& w) { w.set_offsets({0, 2, 5}, {0, 2, 3, 7}); }, {"cu_seqlens_kv has 4 offsets", "has 3"}},
      {"offsets_kv_missing", F, Packed, [](World& w) { w.cu_kv.null = true; }, {"k has 7 tokens and q has 5", "cu_seqlens_kv is not given"}},
      {"offsets_q_missing", F, Batch, [](World& w) { w.cu_kv.null = false; }, {"cu_seqlens_kv is given without cu_seqlens_q"}},
      {"packed_v_keys", F, Packed, [](World& w) { w.v.shape[0] = 6; }, {"v has shape [6, 4, 24]", "7 keys like k"}},
      {"packed_out_rows", F, Packed, [](World& w) { w.out.shape[0] = 4; }, {"out has shape [4, 8, 24]", "expected [5, 8, 24]"}},
      {"packed_lse_shape", F, Packed, [](World& w) { w.lse.shape = {5, 8}; }, {"lse has shape [5, 8]", "expected [8, 5]"}},

      // ---- masks that do not fit, told before anything is written
      {"mask_documents", F, Batch,
       [](World& w) { static anymask_mask_t m = nullptr; if (m == nullptr) anymask_mask_parse("documents([0, 3, 5])", nullptr, 0, &m); w.options.mask = m; },
       {"documents", "5", "6"}},
      {"mask_heads", B, Batch,
       [](World& w) {
         static anymask_mask_t m = nullptr;
         if (m == nullptr) anymask_mask_parse("per_head([causal, full, none])", nullptr, 0, &m);
         w.options.mask = m;
       },
       {"3", "8"}},
  };
  return all;
}

class BadInput : public testing::TestWithParam<BadCase> {};

TEST_P(BadInput, IsExplainedAndNothingIsWritten) {
  const BadCase& c = GetParam();
  World w(c.form == Packed);
  const std::vector<Buffer*> outputs = c.direction == F
                                           ? std::vector<Buffer*>{&w.out, &w.lse}
                                           : std::vector<Buffer*>{&w.dq, &w.dk, &w.dv, &w.dbias, &w.dsinks};
  c.spoil(w);
  for (Buffer* x : outputs) x->poison();
  const anymask_status status = c.direction == F ? w.forward() : w.backward();
  const std::string message = anymask_last_error();
  EXPECT_EQ(status, c.status) << message;
  for (const char* text : c.says)
    EXPECT_NE(message.find(text), std::string::npos) << "\"" << text << "\" is not in \"" << message << '"';
  for (const Buffer* x : outputs) EXPECT_TRUE(x->untouched());
}

INSTANTIATE_TEST_SUITE_P(Attention, BadInput, testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(GoodInput, TheCallThatIsSpoiledAboveIsRight) {
  EXPECT_GE(cases().size(), 80u);
  for (const bool packed : {false, true}) {
    for (const char* backend : {static_cast<const char*>(nullptr), "auto", "cpu", "reference", "naive"}) {
      World w(packed);
      w.options.backend = backend;
      for (Buffer* x : {&w.out, &w.lse, &w.dq, &w.dk, &w.dv, &w.dbias, &w.dsinks}) x->poison();
      ASSERT_EQ(w.forward(), ANYMASK_OK) << anymask_last_error();
      ASSERT_EQ(w.backward(), ANYMASK_OK) << anymask_last_error();
      for (Buffer* x : {&w.out, &w.lse, &w.dq, &w.dk, &w.dv, &w.dbias, &w.dsinks}) {
        EXPECT_FALSE(x->untouched());
        for (int64_t i = 0; i < x->numel(); ++i) EXPECT_TRUE(std::isfinite(x->f32()[i]) && x->f32()[i] != w.poisoned());
      }
    }
  }
}

}  // namespace
}  // namespace anymask_test
