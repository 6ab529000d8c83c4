#include "framework/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <string_view>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "framework/checkpoint/hdf5_layout.h"
#include "framework/checkpoint/inspect.h"
#include "framework/checkpoint/rest_hash.h"

namespace trireme {

namespace {

constexpr char kViewName[] = "checkpoint.h5";
constexpr char kRecipeName[] = "recipe.cfg";
constexpr char kLatestName[] = "latest";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kSaving = ".tmp-saving";    // a save that is not committed
constexpr std::string_view kRemoved = ".tmp-removed";  // on its way out
constexpr std::int64_t kLongestLatest = 64;

std::string name_of_step(std::int64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%06lld", static_cast<long long>(step));
  return std::string(kStep) + digits;
}

// The step of exactly such a name.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size() && step >= 0;
  if (!whole || name_of_step(step) != name) return std::nullopt;
  return step;
}

bool is_rubbish(std::string_view name) {
  for (const std::string_view suffix : {kSaving, kRemoved})
    if (name.ends_with(suffix) && step_of(name.substr(0, name.size() - suffix.size()))) return true;
  return name.starts_with(std::string(kLatestName) + ".tmp-");
}

// A file that is written here and now; all its bytes are "rest".
StoredFile finish_small(File& file, std::string name) {
  StoredFile stored;
  stored.name = std::move(name);
  stored.bytes = file.size();
  stored.rest_hash = rest_hash(file, stored);
  file.sync();
  file.close();
  return stored;
}

StoredFile write_text(Files& files, const std::string& folder, const std::string& name,
                      const std::string& text) {
  const auto file = files.open(path_join(folder, name), OpenMode::kCreate);
  file->write(text.data(), static_cast<std::int64_t>(text.size()), 0);
  return finish_small(*file, name);
}

// A folder that a crash cannot take away, nor the folders that had to be made for it.
void make_durable(Files& files, const std::string& path) {
  const std::string parent = trireme::folder_of(path);
  if (!files.exists(path)) {
    if (!files.exists(parent)) make_durable(files, parent);
    files.make_directories(path);
  }
  files.sync_directory(parent);
}

std::int64_t bytes_in(Files& files, const std::string& folder) {
  std::int64_t bytes = 0;
  for (const std::string& name : files.list(folder))
    bytes += files.status(path_join(folder, name)).bytes;
  return bytes;
}

void check_files(Files& files, const std::string& folder, const Manifest& manifest) {
  for (const StoredFile& stored : manifest.files) {
    const std::string path = path_join(folder, stored.name);
    const FileStatus status = files.status(path);
    check(status.kind == FileKind::kFile && status.bytes == stored.bytes, "save step ",
          manifest.step, ": ", path, " should have ", stored.bytes, " bytes, it ",
          status.kind == FileKind::kFile ? join("has ", status.bytes) : "is not there");
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(Files& files, std::string path)
    : files_(files), path_(std::move(path)) {}

std::string CheckpointFolder::begin(std::int64_t step) {
  check(step >= 0, "save step ", step, ": steps count from 0");
  make_durable(files_, path_);
  discard();
  const std::string folder = folder_of(step).append(kSaving);
  files_.make_directories(folder);
  return folder;
}

void CheckpointFolder::discard() {
  if (!files_.exists(path_)) return;
  for (const std::string& name : files_.list(path_))
    if (is_rubbish(name)) files_.remove_all(path_join(path_, name));
}

void CheckpointFolder::commit(const Manifest& manifest) {
  try {
    publish(manifest);
  } catch (...) {
    try {
      discard();
    } catch (...) {
      // The first error is the one to tell; the next save discards again.
    }
    throw;
  }
  try {
    write_latest(manifest.step);
    discard();
  } catch (const Error& error) {
    fail("checkpoint ", folder_of(manifest.step),
         " is saved, but not all after it was done: ", error.what());
  }
}

void CheckpointFolder::publish(const Manifest& manifest) {
  const std::string target = folder_of(manifest.step);
  const std::string folder = target + std::string(kSaving);
  check(files_.exists(folder), "save step ", manifest.step, ": ", folder,
        " was not begun, or is gone");
  check_cover(manifest, join("save step ", manifest.step));
  check_files(files_, folder, manifest);
  const Existing found = existing(manifest);
  if (found == Existing::kEqual) return;
  const Manifest whole = write_last_files(manifest, folder);
  write_text(files_, folder, kManifestName, encode(whole));
  files_.sync_directory(folder);
  if (found == Existing::kDamaged) move_away(manifest.step);
  files_.rename(folder, target);
  files_.sync_directory(path_);
}

CheckpointFolder::Existing CheckpointFolder::existing(const Manifest& manifest) const {
  const std::string target = folder_of(manifest.step);
  // A link that leads nowhere is in the way, too.
  const std::vector<std::string> names = files_.list(path_);
  if (std::find(names.begin(), names.end(), name_of_step(manifest.step)) == names.end())
    return Existing::kNone;
  if (!verify_checkpoint(files_, target).empty()) return Existing::kDamaged;
  const CheckpointReader old(files_, target);
  const std::string folder = target + std::string(kSaving);
  const bool equal = old.manifest().step == manifest.step &&
                     old.manifest().scalars == manifest.scalars &&
                     equal_arrays(old, CheckpointReader(files_, folder, manifest));
  check(equal, "save step ", manifest.step, ": ", target,
        " is there already, whole, and differs; a checkpoint is never overwritten. Remove it, or "
        "save elsewhere");
  return Existing::kEqual;
}

Manifest CheckpointFolder::write_last_files(const Manifest& manifest, const std::string& folder) {
  Manifest whole = manifest;
  const auto view = files_.open(path_join(folder, kViewName), OpenMode::kCreate);
  write_virtual_datasets(*view, manifest);
  whole.files.push_back(finish_small(*view, kViewName));
  whole.files.push_back(write_text(files_, folder, kRecipeName, manifest.recipe));
  return whole;
}

// First out of sight, for good, then removed: half a checkpoint is never seen.
void CheckpointFolder::move_away(std::int64_t step) {
  const std::string gone = folder_of(step).append(kRemoved);
  files_.remove_all(gone);
  files_.rename(folder_of(step), gone);
  files_.sync_directory(path_);
}

void CheckpointFolder::write_latest(std::int64_t step) {
  write_whole_atomically(files_, path_join(path_, kLatestName), name_of_step(step) + "\n");
}

std::vector<CheckpointFolder::Removed> CheckpointFolder::prune(
    std::int64_t keep, const std::vector<std::int64_t>& also, std::int64_t every) {
  check(keep >= 1, "keeping the newest ", keep, " checkpoints would leave none; keep at least 1");
  std::vector<std::int64_t> all = steps();
  const auto old = std::max<std::int64_t>(0, static_cast<std::int64_t>(all.size()) - keep);
  all.resize(static_cast<std::size_t>(old));
  std::vector<Removed> removed;
  for (const std::int64_t step : all) {
    const bool stays = every > 0 && step % every == 0;
    if (stays || std::find(also.begin(), also.end(), step) != also.end()) continue;
    move_away(step);
    const std::string gone = folder_of(step).append(kRemoved);
    removed.push_back({step, bytes_in(files_, gone)});
    files_.remove_all(gone);
  }
  return removed;
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> found;
  if (!files_.exists(path_)) return found;
  for (const std::string& name : files_.list(path_))
    if (const auto step = step_of(name)) found.push_back(*step);
  std::sort(found.begin(), found.end());
  return found;
}

std::string CheckpointFolder::folder_of(std::int64_t step) const {
  return path_join(path_, name_of_step(step));
}

std::optional<std::int64_t> CheckpointFolder::latest() const {
  const std::string path = path_join(path_, kLatestName);
  if (!files_.exists(path)) return std::nullopt;
  const std::string text = read_whole(files_, path, kLongestLatest);
  const bool line = text.ends_with('\n');
  const auto step = step_of(std::string_view(text).substr(0, text.size() - (line ? 1 : 0)));
  check(line && step.has_value(), path, " is damaged: it should hold the name of a checkpoint");
  check(files_.exists(folder_of(*step)), path, " names ", folder_of(*step), ", which is not there");
  return step;
}

std::optional<std::int64_t> CheckpointFolder::newest_good(std::vector<std::string>& refused) const {
  return newest(std::numeric_limits<std::int64_t>::max(), verify_checkpoint, refused);
}

std::optional<std::int64_t> CheckpointFolder::newest_at_a_glance(
    std::int64_t before, std::vector<std::string>& refused) const {
  return newest(before, glance_at_checkpoint, refused);
}

std::optional<std::int64_t> CheckpointFolder::newest(std::int64_t before, Look look,
                                                     std::vector<std::string>& refused) const {
  std::vector<std::int64_t> all = steps();
  std::reverse(all.begin(), all.end());
  for (const std::int64_t step : all) {
    if (step >= before) continue;
    const std::string folder = folder_of(step);
    std::vector<std::string> problems = look(files_, folder);
    if (problems.empty() && read_manifest(files_, folder).step != step)
      problems.push_back(join("checkpoint ", folder, " holds another step"));
    if (problems.empty()) return step;
    refused.push_back(problems[0] + (problems.size() == 1
                                         ? std::string()
                                         : join("; and ", problems.size() - 1, " more")));
  }
  return std::nullopt;
}

}  // namespace trireme
