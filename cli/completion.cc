// `anymask completion`: prints the script a shell needs to complete commands, options and their choices.
#include "cli/completion.h"

#include <fmt/core.h>

#include "cli/commands.h"

namespace anymask::cli {

namespace {

bool takes_file(const Args::OptionInfo& option) {
  return option.value_name == "FILE" || option.value_name == "DIR" || option.value_name == "NAME=FILE";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// In single quotes, for all three shells; ':' and brackets mean something to zsh.
std::string quoted(const std::string& text, bool zsh) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      if (zsh && (c == ':' || c == '[' || c == ']')) result += '\\';
      result += c;
    }
  }
  return result;
}

std::string bash_script(const std::vector<Args::CommandInfo>& commands) {
  std::string names, cases, values;
  for (const Args::CommandInfo& command : commands) {
    names += (names.empty() ? "" : " ") + command.name;
    std::string words;
    for (const Args::OptionInfo& option : command.options) {
      if (option.flags.empty()) {
        words += " " + joined(option.choices);
        continue;
      }
      words += " " + joined(option.flags);
      if (!option.choices.empty()) {
        values += fmt::format("    {}:{}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", command.name,
                              option.flags[0], joined(option.choices));
      } else if (takes_file(option)) {
        values += fmt::format("    {}:{}) COMPREPLY=($(compgen -f -- \"${{word#*=}}\")); return ;;\n", command.name,
                              option.flags[0]);
      } else if (!option.value_name.empty()) {
        values += fmt::format("    {}:{}) return ;;\n", command.name, option.flags[0]);
      }
    }
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name, words.substr(words.find_first_not_of(' ')));
  }
  return "_anymask() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" "
         "command=\"${COMP_WORDS[1]}\" words\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names +
         " --help --version\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"$command:$previous\" in\n" +
         values +
         "  esac\n"
         "  case \"$command\" in\n" +
         cases +
         "    *) return ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o filenames -F _anymask anymask\n";
}

std::string zsh_script(const std::vector<Args::CommandInfo>& commands) {
  std::string names, cases;
  for (const Args::CommandInfo& command : commands) {
    names += fmt::format("    '{}:{}'\n", command.name, quoted(command.summary, true));
    cases += fmt::format("    {})\n      _arguments", command.name);
    int position = 0;
    for (const Args::OptionInfo& option : command.options) {
      const std::string action = !option.choices.empty() ? "(" + joined(option.choices) + ")"
                                 : takes_file(option)    ? "_files"
                                                         : " ";
      if (option.flags.empty()) {
        cases += fmt::format(" \\\n        '{}:{}:{}'", ++position, quoted(option.value_name, true), action);
        continue;
      }
      for (const std::string& flag : option.flags) {
        cases += fmt::format(" \\\n        '*{}[{}]{}'", flag, quoted(option.help, true),
                             option.value_name.empty() ? "" : ":" + quoted(option.value_name, true) + ":" + action);
      }
    }
    cases += "\n      ;;\n";
  }
  return "#compdef anymask\n"
         "_anymask() {\n"
         "  local -a commands\n"
         "  commands=(\n" +
         names +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe 'command' commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = \"_anymask\" ]; then _anymask \"$@\"; else compdef _anymask anymask; fi\n";
}

std::string fish_script(const std::vector<Args::CommandInfo>& commands) {
  std::string script =
      "complete -c anymask -f\ncomplete -c anymask -n __fish_use_subcommand -l version -d 'print the version'\n";
  for (const Args::CommandInfo& command : commands) {
    script += fmt::format("complete -c anymask -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                          quoted(command.summary, false));
    const std::string within = fmt::format("complete -c anymask -n '__fish_seen_subcommand_from {}'", command.name);
    for (const Args::OptionInfo& option : command.options) {
      if (option.flags.empty()) {
        if (!option.choices.empty()) script += fmt::format("{} -a '{}'\n", within, joined(option.choices));
        continue;
      }
      script += within;
      for (const std::string& flag : option.flags)
        script += flag.rfind("--", 0) == 0 ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
      if (!option.choices.empty()) {
        script += fmt::format(" -x -a '{}'", joined(option.choices));
      } else if (takes_file(option)) {
        script += " -r -F";
      } else if (!option.value_name.empty()) {
        script += " -x";
      }
      script += fmt::format(" -d '{}'\n", quoted(option.help, false));
    }
  }
  return script;
}

}  // namespace

std::string completion_script(const std::string& shell, const std::vector<Args::CommandInfo>& commands) {
  return shell == "bash" ? bash_script(commands) : shell == "zsh" ? zsh_script(commands) : fish_script(commands);
}

void add_completion(Args& app) {
  auto shell = std::make_shared<std::string>();
  Args command = app.command("completion", "print a script that completes anymask in a shell",
                             "source <(anymask completion bash)\n"
                             "anymask completion zsh > ~/.zfunc/_anymask\n"
                             "anymask completion fish > ~/.config/fish/completions/anymask.fish");
  command.positional("SHELL", *shell, "the shell", {"bash", "zsh", "fish"});
  command.action([shell, command] {
    if (shell->empty()) throw UsageError("which shell? give bash, zsh or fish");
    fmt::print("{}", completion_script(*shell, command.commands()));
    return 0;
  });
}

}  // namespace anymask::cli
