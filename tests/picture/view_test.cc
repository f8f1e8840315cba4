// `anymask view` from its command line to what it prints and writes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/args.h"
#include "tests/picture/drawn.h"

namespace anymask::cli {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int status;
  std::string out, err;
};

Outcome view(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"anymask", "view"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_app(static_cast<int>(arguments.size()), argv.data());
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class View : public testing::Test {
 protected:
  View() : directory_(fs::temp_directory_path() / ("anymask_view_" + std::to_string(::getpid()))) {
    fs::create_directories(directory_);
  }
  ~View() override { fs::remove_all(directory_); }
  std::string file(const std::string& name) const { return (directory_ / name).string(); }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path directory_;
};

TEST_F(View, PrintsPlainTextWhereThereIsNoTerminal) {
  const Outcome outcome = view({"causal", "--seq", "4"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "causal\n"
            "keeps 62.5% of 16 pairs (4 queries x 4 keys)\n"
            "tiles of 64 queries x 64 keys: 0 full, 1 partial, 0 empty\n"
            "\n"
            "   keys\n"
            "q  0     3\n"
            "  +-------+\n"
            "0 |x . . .|\n"
            "  |x x . .|\n"
            "  |x x x .|\n"
            "3 |x x x x|\n"
            "  +-------+\n"
            "x partial tile: kept   . partial tile: dropped\n");
  EXPECT_EQ(view({"--mask", "causal", "--s-q", "4", "--s-kv", "4", "--plain"}).out, outcome.out);
}

TEST_F(View, WritesSvgAndPng) {
  ASSERT_EQ(view({"causal & window(300, 0)", "--seq", "2048", "--out", file("a.svg")}).status, 0);
  EXPECT_EQ(read_svg(read(file("a.svg"))).title, "causal & window(300, 0)");
  ASSERT_EQ(view({"causal & window(300, 0)", "--seq", "2048", "--out", file("a.png")}).status, 0);
  EXPECT_GT(read_png(read(file("a.png"))).width, 1200);
  const Outcome piped = view({"causal & window(300, 0)", "--seq", "2048", "--out", "-"});
  EXPECT_EQ(piped.status, 0);
  EXPECT_EQ(piped.out, read(file("a.svg")));
}

TEST_F(View, DrawsAHundredThousandPositions) {
  ASSERT_EQ(view({"causal & window(5000, 0) | keys(0, 100)", "--seq", "100000", "--out", file("a.svg")}).status, 0);
  EXPECT_LT(fs::file_size(file("a.svg")), 400u << 10);
  ASSERT_EQ(view({"causal", "--s-q", "100000", "--s-kv", "16", "--out", file("b.svg")}).status, 0);
  const Box plot = plot_of(read_svg(read(file("b.svg"))));
  EXPECT_NEAR(plot.height / plot.width, 8, 0.1);
}

TEST_F(View, JsonHoldsTheCells) {
  const Outcome outcome = view({"causal", "--seq", "4", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["kept"], 10);
  EXPECT_EQ(json["pairs"], 16);
  EXPECT_EQ(json["tiles"]["partial"], 1);
  EXPECT_EQ(json["share"],
            nlohmann::json::parse("[[1.0,0.0,0.0,0.0],[1.0,1.0,0.0,0.0],[1.0,1.0,1.0,0.0],[1.0,1.0,1.0,1.0]]"));
  EXPECT_EQ(json["cells"][0][0], "partial");
}

TEST_F(View, AllHeadsDrawsEachPlaneOnce) {
  const std::string mask = "per_head([causal, window(1, 0), causal])";
  const Outcome text = view({mask, "--seq", "8", "--heads", "3", "--all-heads"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("heads 0, 2\n"), std::string::npos);
  EXPECT_NE(text.out.find("head 1\n"), std::string::npos);
  ASSERT_EQ(view({mask, "--seq", "8", "--heads", "3", "--all-heads", "--out", file("h.svg")}).status, 0);
  const DrawnSvg svg = read_svg(read(file("h.svg")));
  EXPECT_NE(std::find(svg.texts.begin(), svg.texts.end(), "heads 0, 2"), svg.texts.end());
  const auto json = nlohmann::json::parse(view({mask, "--seq", "8", "--heads", "3", "--all-heads", "--json"}).out);
  EXPECT_EQ(json.size(), 2u);
}

TEST_F(View, ZeroSizesDraw) {
  const Outcome outcome = view({"causal", "--s-q", "0", "--s-kv", "8"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("empty: no queries\n"), std::string::npos);
  EXPECT_EQ(view({"causal", "--s-q", "8", "--s-kv", "0", "--out", file("z.png")}).status, 0);
}

TEST_F(View, BadInputExitsWith2AndWritesNothing) {
  const std::string good = file("x.svg");
  const std::vector<std::vector<std::string>> cases{
      {"causal", "--out", file("missing/x.svg")},
      {"causal", "--out", file("x.jpg")},
      {"causal", "--out", directory_.string() + ".svg/"},
      {"causl", "--out", good},
      {"causal", "--mask", "full", "--out", good},
      {"causal", "--head", "1", "--out", good},
      {"causal", "--sequence", "1", "--out", good},
      {"causal", "--sequence", "-1", "--out", good},
      {"causal", "--seq", "-1", "--out", good},
      {"causal", "--tile-n", "63", "--out", good},
      {"causal", "--tile-m", "-1", "--out", good},
      {"causal", "--tile-m", "99999999999", "--out", good},
      {"causal", "--size", "0", "--out", good},
      {"causal", "--size", "513", "--out", good},
      {"causal", "--width", "80", "--out", good},
      {"causal", "--plain", "--out", good},
      {"causal", "--head", "1", "--heads", "2", "--all-heads", "--out", good},
      {"causal", "--json", "--out", "-"},
      {"causal", "--width", "10"},
  };
  for (const auto& arguments : cases) {
    const Outcome outcome = view(arguments);
    std::string shown;
    for (const std::string& argument : arguments) shown += argument + " ";
    EXPECT_EQ(outcome.status, 2) << shown;
    EXPECT_EQ(outcome.err.rfind("anymask view: ", 0), 0u) << outcome.err;
    EXPECT_EQ(outcome.out, "") << shown;
    EXPECT_TRUE(fs::is_empty(directory_)) << shown;
  }
}

TEST_F(View, AFailedWriteLeavesWhatWasThere) {
  std::ofstream(file("old.svg")) << "old";
  EXPECT_EQ(view({"causl", "--out", file("old.svg")}).status, 2);
  EXPECT_EQ(read(file("old.svg")), "old");
}

}  // namespace
}  // namespace anymask::cli
