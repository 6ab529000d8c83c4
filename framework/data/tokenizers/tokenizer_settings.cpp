#include <algorithm>
#include <charconv>

#include "framework/base/error.h"
#include "framework/data/tokenizers/json_parts.h"
#include "framework/data/tokenizers/load_tokenizer.h"

namespace trireme {

namespace {

constexpr std::int64_t kConfigBytes = std::int64_t{16} << 20;
constexpr std::int64_t kSaneLength = std::int64_t{1} << 40;  // 10^30 is how Python says "none"

Json read_object(Files& files, const std::string& path) {
  if (files.status(path).kind != FileKind::kFile) return Json(Json::Object());
  Json json = parse_json(read_whole(files, path, kConfigBytes), path,
                         {.bytes = kConfigBytes, .values = 2'000'000});
  json.object(path);
  return json;
}

std::optional<std::int32_t> find_id(const TokenizerParts& parts, std::string_view text) {
  if (const auto added = parts.added_by_text.find(text); added != parts.added_by_text.end())
    return parts.added[added->second].id;
  const std::int32_t id = parts.tokens.find(text);
  return id < 0 ? std::nullopt : std::optional(id);
}

// "<s>", {"content": "<s>", ...} or null, which is empty.
std::string name_of_special(const Json& config, std::string_view key, const std::string& path) {
  const Json* found = config.find(key);
  if (found == nullptr || found->is_null()) return {};
  const std::string what = join(path, ": ", key);
  return found->is(Json::Kind::kObject) ? found->at("content", what).text(what + ".content")
                                        : found->text(what);
}

std::optional<std::int32_t> special_id(const Json& config, std::string_view key,
                                       const std::string& path, const TokenizerParts& parts) {
  const Json* found = config.find(key);
  if (found == nullptr || found->is_null()) return std::nullopt;
  const std::string text = name_of_special(config, key, path);
  const auto id = find_id(parts, text);
  check(id.has_value(), path, ": ", key, " = ", quoted(text), " is no token of tokenizer.json");
  return id;
}

std::optional<bool> flag(const Json& config, std::string_view key, const std::string& path) {
  const Json* found = config.find(key);
  if (found == nullptr || found->is_null()) return std::nullopt;
  return found->boolean(join(path, ": ", key));
}

// As in `transformers`: what is said here of a token counts, not what tokenizer.json says, and the
// four that have a name are special.
void add_decoder_token(AddedToken token, const std::string& place, const Json& config,
                       const std::string& path, TokenizerParts& parts) {
  for (const char* key : {"bos_token", "eos_token", "pad_token", "unk_token"})
    if (!token.special && name_of_special(config, key, path) == token.content) token.special = true;
  add_token(token, place, parts);
  parts.added[parts.added_by_text.find(token.content)->second] = token;
}

void add_decoder_tokens(const Json& config, const std::string& path, TokenizerParts& parts) {
  const Json* list = config.find("added_tokens_decoder");
  if (list == nullptr || list->is_null()) return;
  const std::string what = path + ": added_tokens_decoder";
  const std::int64_t limit =
      2 * (parts.tokens.count() + static_cast<std::int64_t>(list->object(what).size())) + 65536;
  for (const auto& [key, token] : list->object(what)) {
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    check(error == std::errc() && end == key.data() + key.size() && id >= 0 && id < limit, what,
          ": the key ", quoted(key), " is no token id; ids from 0 to ", limit - 1, " are expected");
    const std::string place = join(what, ".", id);
    add_decoder_token(read_added_token(token, place, static_cast<std::int32_t>(id)), place, config,
                      path, parts);
  }
}

void read_templates(const Json& config, const std::string& path, TokenizerSettings& settings) {
  const Json* found = config.find("chat_template");
  if (found == nullptr || found->is_null()) return;
  const std::string what = path + ": chat_template";
  if (found->is(Json::Kind::kString)) {
    settings.chat_templates.emplace_back("default", found->text(what));
    return;
  }
  for (const Json& one : found->array(what))
    settings.chat_templates.emplace_back(one.at("name", what).text(what + ".name"),
                                         one.at("template", what).text(what + ".template"));
}

// Newer folders keep templates in files of their own, which then count, and no others do.
void read_template_files(Files& files, const std::string& folder, TokenizerSettings& settings) {
  constexpr std::string_view kEnd = ".jinja";
  std::vector<std::pair<std::string, std::string>> found;
  const std::string path = path_join(folder, "chat_template.jinja");
  const std::string others = path_join(folder, "additional_chat_templates");
  if (files.status(path).kind == FileKind::kFile)
    found.emplace_back("default", read_whole(files, path, kConfigBytes));
  if (files.status(others).kind == FileKind::kDirectory)
    for (const std::string& name : files.list(others))
      if (name.ends_with(kEnd) && name.size() > kEnd.size())
        found.emplace_back(name.substr(0, name.size() - kEnd.size()),
                           read_whole(files, path_join(others, name), kConfigBytes));
  if (!found.empty()) settings.chat_templates = std::move(found);
}

std::optional<std::int64_t> longest_text(const Json& config, const std::string& path) {
  const Json* found = config.find("model_max_length");
  if (found == nullptr || found->is_null()) return std::nullopt;
  const double length = found->number(path + ": model_max_length");
  check(length >= 1, path, ": model_max_length = ", describe(*found), " is below 1");
  if (length >= static_cast<double>(kSaneLength)) return std::nullopt;
  return static_cast<std::int64_t>(length);
}

// The classes of which `transformers` makes the ends from the two flags, whatever the file says.
bool ends_follow_flags(const Json& config, const std::string& path) {
  const Json* found = config.find("tokenizer_class");
  if (found == nullptr || found->is_null()) return false;
  const std::string& name = found->text(path + ": tokenizer_class");
  return name.starts_with("Llama") || name.starts_with("CodeLlama") || name.starts_with("Gemma");
}

}  // namespace

void read_tokenizer_settings(Files& files, const std::string& folder, TokenizerParts& parts) {
  const std::string config_path = path_join(folder, "tokenizer_config.json");
  const std::string map_path = path_join(folder, "special_tokens_map.json");
  const Json config = read_object(files, config_path);
  const Json map = read_object(files, map_path);
  add_decoder_tokens(config, config_path, parts);
  TokenizerSettings& settings = parts.settings;
  const auto find = [&](std::string_view key) {
    const auto id = special_id(config, key, config_path, parts);
    return id || config.find(key) ? id : special_id(map, key, map_path, parts);
  };
  settings.bos = find("bos_token");
  settings.eos = find("eos_token");
  settings.pad = find("pad_token");
  settings.unk = find("unk_token");
  settings.add_bos = flag(config, "add_bos_token", config_path);
  settings.add_eos = flag(config, "add_eos_token", config_path);
  settings.longest_text = longest_text(config, config_path);
  read_templates(config, config_path, settings);
  read_template_files(files, folder, settings);
  if (!ends_follow_flags(config, config_path)) return;
  const auto apply = [](std::optional<bool> wanted, std::optional<std::int32_t> id,
                        std::vector<std::int32_t>& side) {
    if (!wanted) return;
    side.clear();
    if (*wanted && id) side.push_back(*id);
  };
  apply(settings.add_bos, settings.bos, parts.before);
  apply(settings.add_eos, settings.eos, parts.after);
}

}  // namespace trireme
