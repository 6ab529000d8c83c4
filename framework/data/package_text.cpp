#include "framework/data/package_text.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::string_view kPrefix = "package:";
constexpr std::string_view kBible = "bible-kjv";
constexpr std::size_t kLeastBibleBytes = 4000000;  // it prints 4,404,412

[[noreturn]] void fail_bible(const std::string& why) {
  fail("data.text = package:bible-kjv: ", why,
       "; install it (apt-get install bible-kjv), or train on a text of your own with "
       "--data.text=FILE");
}

std::string printed_bible(const RunProgram& run) {
  const ProgramResult result = run({"bible", "-f", "gen1:1-rev22:21"});
  if (!result.found) fail_bible("the package bible-kjv is not installed");
  if (result.status != 0)
    fail_bible(
        join("the program bible of the package bible-kjv ended with status ", result.status));
  return result.output;
}

}  // namespace

std::string bible_text(const std::string& printed) {
  std::string text;
  text.reserve(printed.size());
  std::string_view rest = printed;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t space = line.find(' ');
    const std::string_view reference = line.substr(0, std::min(space, line.size()));
    if (space == std::string_view::npos || reference.find(':') == std::string_view::npos)
      fail_bible(join("line ", number, " of what it prints does not start with a verse number: \"",
                      line.substr(0, 40), "\""));
    if (!text.empty() && reference.ends_with(":1")) text += '\n';
    text.append(line.substr(space + 1)) += '\n';
  }
  return text;
}

std::string resolve_text(Files& files, const std::string& value, const std::string& cache_folder,
                         const RunProgram& run) {
  if (!value.starts_with(kPrefix)) return value;
  const std::string name = value.substr(kPrefix.size());
  if (name != kBible)
    throw UsageError(join("data.text = \"", value,
                          "\": the only package with a text is bible-kjv; use "
                          "package:bible-kjv or the name of a file"));
  const std::string path = path_join(cache_folder, "bible-kjv.txt");
  const FileStatus status = files.status(path);
  if (status.kind == FileKind::kFile && status.bytes >= static_cast<std::int64_t>(kLeastBibleBytes))
    return path;
  const std::string text = bible_text(printed_bible(run));
  if (text.size() < kLeastBibleBytes)
    fail_bible(join("it printed only ", text.size(), " bytes of text, expected more than ",
                    kLeastBibleBytes));
  files.make_directories(cache_folder);
  write_whole_atomically(files, path, text);
  return path;
}

}  // namespace trireme
