// The commands of `anymask`, one file each: cli/<command>.cc declares its options on the command line and does the
// work.
//
// A command returns its exit status: 0 done, 1 a check failed. Bad input is thrown as UsageError (cli/args.h) or comes
// out of the library as a status (cli/library.h turns it into UsageError): main prints `anymask <command>: <message>`
// and exits with 2.
#pragma once

namespace anymask::cli {

class Args;

void add_run(Args& app);
void add_view(Args& app);
void add_explain(Args& app);
void add_bench(Args& app);
void add_verify(Args& app);
void add_masks(Args& app);
void add_completion(Args& app);

}  // namespace anymask::cli
