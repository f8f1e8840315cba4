// Pictures into files, whole or not at all, or as SVG to standard output.
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/args.h"
#include "cli/io/file.h"
#include "cli/picture/picture.h"

namespace anymask::cli {

namespace {

enum class Format : uint8_t { svg, png };

Format format_of(const std::string& path) {
  if (path == "-" || path.ends_with(".svg")) return Format::svg;
  if (path.ends_with(".png")) return Format::png;
  throw UsageError(fmt::format(
      "{} names no picture; expected a name ending in .svg or .png, or - for SVG on standard output", path));
}

void save(const std::string& path, const std::string& bytes) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) {
      throw UsageError(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
    }
    return;
  }
  OutputFiles files;
  const int file = files.open(path);
  files.write(file, bytes.data(), static_cast<int64_t>(bytes.size()));
  files.commit();
}

}  // namespace

void check_picture_path(const std::string& path) {
  format_of(path);
  if (path != "-") OutputFiles().open(path);
}

void write_picture(const std::string& path, const MaskPicture& picture) {
  save(path, format_of(path) == Format::svg ? picture_svg(picture) : picture_png(picture));
}

void write_gallery(const std::string& path, const std::string& title, const std::vector<MaskPicture>& pictures) {
  save(path, format_of(path) == Format::svg ? gallery_svg(title, pictures) : gallery_png(title, pictures));
}

void write_bars(const std::string& path, const std::string& title, const BarRows& rows) {
  save(path, format_of(path) == Format::svg ? bars_svg(title, rows) : bars_png(title, rows));
}

}  // namespace anymask::cli
