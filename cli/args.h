// Options of the command line. The parser behind it (CLI11) is slow to compile, so one file alone includes it: args.cc.
//
//   void add_view(Args& app) {
//     auto o = std::make_shared<ViewOptions>();
//     Args view = app.command("view", "draw a mask", "anymask view causal --seq 64\nanymask view \"window(8, 0)\" --seq
//     64 --out w.svg"); view.positional("MASK", o->mask, "the mask's text"); view.option("--out", o->out, "FILE",
//     "write .svg or .png instead of printing"); view.action([o] { return run_view(*o); });
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace anymask::cli {

// What the user gave is wrong: printed as `anymask <command>: <message>`, exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A command (or the whole app): where options are declared. Values are written while parsing and must outlive it: keep
// them in a shared_ptr that the action holds. `value_name` (FILE, N, TEXT) stands in --help; choices, if given, are
// checked and completed.
class Args {
 public:
  // `examples` are lines printed at the end of --help.
  Args command(const std::string& name, const std::string& summary, const std::string& examples);
  // Options declared from here on stand under this heading in --help.
  void section(const std::string& heading);

  void option(const std::string& flags, std::string& value, const std::string& value_name, const std::string& help);
  void option(const std::string& flags, std::vector<std::string>& value, const std::string& value_name,
              const std::string& help);
  void option(const std::string& flags, int64_t& value, const std::string& value_name, const std::string& help);
  void option(const std::string& flags, std::optional<int64_t>& value, const std::string& value_name,
              const std::string& help);
  void option(const std::string& flags, std::optional<double>& value, const std::string& value_name,
              const std::string& help);
  void choice(const std::string& flags, std::string& value, const std::vector<std::string>& choices,
              const std::string& help);
  void flag(const std::string& flags, bool& value, const std::string& help);
  void positional(const std::string& name, std::string& value, const std::string& help,
                  const std::vector<std::string>& choices = {});
  // What the command does, after parsing; its result is the exit status.
  void action(std::function<int()> run);

  // Everything declared, for shell completion.
  struct OptionInfo {
    std::vector<std::string> flags;  // empty: positional
    std::string value_name;          // empty: takes no value
    std::vector<std::string> choices;
    std::string help;
  };
  struct CommandInfo {
    std::string name, summary;
    std::vector<OptionInfo> options;
  };
  std::vector<CommandInfo> commands() const;

 private:
  friend int run_app(int argc, char** argv);
  struct State;
  explicit Args(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Parses, runs the command, prints errors; returns the exit status.
int run_app(int argc, char** argv);

}  // namespace anymask::cli
