// The other commands, through the binary: masks, explain, verify, bench, completion, help.
#include "cli/command.h"
#include "cli/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/fixture.h"
#include "cli/nearest.h"

namespace anymask::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Said anymask_says(const std::string& line) { return run_anymask(line, "/"); }

const std::vector<std::string> commands = {"run", "view", "explain", "masks", "verify", "bench", "completion"};

TEST(Command, HelpOfEveryCommandHasExamples) {
  const Said said = anymask_says("--help");
  EXPECT_EQ(said.status, 0);
  for (const std::string& command : commands) {
    EXPECT_THAT(said.out, HasSubstr(command));
    const Said own = anymask_says(command + " --help");
    EXPECT_EQ(own.status, 0);
    EXPECT_THAT(own.out, HasSubstr("Examples:\n"));
    EXPECT_EQ(own.err, "");
  }
}

TEST(Command, VersionIsOneLine) {
  EXPECT_THAT(anymask_says("--version").out, testing::MatchesRegex("anymask [0-9]+.[0-9]+.[0-9]+\n"));
}

TEST(Command, AFullDiskIsNotSuccess) {
  EXPECT_EQ(anymask_says("masks --json").status, 0);
  const std::string line = std::string(ANYMASK_COMMAND) + " masks > /dev/full 2> /dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 2);
}

TEST(Masks, EveryKindIsListedWithAPicture) {
  const Said listing = anymask_says("masks");
  const json kinds = json::parse(anymask_says("masks --json").out);
  EXPECT_GE(kinds.size(), 20u);
  for (const json& kind : kinds) {
    const auto name = kind["name"].get<std::string>();
    EXPECT_THAT("\n" + listing.out, HasSubstr("\n" + name)) << name;
    const Said one = anymask_says("masks " + name);
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_THAT(one.out, HasSubstr(kind["keeps"].get<std::string>()));
    for (const json& argument : kind["arguments"]) EXPECT_THAT(one.out, HasSubstr(argument["doc"].get<std::string>()));
  }
  EXPECT_EQ(listing.out.find('\033'), std::string::npos) << "no colour where there is no terminal";
}

TEST(Explain, SaysTilesKernelAndRefusals) {
  const Said text = anymask_says("explain --shape 1,2048,2048,4,2,64 --mask 'causal & window(100, 0)' --backward");
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* word : {"forward", "backward", "kernel", "full tiles", "partial tiles", "predicted"})
    EXPECT_THAT(text.out, HasSubstr(word));
  const json said =
      json::parse(anymask_says("explain --shape 1,2048,2048,4,2,64 --mask causal --dtype bf16 --json").out);
  EXPECT_EQ(said["forward"]["backend"], "cpu");
  EXPECT_NEAR(said["forward"]["kept_share"].get<double>(), 0.5, 0.01);
  EXPECT_GT(said["forward"]["tiles"]["empty"].get<int64_t>(), 0);
  EXPECT_FALSE(said.contains("backward"));
}

TEST(Verify, PassesOnTheCpuAndNamesTheSeed) {
  const Said said = anymask_says("verify --cases 30 --seed 5 --jobs 1");
  EXPECT_EQ(said.status, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("seed 5: all within the bound"));
}

TEST(Verify, OneCaseByNumberAndByName) {
  EXPECT_EQ(anymask_says("verify --seed 5 --case 3").status, 0);
  const json said = json::parse(anymask_says("verify --case causal-s129-h4x2-d128 --json").out);
  EXPECT_EQ(said["compared"], 3);  // one a type
  EXPECT_TRUE(said["failures"].empty());
}

TEST(Bench, LinesHaveTheFieldsEveryToolReads) {
  const Said said = anymask_says("bench cpu --suite host --filter causal-s16 --quick --json");
  ASSERT_EQ(said.status, 0) << said.err;
  const json line = json::parse(said.out.substr(0, said.out.find('\n')));
  std::set<std::string> fields;
  for (const auto& [key, value] : line.items()) fields.insert(key);
  EXPECT_EQ(fields, (std::set<std::string>{"suite", "case", "who", "backend", "direction", "dtype", "ms", "spread",
                                           "tflops", "share", "peak", "device", "versions", "commit", "date"}));
  EXPECT_EQ(line["who"], "anymask");
  EXPECT_EQ(line["direction"], "host");
  EXPECT_GT(line["ms"].get<double>(), 0);
  EXPECT_GT(line["peak"].get<double>(), 0);
}

TEST(Bench, DrawsAPicture) {
  const Directory directory;
  const Said said =
      run_anymask("bench cpu --suite masks --filter tree64 --quick --picture bench.svg", directory.path());
  EXPECT_EQ(said.status, 0) << said.err;
  EXPECT_EQ(directory.names(), std::vector<std::string>{directory / "bench.svg"});
}

TEST(Completion, ScriptsAreValidAndComplete) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Said said = anymask_says("completion " + shell);
    EXPECT_EQ(said.status, 0);
    for (const std::string& command : commands) EXPECT_THAT(said.out, HasSubstr(command));
    EXPECT_THAT(said.out, HasSubstr(shell == "fish" ? "-l compare-dense" : "--compare-dense"));
  }
  // In a shell: an option of `run`, a choice of its --backend.
  const std::string try_it =
      std::string("bash -c 'eval \"$(") + ANYMASK_COMMAND +
      " completion bash)\"; COMP_WORDS=(anymask run --comp); COMP_CWORD=2; _anymask; [ \"$COMPREPLY\" = "
      "--compare-dense ] || exit 3; "
      "COMP_WORDS=(anymask run --backend ref); COMP_CWORD=3; _anymask; [ \"$COMPREPLY\" = reference ]'";
  EXPECT_EQ(std::system(try_it.c_str()), 0);
}

TEST(Percent, OnlyNothingIsZeroAndOnlyAllIsAHundred) {
  EXPECT_EQ(percent(0), "0.0%");
  EXPECT_EQ(percent(1), "100.0%");
  EXPECT_EQ(percent(0.99994), "99.99%");
  EXPECT_EQ(percent(0.9999999), ">99.99%");
  EXPECT_EQ(percent(0.00004), "0.004%");
  EXPECT_EQ(percent(1e-9), "<0.001%");
  EXPECT_EQ(percent(0.1234), "12.3%");
  EXPECT_EQ(percent(1.5), "150.0%");
}

TEST(DidYouMean, NamesTheNearestWhenNearEnough) {
  EXPECT_EQ(did_you_mean("casual", {"causal", "window"}), "; did you mean causal?");
  EXPECT_EQ(did_you_mean("elephant", {"causal", "window"}), "");
  EXPECT_EQ(did_you_mean(std::string(1000, 'x'), {"causal"}), "");
}

}  // namespace
}  // namespace anymask::cli
