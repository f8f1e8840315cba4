// The `anymask` command.
#include "cli/args.h"

int main(int argc, char** argv) { return anymask::cli::run_app(argc, argv); }
