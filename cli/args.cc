#include "cli/args.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "anymask/anymask.h"
#include "cli/commands.h"
#include "cli/nearest.h"

namespace anymask::cli {

namespace {

// What all commands of one app share.
struct Shared {
  CLI::App app{"Exact attention under any mask, at the cost of what the mask keeps.", "anymask"};
  std::vector<Args::CommandInfo> commands;
  std::string selected;  // the command being run
  std::function<int()> run;
};

[[noreturn]] void bad_number(const std::string& flags, const std::string& expected, const std::string& got) {
  throw UsageError(flags + " expects " + expected + ", got \"" + got + "\"");
}

int64_t parse_integer(const std::string& flags, const std::string& text) {
  errno = 0;
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0) bad_number(flags, "an integer", text);
  if (errno == ERANGE) bad_number(flags, "an integer of 64 bits", text);
  return value;
}

double parse_real(const std::string& flags, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0) bad_number(flags, "a number", text);
  return value;
}

// A shell variable that was never set must not read as an option left out: `--mask "$M"` would attend to everything.
const std::string& not_empty(const std::string& flags, const std::string& text) {
  if (text.empty()) throw UsageError(flags + " is empty: give it a value, or leave it out");
  return text;
}

std::vector<std::string> split_flags(const std::string& flags) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= flags.size()) {
    const size_t comma = std::min(flags.find(',', begin), flags.size());
    parts.push_back(flags.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

struct Args::State {
  Shared* shared = nullptr;  // lives in run_app; the parser's callbacks hold Args, so owning it here would be a cycle
  CLI::App* app = nullptr;
  size_t index = 0;  // into shared->commands
  std::string heading;

  void declared(CLI::Option* option, const std::string& flags, const std::string& value_name, const std::string& help,
                const std::vector<std::string>& choices = {}) {
    if (!heading.empty()) option->group(heading);
    if (!value_name.empty()) option->type_name(value_name);
    shared->commands[index].options.push_back(
        {flags.empty() ? std::vector<std::string>{} : split_flags(flags), value_name, choices, help});
  }
};

Args Args::command(const std::string& name, const std::string& summary, const std::string& examples) {
  auto state = std::make_shared<State>();
  state->shared = state_->shared;
  state->app = state_->app->add_subcommand(name, summary);
  std::string footer = "Examples:\n";
  for (size_t begin = 0; begin < examples.size();) {
    const size_t end = std::min(examples.find('\n', begin), examples.size());
    footer += "  " + examples.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  state->app->footer(footer + "\nExit status: 0 done, 1 a check failed, 2 bad input.");
  state->index = state->shared->commands.size();
  state->shared->commands.push_back({name, summary, {{{"--help", "-h"}, "", {}, "print this help and exit"}}});
  return Args(state);
}

void Args::section(const std::string& heading) { state_->heading = heading; }

void Args::option(const std::string& flags, std::string& value, const std::string& value_name,
                  const std::string& help) {
  auto* option = state_->app->add_option_function<std::string>(
      flags, [flags, &value](const std::string& text) { value = not_empty(flags, text); }, help);
  state_->declared(option, flags, value_name, help);
}

void Args::option(const std::string& flags, std::vector<std::string>& value, const std::string& value_name,
                  const std::string& help) {
  state_->declared(state_->app->add_option(flags, value, help)->allow_extra_args(false), flags, value_name, help);
}

void Args::option(const std::string& flags, int64_t& value, const std::string& value_name, const std::string& help) {
  auto* option = state_->app->add_option_function<std::string>(
      flags, [flags, &value](const std::string& text) { value = parse_integer(flags, text); }, help);
  state_->declared(option, flags, value_name, help);
}

void Args::option(const std::string& flags, std::optional<int64_t>& value, const std::string& value_name,
                  const std::string& help) {
  auto* option = state_->app->add_option_function<std::string>(
      flags, [flags, &value](const std::string& text) { value = parse_integer(flags, text); }, help);
  state_->declared(option, flags, value_name, help);
}

void Args::option(const std::string& flags, std::optional<double>& value, const std::string& value_name,
                  const std::string& help) {
  auto* option = state_->app->add_option_function<std::string>(
      flags, [flags, &value](const std::string& text) { value = parse_real(flags, text); }, help);
  state_->declared(option, flags, value_name, help);
}

void Args::choice(const std::string& flags, std::string& value, const std::vector<std::string>& choices,
                  const std::string& help) {
  auto* option = state_->app->add_option_function<std::string>(
      flags,
      [flags, choices, &value](const std::string& text) {
        if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
          throw UsageError(flags + " has no choice \"" + text + "\": use one of " + joined(choices) +
                           did_you_mean(text, choices));
        }
        value = text;
      },
      help + " (" + joined(choices) + ")");
  state_->declared(option, flags, "NAME", help, choices);
}

void Args::flag(const std::string& flags, bool& value, const std::string& help) {
  state_->declared(state_->app->add_flag(flags, value, help), flags, "", help);
}

void Args::positional(const std::string& name, std::string& value, const std::string& help,
                      const std::vector<std::string>& choices) {
  auto* option = state_->app->add_option_function<std::string>(
      name,
      [name, choices, &value](const std::string& text) {
        if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end()) {
          throw UsageError(name + " has no choice \"" + text + "\": use one of " + joined(choices) +
                           did_you_mean(text, choices));
        }
        value = not_empty(name, text);
      },
      choices.empty() ? help : help + " (" + joined(choices) + ")");
  state_->declared(option, "", name, help, choices);
}

void Args::action(std::function<int()> run) {
  Shared* shared = state_->shared;
  const std::string name = shared->commands[state_->index].name;
  state_->app->preparse_callback([shared, name](size_t) { shared->selected = name; });
  state_->app->callback([shared, run = std::move(run)] { shared->run = run; });
}

std::vector<Args::CommandInfo> Args::commands() const { return state_->shared->commands; }

int run_app(int argc, char** argv) {
  Shared shared;
  auto state = std::make_shared<Args::State>();
  state->shared = &shared;
  state->app = &shared.app;
  shared.app.set_version_flag("--version", std::string("anymask ") + anymask_version());
  shared.app.require_subcommand(
      0, 1);  // none is refused below: the parser would not say what a misspelt one may have meant
  shared.app.footer(
      "Examples:\n"
      "  anymask view \"causal & window(8, 0)\" --seq 64\n"
      "  anymask run --q q.npy --k k.npy --v v.npy --mask causal --out result --check\n"
      "  anymask masks\n\n"
      "anymask COMMAND --help tells more. Exit status: 0 done, 1 a check failed, 2 bad input.");
  Args app(state);
  add_run(app);
  add_view(app);
  add_explain(app);
  add_masks(app);
  add_verify(app);
  add_bench(app);
  add_completion(app);

  const auto fail = [&shared](const std::string& message) {
    std::fflush(stdout);
    std::fprintf(stderr, "anymask%s%s: %s\n", shared.selected.empty() ? "" : " ", shared.selected.c_str(),
                 message.c_str());
    return 2;
  };
  try {
    shared.app.parse(argc, argv);
    if (!shared.run) {
      std::vector<std::string> names;
      for (const Args::CommandInfo& command : shared.commands) names.push_back(command.name);
      throw UsageError("no subcommand is given: use one of " + joined(names) + ", or --help");
    }
    const int status = shared.run();
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      return fail("standard output cannot be written (is the disk full?)");
    return status;
  } catch (const CLI::Success& success) {  // --help, --version
    return shared.app.exit(success);
  } catch (const CLI::ExtrasError& error) {
    std::string message = error.what();
    std::vector<std::string> known;
    for (const Args::CommandInfo& command : shared.commands) {
      if (shared.selected.empty()) known.push_back(command.name);
      if (command.name != shared.selected) continue;
      for (const Args::OptionInfo& option : command.options)
        known.insert(known.end(), option.flags.begin(), option.flags.end());
    }
    for (int i = 1; i < argc; ++i) {
      if (message.find(argv[i]) == std::string::npos) continue;
      std::vector<std::string> alike;  // options for an option, words for a word
      for (const std::string& name : known)
        if ((name[0] == '-') == (argv[i][0] == '-')) alike.push_back(name);
      const std::string hint = did_you_mean(argv[i], alike);
      if (!hint.empty()) return fail(message + hint);
    }
    return fail(message + "; --help lists what is");
  } catch (const CLI::ParseError& error) {
    return fail(std::string(error.what()) + "; see anymask" + (shared.selected.empty() ? "" : " " + shared.selected) +
                " --help");
  } catch (const UsageError& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("not enough memory: use smaller inputs, or free some");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}

}  // namespace anymask::cli
