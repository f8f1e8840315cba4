// `anymask run`: every way in and out, each checked against the reference by the command itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "cli/fixture.h"
#include "cli/io/npy.h"
#include "cli/io/safetensors.h"

namespace anymask::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Run : testing::Test {
  Directory directory;

  void save(const char* name, std::vector<int64_t> shape, ElementType type = ElementType::f32) {
    save_npy(directory / (std::string(name) + ".npy"), randoms(name, std::move(shape), type));
  }
  void save_qkv(ElementType type = ElementType::f32) {
    save("q", {2, 40, 4, 16}, type);
    save("k", {2, 40, 2, 16}, type);
    save("v", {2, 40, 2, 24}, type);
  }
  Said run(const std::string& options) { return run_anymask("run " + options, directory.path()); }
  Tensor read(const std::string& name) { return read_npy(directory / name, name); }
};

TEST_F(Run, ForwardAndBackwardInEachType) {
  save_qkv();
  save("dout", {2, 40, 4, 24});
  save("dlse", {2, 4, 40});
  save("bias", {2, 1, 40, 40});
  save("sinks", {4});
  save("alibi", {4});
  for (const std::string type : {"fp32", "float32", "fp16", "bf16", "bfloat16"}) {
    const Said said =
        run("--q q.npy --k k.npy --v v.npy --dout dout.npy --dlse dlse.npy --bias bias.npy --sinks sinks.npy --alibi "
            "alibi.npy --softcap 8 "
            "--scale 0.3 --mask 'causal & window(9, 0) | keys(0, 2)' --threads 2 --deterministic --check --out out "
            "--dtype " +
            type);
    ASSERT_EQ(said.status, 0) << type << said.out << said.err;
    EXPECT_THAT(said.out, HasSubstr("every element"));
    EXPECT_EQ(read("out/out.npy").shape, (std::vector<int64_t>{2, 40, 4, 24}));
    EXPECT_EQ(read("out/out.npy").type, type == "fp16" ? ElementType::f16 : ElementType::f32);
    EXPECT_EQ(read("out/lse.npy").shape, (std::vector<int64_t>{2, 4, 40}));
    EXPECT_EQ(read("out/dq.npy").shape, (std::vector<int64_t>{2, 40, 4, 16}));
    EXPECT_EQ(read("out/dk.npy").shape, (std::vector<int64_t>{2, 40, 2, 16}));
    EXPECT_EQ(read("out/dv.npy").shape, (std::vector<int64_t>{2, 40, 2, 24}));
    EXPECT_EQ(read("out/dbias.npy").shape, (std::vector<int64_t>{2, 1, 40, 40}));
    EXPECT_EQ(read("out/dsinks.npy").shape, (std::vector<int64_t>{4}));
  }
}

TEST_F(Run, TheFirstRowOfCausalIsTheFirstValue) {
  save("q", {1, 3, 1, 8});
  save("k", {1, 3, 1, 8});
  save("v", {1, 3, 1, 8});
  ASSERT_EQ(run("--q q.npy --k k.npy --v v.npy --mask causal --out out").status, 0);
  const Tensor out = read("out/out.npy"), v = read("v.npy");
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(element(out, i), element(v, i));
}

TEST_F(Run, WithoutAMaskEverythingIsKept) {
  save_qkv();
  const Said said = run("--q q.npy --k k.npy --v v.npy");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("(100.0%)"));
  EXPECT_THAT(said.out, HasSubstr("nothing (give --out)"));
  EXPECT_EQ(directory.names().size(), 3u);
}

TEST_F(Run, SafetensorsInAndOutWithArraysAndFlagsThatWin) {
  std::vector<Tensor> tensors = {
      randoms("q", {1, 30, 2, 8}, ElementType::bf16), randoms("k", {1, 30, 2, 8}, ElementType::bf16),
      randoms("v", {1, 30, 2, 8}, ElementType::bf16), ints("cu", {3}, {0, 11, 30}, ElementType::i64)};
  save_safetensors(directory / "in.safetensors", tensors);
  Said said = run("--input in.safetensors --mask 'causal & documents(@cu)' --check --out out.safetensors");
  ASSERT_EQ(said.status, 0) << said.out << said.err;
  const SafetensorsFile file = read_safetensors(directory / "out.safetensors", "out");
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.find("out", "")->type, ElementType::bf16);
  EXPECT_EQ(file.find("lse", "")->type, ElementType::f32);

  // Another array of the same name by flag: one document, so more is kept.
  save_npy(directory / "cu.npy", ints("cu", {2}, {0, 30}));
  const std::string line = "--input in.safetensors --mask 'causal & documents(@cu)' --json";
  const json own = json::parse(run(line).out), other = json::parse(run(line + " --array cu=cu.npy").out);
  EXPECT_EQ(own["kept"], 2 * (11 * 12 / 2 + 19 * 20 / 2));
  EXPECT_EQ(other["kept"], 2 * (30 * 31 / 2));
}

TEST_F(Run, PackedSequencesEqualSequencesAlone) {
  const Tensor q = randoms("q", {20, 2, 8}), k = randoms("k", {20, 2, 8}), v = randoms("v", {20, 2, 8});
  const auto rows = [](const Tensor& tensor, int64_t begin, int64_t end, bool batch) {
    const std::vector<int64_t> shape =
        batch ? std::vector<int64_t>{1, end - begin, 2, 8} : std::vector<int64_t>{end - begin, 2, 8};
    Tensor part = make_tensor(tensor.name, tensor.type, shape);
    for (int64_t i = 0; i < part.numel(); ++i) set_element(part, i, element(tensor, begin * 16 + i));
    return part;
  };
  for (const Tensor* tensor : {&q, &k, &v}) {
    save_npy(directory / (tensor->name + ".npy"), *tensor);
    save_npy(directory / (tensor->name + "2.npy"), rows(*tensor, 7, 20, true));
  }
  save_npy(directory / "cu.npy", ints("cu", {3}, {0, 7, 20}));
  const Said said = run("--q q.npy --k k.npy --v v.npy --cu-seqlens-q cu.npy --mask causal --check --out packed");
  ASSERT_EQ(said.status, 0) << said.out << said.err;
  ASSERT_EQ(run("--q q2.npy --k k2.npy --v v2.npy --mask causal --out alone").status, 0);
  const Tensor together = read("packed/out.npy"), alone = read("alone/out.npy");
  for (int64_t i = 0; i < alone.numel(); ++i) EXPECT_EQ(element(together, 7 * 16 + i), element(alone, i));
  EXPECT_EQ(read("packed/lse.npy").shape, (std::vector<int64_t>{2, 20}));
}

TEST_F(Run, MaskTextFromAFileAndTheSameBitsOnEveryBackendThread) {
  save_qkv();
  write_bytes(directory / "mask.txt", "causal &\n  window(5, 0)\n");
  ASSERT_EQ(run("--q q.npy --k k.npy --v v.npy --mask-file mask.txt --threads 1 --out one").status, 0);
  ASSERT_EQ(run("--q q.npy --k k.npy --v v.npy --mask 'causal & window(5, 0)' --threads 2 --out two").status, 0);
  EXPECT_EQ(read_text_file(directory / "one/out.npy", ""), read_text_file(directory / "two/out.npy", ""));
}

TEST_F(Run, Uint16FilesAreBfloat16WhenSaidSo) {
  for (const char* name : {"q", "k", "v"}) {
    Tensor bits = randoms(name, {1, 8, 1, 8}, ElementType::bf16);
    bits.type = ElementType::u16;
    save_npy(directory / (std::string(name) + ".npy"), bits);
  }
  const Said said = run("--q q.npy --k k.npy --v v.npy --dtype bf16 --check --json");
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(json::parse(said.out)["dtype"], "bfloat16");
}

TEST_F(Run, DoubleIsConvertedWhenSaidSo) {
  save_qkv(ElementType::f64);
  EXPECT_EQ(run("--q q.npy --k k.npy --v v.npy --check --dtype fp32").status, 0);
}

TEST_F(Run, JsonHoldsWhatScriptsNeed) {
  save_qkv();
  const Said said =
      run("--q q.npy --k k.npy --v v.npy --mask causal --check --repeat 3 --compare-dense --out out --json");
  ASSERT_EQ(said.status, 0) << said.err;
  const json report = json::parse(said.out);
  EXPECT_EQ(report["mask"], "causal");
  EXPECT_EQ(report["backend"], "cpu");
  EXPECT_EQ(report["pairs"], 2 * 4 * 40 * 40);
  EXPECT_EQ(report["kept"], 2 * 4 * 40 * 41 / 2);
  EXPECT_GT(report["forward"]["ms"].get<double>(), 0);
  EXPECT_GT(report["forward"]["gflops"].get<double>(), 0);
  EXPECT_GT(report["forward"]["dense_ms"].get<double>(), 0);
  EXPECT_TRUE(report["check"]["ok"].get<bool>());
  EXPECT_EQ(report["check"]["tensors"].size(), 2u);
  EXPECT_EQ(report["files"], (json{"out/out.npy", "out/lse.npy"}));
}

TEST_F(Run, AFailedCheckIsStatusOneAndSaysWhere) {
  save_qkv(ElementType::bf16);  // written as float32; computed in bf16 by the yardstick, whose bound it cannot break
  EXPECT_EQ(run("--q q.npy --k k.npy --v v.npy --dtype bf16 --backend naive --check").status, 0);
  Tensor q = randoms("q", {1, 4, 1, 8});
  q.as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  save_npy(directory / "q.npy", q);
  save("k", {1, 4, 1, 8});
  save("v", {1, 4, 1, 8});
  const Said said = run("--q q.npy --k k.npy --v v.npy --check");
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.err, HasSubstr("check failed: out"));
}

TEST_F(Run, EmptyInputsAreFine) {
  save("q", {1, 0, 2, 8});
  save("k", {1, 5, 2, 8});
  save("v", {1, 5, 2, 8});
  EXPECT_EQ(run("--q q.npy --k k.npy --v v.npy --mask causal --check --out out").status, 0);
  save("q", {1, 5, 2, 8});
  save("k", {1, 0, 2, 8});
  save("v", {1, 0, 2, 8});
  save("dout", {1, 5, 2, 8});
  const Said said = run("--q q.npy --k k.npy --v v.npy --dout dout.npy --mask causal --check --out out");
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(element(read("out/out.npy"), 0), 0);
}

}  // namespace
}  // namespace anymask::cli
