// Files and directories that an interrupted command must not leave behind: SIGINT, SIGTERM and SIGHUP remove what is
// registered here, newest first, before they end the process as they would have.
#pragma once

#include <string>

namespace anymask::cli {

// A file or a directory that has just been made. Returns a place for finished(); -1 where there is none
// left (64) or the path is too long: such a file is only removed by whoever made it.
int unfinished(const std::string& path);
// It has been renamed or removed, or may stay.
void finished(int place);

}  // namespace anymask::cli
