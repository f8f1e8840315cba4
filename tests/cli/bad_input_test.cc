// Bad input, one row each: exit status 2, a message that names the thing, nothing written. The binary itself is run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/fixture.h"

namespace anymask::cli {
namespace {

// q [1, 16, 4, 8], k and v [1, 16, 2, 8] are good, and so is everything called good_*; the rest is wrong in the way its
// name says.
const Directory& inputs() {
  static const Directory* directory = [] {
    auto* d = new Directory;  // removed when the tests end: RemoveInputs below
    const auto npy = [d](const std::string& name, const Tensor& tensor) { save_npy(*d / (name + ".npy"), tensor); };
    const auto raw = [d](const std::string& name, const std::string& header, const std::string& data, int version = 1) {
      write_bytes(*d / (name + ".npy"), npy_bytes(header, data, version));
    };
    const auto st = [d](const std::string& name, const std::string& header, const std::string& data) {
      write_bytes(*d / (name + ".safetensors"), safetensors_bytes(header, data));
    };
    npy("q", randoms("q", {1, 16, 4, 8}));
    npy("k", randoms("k", {1, 16, 2, 8}));
    npy("v", randoms("v", {1, 16, 2, 8}));
    // Shapes and types of tensors.
    npy("rank2", randoms("x", {16, 32}));
    npy("rank3", randoms("x", {16, 4, 8}));
    npy("rank5", randoms("x", {1, 1, 16, 4, 8}));
    npy("h3", randoms("x", {1, 16, 3, 8}));
    npy("h0", randoms("x", {1, 16, 0, 8}));
    npy("h1", randoms("x", {1, 16, 1, 8}));
    npy("s15", randoms("x", {1, 15, 2, 8}));
    npy("b2", randoms("x", {2, 16, 2, 8}));
    npy("d4", randoms("x", {1, 16, 2, 4}));
    npy("d12", randoms("x", {1, 16, 2, 12}));
    npy("d16", randoms("x", {1, 16, 2, 16}));
    npy("d264", randoms("x", {1, 16, 2, 264}));
    npy("half", randoms("x", {1, 16, 2, 8}, ElementType::f16));
    npy("double", randoms("x", {1, 16, 4, 8}, ElementType::f64));
    npy("int32", ints("x", {1, 16, 4, 8}, {}));
    npy("uint16", ints("x", {1, 16, 4, 8}, {}, ElementType::u16));
    npy("packed_q", randoms("q", {16, 4, 8}));
    npy("packed_k", randoms("k", {16, 2, 8}));
    npy("good_bias", randoms("bias", {1, 1, 16, 16}));
    npy("bias_rank3", randoms("bias", {1, 16, 16}));
    npy("bias_keys", randoms("bias", {1, 1, 16, 15}));
    npy("bias_heads", randoms("bias", {1, 3, 16, 16}));
    npy("bias_batch", randoms("bias", {2, 1, 16, 16}));
    npy("bias_int", ints("bias", {1, 1, 16, 16}, {}));
    npy("bias_double", randoms("bias", {1, 1, 16, 16}, ElementType::f64));
    npy("three", randoms("x", {3}));
    npy("four_by_one", randoms("x", {4, 1}));
    npy("good_sinks", randoms("x", {4}));
    npy("good_dout", randoms("x", {1, 16, 4, 8}));
    npy("good_dlse", randoms("x", {1, 4, 16}));
    npy("dlse_shape", randoms("x", {1, 16, 4}));
    // Offsets of packed sequences.
    npy("good_cu", ints("cu", {3}, {0, 7, 16}));
    npy("cu_start", ints("cu", {3}, {1, 7, 16}));
    npy("cu_order", ints("cu", {4}, {0, 9, 7, 16}));
    npy("cu_end", ints("cu", {3}, {0, 7, 15}));
    npy("cu_beyond", ints("cu", {3}, {0, 7, 17}));
    npy("cu_four", ints("cu", {4}, {0, 7, 8, 16}));
    npy("cu_float", randoms("cu", {3}));
    npy("cu_rank2", ints("cu", {1, 3}, {0, 7, 16}));
    npy("cu_empty", ints("cu", {0}, {}));
    npy("cu_one", ints("cu", {1}, {0}));
    // Arrays of masks.
    npy("parents_forward", ints("p", {4}, {-1, 2, 0, 1}));
    npy("parents_self", ints("p", {2}, {0, 0}));
    npy("parents_beyond", ints("p", {3}, {-1, 0, 7}));
    npy("parents_low", ints("p", {3}, {-1, -2, 0}));
    npy("parents_long", ints("p", {20}, std::vector<int64_t>(20, -1)));
    npy("parents_float", randoms("p", {4}));
    npy("map_shape", ints("m", {3, 4}, {}, ElementType::boolean));
    npy("good_map", ints("m", {4, 4}, {}, ElementType::boolean));
    npy("map_float", randoms("m", {4, 4}));
    npy("map_rank1", ints("m", {16}, {}, ElementType::boolean));
    npy("bits_short", ints("m", {16, 1}, {}, ElementType::u8));
    npy("bits_float", randoms("m", {16, 2}));
    npy("dense_shape", ints("m", {16, 15}, {}, ElementType::boolean));
    npy("dense_batch", ints("m", {3, 1, 16, 16}, {}, ElementType::boolean));
    npy("dense_heads", ints("m", {1, 3, 16, 16}, {}, ElementType::boolean));
    npy("dense_float", randoms("m", {16, 16}));
    npy("begin", ints("m", {16, 1}, std::vector<int64_t>(16, 4)));
    npy("end_before", ints("m", {16, 1}, std::vector<int64_t>(16, 2)));
    npy("end_rows", ints("m", {15, 1}, std::vector<int64_t>(15, 9)));
    npy("end_two", ints("m", {16, 2}, std::vector<int64_t>(32, 9)));
    npy("threshold_shape", randoms("b", {16, 9}));
    npy("cu_uint16", ints("cu", {3}, {0, 7, 16}, ElementType::u16));
    npy("cu_batch3", ints("cu", {3, 2}, {0, 16, 0, 16, 0, 16}));
    // .npy files that lie.
    const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 16, 4, 8), }";
    const std::string data(2048, '\1');
    write_bytes(*d / "npy_empty.npy", "");
    write_bytes(*d / "npy_short.npy", "\x93NUM");
    write_bytes(*d / "npy_magic.npy", "PK" + npy_bytes(good, data).substr(2));
    raw("npy_version", good, data, 9);
    write_bytes(*d / "npy_header_length.npy", npy_bytes(good, "").substr(0, 40));
    raw("npy_truncated", good, data.substr(1));
    raw("npy_longer", good, data + "x");
    raw("npy_overflow", "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4, 8), }", data);
    raw("npy_64bit", "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", data);
    raw("npy_huge_zero", "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4, 8), }", "");
    raw("npy_negative", "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 16, 4, 8), }", data);
    raw("npy_rank9", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", data);
    raw("npy_structured", "{'descr': [('x', '<f4'), ('y', '<f4')], 'fortran_order': False, 'shape': (256,), }", data);
    raw("npy_big_endian", "{'descr': '>f4', 'fortran_order': False, 'shape': (1, 16, 4, 8), }", data);
    raw("npy_complex", "{'descr': '<c8', 'fortran_order': False, 'shape': (256,), }", data);
    raw("npy_object", "{'descr': '|O', 'fortran_order': False, 'shape': (256,), }", data);
    raw("npy_text", "{'descr': '<U4', 'fortran_order': False, 'shape': (128,), }", data);
    raw("npy_no_shape", "{'descr': '<f4', 'fortran_order': False, }", data);
    raw("npy_twice", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 16, 4, 8), }", data);
    raw("npy_unknown_key", "{'descr': '<f4', 'order': 'C', 'fortran_order': False, 'shape': (1, 16, 4, 8), }", data);
    raw("npy_order", "{'descr': '<f4', 'fortran_order': 0, 'shape': (1, 16, 4, 8), }", data);
    raw("npy_after", good + "print(1)", data);
    raw("npy_no_dictionary", "import os", data);
    raw("npy_bool", "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", std::string("\1\0\2\1", 4));
    // .safetensors files that lie.
    const std::string q = R"("q":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
    write_bytes(*d / "st_short.safetensors", "abc");
    write_bytes(*d / "st_length.safetensors", safetensors_bytes("{" + q + "}", "").substr(0, 20));
    write_bytes(*d / "st_huge.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f") + "{}");
    st("st_no_json", "hello", "");
    st("st_array", "[1]", "");
    st("st_twice", "{" + q + "," + q + "}", "12345678");
    st("st_overlap", "{" + q + R"(,"k":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", "123456789012");
    st("st_hole", "{" + q + R"(,"k":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", "1234567890123456");
    st("st_beyond", R"({"q":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "12345678");
    st("st_backward", R"({"q":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}})", "12345678");
    st("st_shape", R"({"q":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678");
    st("st_negative", R"({"q":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "12345678");
    st("st_fraction", R"({"q":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "12345678");
    st("st_overflow", R"({"q":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", "12345678");
    st("st_deep", R"({"q":{"dtype":"F32","shape":[[[[2]]]],"data_offsets":[0,8]}})", "12345678");
    st("st_no_dtype", R"({"q":{"shape":[2],"data_offsets":[0,8]}})", "12345678");
    st("st_extra", R"({"q":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "12345678");
    st("st_dtype", R"({"q":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", "12345678");
    st("st_metadata", R"({"__metadata__":3,)" + q + "}", "12345678");
    st("st_trailing", "{" + q + "}", "123456789");
    st("st_fp8", R"({"q":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", "12345678");
    st("st_bool", R"({"q":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})", "12345678");
    save_safetensors(*d / "st_only_q.safetensors", {randoms("q", {1, 16, 4, 8})});
    save_safetensors(*d / "st_good.safetensors",
                     {randoms("q", {1, 16, 4, 8}), randoms("k", {1, 16, 2, 8}), randoms("v", {1, 16, 2, 8})});
    // Texts and places.
    std::string deep;
    for (int i = 0; i < 200000; ++i) deep += "(";
    write_bytes(*d / "deep.txt", deep + "full" + std::string(200000, ')'));
    write_bytes(*d / "zero.txt", std::string("ca\0usal", 7));
    std::filesystem::create_directory(*d / "taken");
    std::filesystem::create_directory(*d / "taken/out.npy");
    std::filesystem::create_directory(*d / "taken.safetensors");
    return d;
  }();
  return *directory;
}

class RemoveInputs : public testing::Environment {
 public:
  void TearDown() override { delete &inputs(); }
};
const auto* const registered = testing::AddGlobalTestEnvironment(new RemoveInputs);

struct Bad {
  const char* name;
  std::string command;
  const char* says;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

// `anymask run` on the good tensors with this mask.
std::string mask(const std::string& text) {
  return "run --q q.npy --k k.npy --v v.npy --out out --mask '" + text + "'";
}
std::string with(const std::string& options) { return "run --q q.npy --k k.npy --v v.npy --out out " + options; }
std::string qkv(const std::string& q, const std::string& k, const std::string& v) {
  return "run --q " + q + ".npy --k " + k + ".npy --v " + v + ".npy --out out";
}
std::string input(const std::string& name) { return "run --out out --input " + name + ".safetensors"; }
std::string packed(const std::string& options) {
  return "run --q packed_q.npy --k packed_k.npy --v packed_k.npy --out out " + options;
}
std::string array(const std::string& text, const std::string& file) {
  return mask(text) + " --array a=" + file + ".npy";
}
std::string two(const std::string& text, const std::string& a, const std::string& b) {
  return array(text, a) + " --array b=" + b + ".npy";
}

std::vector<Bad> table() {
  return {
      // The command line itself.
      {"no_command", "", "subcommand"},
      {"unknown_command", "rum", "did you mean run"},
      {"unknown_option", with("--maks causal"), "did you mean --mask"},
      {"option_without_value", "run --q", "--q"},
      {"stray_word", with("causal"), "causal"},
      {"threads_text", with("--threads two"), "expects an integer"},
      {"threads_fraction", with("--threads 1.5"), "expects an integer"},
      {"threads_negative", with("--threads -1"), "expected 0 to 4096"},
      {"threads_many", with("--threads 5000"), "expected 0 to 4096"},
      {"threads_64bit", with("--threads 99999999999999999999"), "64 bits"},
      {"repeat_zero", with("--repeat 0"), "expected a number >= 1"},
      {"scale_text", with("--scale big"), "expects a number"},
      {"scale_nan", with("--scale nan"), "softmax_scale is nan"},
      {"scale_infinite", with("--scale inf"), "softmax_scale is inf"},
      {"softcap_negative", with("--softcap -1"), "softcap is -1"},
      {"softcap_nan", with("--softcap nan"), "softcap is nan"},
      {"softcap_infinite", with("--softcap inf"), "softcap is inf"},
      {"dtype_integer", with("--dtype int8"), "use fp32, fp16 or bf16"},
      {"dtype_double", with("--dtype float64"), "use fp32, fp16 or bf16"},
      {"backend_unknown", with("--backend gpu"), "use one of"},
      {"backend_absent", with("--backend cuda"), "cuda"},
      {"array_without_name", with("--array cu.npy"), "NAME=FILE"},
      {"array_empty_name", with("--array =good_cu.npy"), "NAME=FILE"},
      {"array_twice", with("--array a=good_cu.npy --array a=good_cu.npy"), "twice"},
      {"array_no_file", array("documents(@a)", "nothing"), "No such file"},
      {"mask_empty", mask(""), "--mask is empty"},
      {"mask_file_empty", with("--mask-file ''"), "--mask-file is empty"},
      {"out_empty", "run --q q.npy --k k.npy --v v.npy --out ''", "--out is empty"},
      {"q_empty", "run --q '' --k k.npy --v v.npy --out out", "--q is empty"},
      {"view_empty", "view '' --seq 16", "MASK is empty"},
      {"mask_and_file", with("--mask causal --mask-file deep.txt"), "use one"},
      {"mask_file_absent", with("--mask-file nothing.txt"), "No such file"},
      {"mask_file_zero_byte", with("--mask-file zero.txt"), "zero byte"},
      {"mask_file_deep", with("--mask-file deep.txt"), "nest"},
      {"q_absent", "run --k k.npy --v v.npy --out out", "q is missing"},
      {"k_absent", "run --q q.npy --v v.npy --out out", "k is missing"},
      {"v_absent", "run --q q.npy --k k.npy --out out", "v is missing"},
      {"q_no_file", qkv("nothing", "k", "v"), "No such file"},
      {"q_directory", "run --q taken --k k.npy --v v.npy --out out", "not a regular file"},
      {"dlse_without_dout", with("--dlse good_dlse.npy"), "without dout"},
      {"cu_kv_without_q", with("--cu-seqlens-kv good_cu.npy"), "without cu_seqlens_q"},
      // .npy.
      {"npy_empty", qkv("npy_empty", "k", "v"), "0 bytes"},
      {"npy_short", qkv("npy_short", "k", "v"), "fewer than a header"},
      {"npy_magic", qkv("npy_magic", "k", "v"), "another format"},
      {"npy_version", qkv("npy_version", "k", "v"), "version 9"},
      {"npy_header_length", qkv("npy_header_length", "k", "v"), "ends before"},
      {"npy_truncated", qkv("npy_truncated", "k", "v"), "truncated"},
      {"npy_longer", qkv("npy_longer", "k", "v"), "header is wrong"},
      {"npy_overflow", qkv("npy_overflow", "k", "v"), "64-bit"},
      {"npy_64bit", qkv("npy_64bit", "k", "v"), "beyond 64 bits"},
      {"npy_huge_zero", qkv("npy_huge_zero", "k", "v"), "64-bit"},
      {"npy_negative", qkv("npy_negative", "k", "v"), "integers >= 0"},
      {"npy_rank9", qkv("npy_rank9", "k", "v"), "8 dimensions"},
      {"npy_structured", qkv("npy_structured", "k", "v"), "structured"},
      {"npy_big_endian", qkv("npy_big_endian", "k", "v"), "little-endian"},
      {"npy_complex", qkv("npy_complex", "k", "v"), "'<c8'"},
      {"npy_object", qkv("npy_object", "k", "v"), "'|O'"},
      {"npy_text", qkv("npy_text", "k", "v"), "'<U4'"},
      {"npy_no_shape", qkv("npy_no_shape", "k", "v"), "must have the keys"},
      {"npy_twice", qkv("npy_twice", "k", "v"), "twice"},
      {"npy_unknown_key", qkv("npy_unknown_key", "k", "v"), "unknown key"},
      {"npy_order", qkv("npy_order", "k", "v"), "True or False"},
      {"npy_after", qkv("npy_after", "k", "v"), "after its dictionary"},
      {"npy_no_dictionary", qkv("npy_no_dictionary", "k", "v"), "lacks a '{'"},
      {"npy_bool", array("documents(@a)", "npy_bool"), "expected 0 or 1"},
      // .safetensors.
      {"st_absent", input("nothing"), "No such file"},
      {"st_short", input("st_short"), "3 bytes"},
      {"st_length", input("st_length"), "ends before"},
      {"st_huge", input("st_huge"), "100,000,000"},
      {"st_no_json", input("st_no_json"), "no JSON"},
      {"st_array", input("st_array"), "no JSON object"},
      {"st_twice", input("st_twice"), "twice"},
      {"st_overlap", input("st_overlap"), "overlaps"},
      {"st_hole", input("st_hole"), "hole"},
      {"st_beyond", input("st_beyond"), "truncated"},
      {"st_backward", input("st_backward"), "header is wrong"},
      {"st_shape", input("st_shape"), "does not fit"},
      {"st_negative", input("st_negative"), "integers >= 0"},
      {"st_fraction", input("st_fraction"), "integers >= 0"},
      {"st_overflow", input("st_overflow"), "does not fit"},
      {"st_deep", input("st_deep"), "nests deeper"},
      {"st_no_dtype", input("st_no_dtype"), "must have dtype"},
      {"st_extra", input("st_extra"), "must have dtype"},
      {"st_dtype", input("st_dtype"), "no string"},
      {"st_metadata", input("st_metadata"), "__metadata__"},
      {"st_trailing", input("st_trailing"), "end at byte 8 of 9"},
      {"st_fp8", input("st_fp8"), "F8_E4M3"},
      {"st_bool", input("st_bool"), "other than 0 and 1"},
      {"st_only_q", input("st_only_q"), "no tensor \"k\""},
      {"st_mask_array_absent", input("st_good") + " --mask 'documents(@cu)'", "@cu"},
      // Shapes and types.
      {"q_rank2", qkv("rank2", "k", "v"), "expected [batch, tokens, heads, dim]"},
      {"q_rank3", qkv("rank3", "k", "v"), "[16, 4, 8]"},
      {"q_rank5", qkv("rank5", "k", "v"), "expected [batch, tokens, heads, dim]"},
      {"packed_rank4", with("--cu-seqlens-q good_cu.npy"), "drop the batch axis"},
      {"heads_do_not_divide", qkv("q", "h3", "h3"), "must divide h_q = 4"},
      {"heads_zero", qkv("q", "h0", "h0"), "must divide h_q = 4"},
      {"heads_of_v", qkv("q", "k", "h1"), "as many heads as k"},
      {"keys_of_v", qkv("q", "k", "s15"), "16 keys like k"},
      {"batch_of_k", qkv("q", "b2", "b2"), "batch 1 like q"},
      {"batch_of_v", qkv("q", "k", "b2"), "batch 1 like q"},
      {"dim_of_k", qkv("q", "d16", "v"), "head dimension 8 like q"},
      {"dim_4", qkv("d4", "d4", "v"), "multiple of 8"},
      {"dim_12", qkv("d12", "d12", "v"), "multiple of 8"},
      {"dim_264", qkv("d264", "d264", "v"), "multiple of 8"},
      {"dim_of_v_4", qkv("q", "k", "d4"), "multiple of 8"},
      {"type_of_k", qkv("q", "half", "v"), "float16; expected float32"},
      {"type_double", qkv("double", "k", "v"), "--dtype"},
      {"type_int", qkv("int32", "k", "v"), "int32; expected float32"},
      {"type_int_with_dtype", qkv("int32", "k", "v") + " --dtype fp32", "expected a floating type"},
      {"type_uint16", qkv("uint16", "k", "v"), "--dtype bf16"},
      {"type_uint16_as_fp16", qkv("uint16", "k", "v") + " --dtype fp16", "uint16"},
      {"bias_rank3", with("--bias bias_rank3.npy"), "bias has shape [1, 16, 16]"},
      {"bias_keys", with("--bias bias_keys.npy"), "bias has shape [1, 1, 16, 15]"},
      {"bias_heads", with("--bias bias_heads.npy"), "bias has shape [1, 3, 16, 16]"},
      {"bias_batch", with("--bias bias_batch.npy"), "bias has shape [2, 1, 16, 16]"},
      {"bias_int", with("--bias bias_int.npy"), "bias has type int32"},
      {"bias_double", with("--bias bias_double.npy"), "--dtype"},
      {"sinks_three", with("--sinks three.npy"), "sinks has shape [3]"},
      {"sinks_rank2", with("--sinks four_by_one.npy"), "sinks has shape [4, 1]"},
      {"alibi_three", with("--alibi three.npy"), "alibi_slopes has shape [3]"},
      {"alibi_rank2", with("--alibi four_by_one.npy"), "alibi_slopes has shape [4, 1]"},
      {"dout_shape", with("--dout k.npy"), "dout has shape [1, 16, 2, 8]"},
      {"dlse_shape", with("--dout good_dout.npy --dlse dlse_shape.npy"), "dlse has shape [1, 16, 4]"},
      {"cu_start", packed("--cu-seqlens-q cu_start.npy"), "cu_seqlens_q"},
      {"cu_order", packed("--cu-seqlens-q cu_order.npy"), "cu_seqlens_q"},
      {"cu_end", packed("--cu-seqlens-q cu_end.npy"), "cu_seqlens_q"},
      {"cu_beyond", packed("--cu-seqlens-q cu_beyond.npy"), "cu_seqlens_q"},
      {"cu_float", packed("--cu-seqlens-q cu_float.npy"), "cu_seqlens_q"},
      {"cu_rank2", packed("--cu-seqlens-q cu_rank2.npy"), "cu_seqlens_q"},
      {"cu_empty", packed("--cu-seqlens-q cu_empty.npy"), "cu_seqlens_q"},
      {"cu_one", packed("--cu-seqlens-q cu_one.npy"), "cu_seqlens_q"},
      {"cu_kv_count", packed("--cu-seqlens-q good_cu.npy --cu-seqlens-kv cu_four.npy"), "cu_seqlens_kv"},
      {"cu_kv_order", packed("--cu-seqlens-q cu_four.npy --cu-seqlens-kv cu_order.npy"), "cu_seqlens_kv"},
      // Masks: text.
      {"mask_unknown", mask("casual"), "causal"},
      {"mask_unclosed", mask("window(3, 0"), "column"},
      {"mask_trailing", mask("causal &"), "column"},
      {"mask_leading", mask("& causal"), "column"},
      {"mask_only_not", mask("~"), "column"},
      {"mask_two_words", mask("causal causal"), "column"},
      {"mask_character", mask("causal $ full"), "column"},
      {"mask_blank", mask("   "), "column"},
      {"mask_not_ascii", mask("caus\xc3\xa4l"), "column"},
      {"mask_no_arguments", mask("window"), "left"},
      {"mask_few_arguments", mask("window(3)"), "right"},
      {"mask_many_arguments", mask("window(3, 0, 1, 2, 3)"), "window"},
      {"mask_unknown_argument", mask("window(3, rigth=0)"), "right"},
      {"mask_argument_twice", mask("window(3, left=2, right=0)"), "left"},
      {"mask_missing_array", mask("documents(@cu)"), "@cu"},
      {"mask_text_argument", mask("window(\"x\", 0)"), "left"},
      {"mask_fraction", mask("window(1.5, 0)"), "left"},
      {"mask_number_too_big", mask("window(99999999999999999999, 0)"), "column"},
      {"mask_align", mask("causal(align=\"middle\")"), "middle"},
      {"mask_topk", mask("topk(@a, 4)"), "topk"},
      // Masks: values.
      {"window_negative", mask("window(-2, 0)"), "-2"},
      {"window_negative_right", mask("window(0, -7)"), "-7"},
      {"keys_out_of_order", mask("keys(5, 2)"), "keys"},
      {"positions_out_of_order", mask("positions(5, 2)"), "positions"},
      {"prefix_negative", mask("prefix(-1)"), "prefix"},
      {"prefix_per_batch", mask("prefix([1, 2, 3])"), "prefix"},
      {"documents_start", mask("documents([1, 16])"), "documents"},
      {"documents_order", mask("documents([0, 9, 7, 16])"), "documents"},
      {"documents_end", mask("documents([0, 15])"), "documents"},
      {"documents_beyond", mask("documents([0, 17])"), "documents"},
      {"documents_empty", mask("documents([])"), "documents"},
      {"documents_float", array("documents(@a)", "three"), "documents"},
      {"documents_uint16", array("documents(@a)", "cu_uint16"), "@a has type uint16"},
      {"documents_batch", array("documents(@a)", "cu_batch3"), "documents"},
      {"documents_two_counts", mask("documents([0, 7, 16], [0, 16])"), "documents"},
      {"chunked_zero", mask("chunked(0)"), "chunked"},
      {"chunked_negative", mask("chunked(-4)"), "chunked"},
      {"stride_zero", mask("stride(0)"), "stride"},
      {"shared_prefix_sum", mask("shared_prefix(8, [4, 3])"), "shared_prefix"},
      {"shared_prefix_negative_length", mask("shared_prefix(8, [-4, 12])"), "shared_prefix"},
      {"shared_prefix_negative", mask("shared_prefix(-1, [17])"), "shared_prefix"},
      {"tree_forward", array("tree(@a)", "parents_forward"), "tree"},
      {"tree_self", array("tree(@a)", "parents_self"), "tree"},
      {"tree_beyond", array("tree(@a)", "parents_beyond"), "tree"},
      {"tree_low", array("tree(@a)", "parents_low"), "tree"},
      {"tree_long", array("tree(@a)", "parents_long"), "tree"},
      {"tree_float", array("tree(@a)", "parents_float"), "tree"},
      {"tree_prefix_beyond", mask("tree([-1, 0], 15)"), "tree"},
      {"tree_prefix_negative", mask("tree([-1, 0], -1)"), "tree"},
      {"blocks_shape", array("blocks(@a, 4, 4)", "map_shape"), "blocks"},
      {"blocks_tile", array("blocks(@a, 0, 4)", "good_map"), "blocks"},
      {"blocks_tile_mismatch", array("blocks(@a, 8, 4)", "good_map"), "blocks"},
      {"blocks_float", array("blocks(@a, 4, 4)", "map_float"), "blocks"},
      {"blocks_rank1", array("blocks(@a, 4, 4)", "map_rank1"), "blocks"},
      {"bits_short", array("bits(@a)", "bits_short"), "bits"},
      {"bits_float", array("bits(@a)", "bits_float"), "bits"},
      {"dense_shape", array("dense(@a)", "dense_shape"), "dense"},
      {"dense_batch", array("dense(@a)", "dense_batch"), "dense"},
      {"dense_heads", array("dense(@a)", "dense_heads"), "dense"},
      {"dense_float", array("dense(@a)", "dense_float"), "dense"},
      {"row_intervals_order", two("row_intervals(@a, @b)", "begin", "end_before"), "row_intervals"},
      {"row_intervals_rows", two("row_intervals(@a, @b)", "begin", "end_rows"), "row_intervals"},
      {"row_intervals_counts", two("row_intervals(@a, @b)", "begin", "end_two"), "row_intervals"},
      {"col_intervals_order", two("col_intervals(@a, @b)", "begin", "end_before"), "col_intervals"},
      {"col_intervals_rows", two("col_intervals(@a, @b)", "end_rows", "end_rows"), "col_intervals"},
      {"neighborhood_even", mask("neighborhood([4, 4], [2, 3], [1, 1])"), "neighborhood"},
      {"neighborhood_shape", mask("neighborhood([4, 5], [3, 3], [1, 1])"), "neighborhood"},
      {"neighborhood_axes", mask("neighborhood([4, 4], [3], [1, 1])"), "neighborhood"},
      {"neighborhood_4d", mask("neighborhood([2, 2, 2, 2], [1, 1, 1, 1], [1, 1, 1, 1])"), "neighborhood"},
      {"neighborhood_dilation", mask("neighborhood([4, 4], [3, 3], [0, 1])"), "neighborhood"},
      {"neighborhood_too_wide", mask("neighborhood([4, 4], [5, 3], [1, 1])"), "neighborhood"},
      {"neighborhood_beyond", mask("neighborhood([9223372036854775807, 2], [3, 1], [1, 1])"), "expected at most"},
      {"neighborhood_overflow", mask("neighborhood([4294967296, 4294967296], [3, 3], [1, 1])"), "neighborhood"},
      {"block_diffusion_zero", mask("block_diffusion(8, 0)"), "block_diffusion"},
      {"block_diffusion_length", mask("block_diffusion(7, 2)"), "block_diffusion"},
      {"threshold_shape", array("threshold(@a, 0.5)", "threshold_shape"), "threshold"},
      {"topk_shape", array("topk(@a, 4, causal)", "threshold_shape"), "topk"},
      {"topk_window", array("topk(@a, -4)", "threshold_shape"), "window"},
      {"topk_among", array("topk(@a, 4, among=3)", "threshold_shape"), "expected a mask"},
      {"per_batch_count", mask("per_batch([causal, full])"), "per_batch"},
      {"per_head_count", mask("per_head([causal, full, causal])"), "per_head"},
      {"per_head_empty", mask("per_head([])"), "per_head"},
      // Places that cannot be written.
      {"out_is_a_file", "run --q q.npy --k k.npy --v v.npy --out q.npy", "not a directory"},
      {"out_below_a_file", "run --q q.npy --k k.npy --v v.npy --out q.npy/out", "not a directory"},
      {"out_below_a_device", "run --q q.npy --k k.npy --v v.npy --out /dev/null/out", "not a directory"},
      {"out_in_proc", "run --q q.npy --k k.npy --v v.npy --out /proc/anymask", "cannot be made"},
      {"out_file_taken", "run --q q.npy --k k.npy --v v.npy --out taken", "not a regular file"},
      {"out_safetensors_taken", "run --q q.npy --k k.npy --v v.npy --out taken.safetensors", "not a regular file"},
      {"out_safetensors_nowhere", "run --q q.npy --k k.npy --v v.npy --out nowhere/x.safetensors", "cannot be written"},
      // Other commands.
      {"explain_shape_text", "explain --shape 1,a,3", "expected integers"},
      {"explain_shape_short", "explain --shape 1,16,16", "3 numbers"},
      {"explain_shape_negative", "explain --shape 1,-16,16,1,1,64", "expected integers"},
      {"explain_shape_overflow", "explain --shape 4294967296,4294967296,16,4,4,64", "64-bit"},
      {"explain_shape_and_q", "explain --shape 1,16,16,1,1,64 --q q.npy", "one or the other"},
      {"explain_tokens", "explain --shape 1,4294967296,16,1,1,64", "4294967296"},
      {"masks_unknown", "masks windw", "did you mean window"},
      {"verify_case", "verify --case nothing", "--case"},
      {"verify_case_64bit", "verify --case 99999999999999999999", "63 bits"},
      {"verify_cases", "verify --cases -1", "expected a number >= 0"},
      {"verify_target", "verify --target MMX --cases 1", "MMX"},
      {"verify_jobs", "verify --jobs -1", "expected 0 to 1024"},
      {"bench_device", "bench gpu", "use one of cpu"},
      {"bench_suite", "bench --suite forwards", "did you mean forward"},
      {"bench_filter", "bench --filter nothing", "nothing"},
      {"bench_threads", "bench --threads -1", "expected 0 to 4096"},
      {"bench_picture_format", "bench --filter tree64 --picture bench.jpg", "bench.jpg"},
      {"bench_picture_nowhere", "bench --filter tree64 --picture nowhere/bench.svg", "--picture"},
      {"bench_picture_of_nothing", "bench --suite host --picture bench.svg", "--picture"},
      {"completion_shell", "completion tcsh", "bash, zsh, fish"},
      {"completion_two", "completion bash zsh", "not expected: zsh; --help lists what is"},
      {"completion_none", "completion", "which shell"},
      {"view_seq_negative", "view causal --seq -1", "--s"},
      {"view_contradiction", "view causal --cu-seqlens-q good_cu.npy --seq 4", "contradict"},
      {"view_kv_heads", "view causal --seq 8 --heads 4 --kv-heads 3", "must divide"},
  };
}

class BadInput : public testing::TestWithParam<Bad> {};

TEST_P(BadInput, IsRefusedWithAMessageAndNothingIsWritten) {
  const std::vector<std::string> before = inputs().names();
  const Said said = run_anymask(GetParam().command, inputs().path());
  EXPECT_EQ(said.status, 2) << said.out << said.err;
  EXPECT_THAT(said.err, testing::HasSubstr(GetParam().says));
  EXPECT_THAT(said.err, testing::StartsWith("anymask"));
  EXPECT_EQ(said.out, "");
  EXPECT_EQ(inputs().names(), before);
}

INSTANTIATE_TEST_SUITE_P(Table, BadInput, testing::ValuesIn(table()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(BadInputTable, IsLargeEnoughAndItsGoodTensorsAreGood) {
  EXPECT_GE(table().size(), 120u);
  const Said said = run_anymask(
      "run --q q.npy --k k.npy --v v.npy --bias good_bias.npy --sinks good_sinks.npy --dout good_dout.npy --dlse "
      "good_dlse.npy",
      inputs().path());
  EXPECT_EQ(said.status, 0) << said.err;
}

}  // namespace
}  // namespace anymask::cli
