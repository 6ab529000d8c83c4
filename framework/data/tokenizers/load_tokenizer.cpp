#include "framework/data/tokenizers/load_tokenizer.h"

#include "framework/base/error.h"
#include "framework/base/lfs_pointer.h"
#include "framework/base/storage/content_hash.h"
#include "framework/data/tokenizers/json_parts.h"

namespace trireme {

namespace {

// Ids may leave holes, but a file must not make tables that are much larger than itself.
std::int64_t id_limit(std::size_t tokens) { return 2 * static_cast<std::int64_t>(tokens) + 65536; }

void read_vocabulary(const Json& vocabulary, const std::string& what, std::int64_t limit,
                     bool byte_fallback, TokenTable& tokens) {
  for (const auto& [text, number] : vocabulary.object(what)) {
    const auto place = [&] { return join(what, ".", quoted(text)); };
    if (!number.is(Json::Kind::kInteger)) number.integer(place());
    const std::int64_t id = number.integer({});
    if (id < 0 || id >= limit) token_id(number, place(), limit);
    check(!text.empty(), what, ": the token of id ", id, " is empty");
    if (!tokens.add(static_cast<std::int32_t>(id), text))
      fail(what, ": id ", id, " is that of ", quoted(tokens.text(id)), " and of ", quoted(text));
    if (byte_fallback && text.size() == 6 && text.starts_with("<0x") && text.ends_with(">"))
      check(byte_of_stand_in(text) >= 0, place(), " stands for no byte; <0x00> to <0xFF> do");
  }
}

// "a b", or ["a", "b"].
std::pair<std::string_view, std::string_view> merge_parts(const Json& merge,
                                                          const std::string& what, std::size_t i) {
  const auto place = [&] { return join(what, "[", i, "]"); };
  if (merge.is(Json::Kind::kString)) {
    const std::string_view text = merge.text({});
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos)
      fail(place(), " = ", quoted(text), " is not two tokens with a blank between them");
    return {text.substr(0, blank), text.substr(blank + 1)};
  }
  if (!merge.is(Json::Kind::kArray) || merge.array({}).size() != 2)
    fail(place(), ": two tokens are expected, here is ", describe(merge));
  const Json::Array& two = merge.array({});
  for (const Json& one : two)
    if (!one.is(Json::Kind::kString)) one.text(place());
  return {two[0].text({}), two[1].text({})};
}

std::vector<BpeMerge> read_merges(const Json& list, const std::string& what,
                                  const TokenTable& tokens) {
  std::vector<BpeMerge> merges;
  const Json::Array& all = list.array(what);
  merges.reserve(all.size());
  std::string joined;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [left, right] = merge_parts(all[i], what, i);
    joined.assign(left).append(right);
    const BpeMerge merge{tokens.find(left), tokens.find(right), tokens.find(joined)};
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0)
      fail(what, "[", i, "]: ",
           quoted(merge.left < 0    ? left
                  : merge.right < 0 ? right
                                    : joined),
           " is not in model.vocab");
    merges.push_back(merge);
  }
  return merges;
}

void read_model(const Json& model, const std::string& what, std::int64_t limit,
                TokenizerParts& parts) {
  const Json* type = model.find("type");
  if (type != nullptr)
    check(type->text(what + ".type") == "BPE", what, ": the model ", quoted(type->text({})),
          " is not supported; BPE is");
  expect_members(model, what,
                 {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  expect_empty(model, "continuing_subword_prefix", what);
  expect_empty(model, "end_of_word_suffix", what);
  if (const Json* dropout = model.find("dropout"); dropout && !dropout->is_null())
    check(dropout->number(what + ".dropout") == 0, what, ".dropout = ", describe(*dropout),
          " is not supported; ids would change from call to call");
  BpeOptions& options = parts.model;
  options.byte_level = parts.pre_tokenizer.byte_level();
  options.byte_fallback = boolean_or(model, "byte_fallback", what, false);
  options.fuse_unk = boolean_or(model, "fuse_unk", what, false);
  options.ignore_merges = boolean_or(model, "ignore_merges", what, false);
  const Json& vocabulary = model.at("vocab", what);
  parts.tokens = TokenTable(vocabulary.object(what + ".vocab").size());
  read_vocabulary(vocabulary, what + ".vocab", limit, options.byte_fallback, parts.tokens);
  check(parts.tokens.count() > 0, what, ".vocab is empty");
  parts.merges = read_merges(model.at("merges", what), what + ".merges", parts.tokens);
  if (const Json* unk = model.find("unk_token"); unk && !unk->is_null()) {
    const std::string& text = unk->text(what + ".unk_token");
    options.unk = parts.tokens.find(text);
    check(options.unk >= 0 || options.byte_level, what, ".unk_token = ", quoted(text),
          " is not in ", what, ".vocab");
  }
}

std::vector<std::int32_t> ids_of_special(const Json& special, const std::string& name,
                                         const std::string& what, std::int64_t limit) {
  const std::string place = join(what, ".special_tokens.", quoted(name));
  const Json& entry = special.at(name, what + ".special_tokens");
  std::vector<std::int32_t> ids;
  for (const Json& id : entry.at("ids", place).array(place + ".ids"))
    ids.push_back(token_id(id, place + ".ids", limit));
  return ids;
}

// Only what is put around a single text; pairs are for other models.
void read_template(const Json& json, const std::string& what, std::int64_t limit,
                   TokenizerParts& parts) {
  expect_members(json, what, {"type", "single", "pair", "special_tokens"});
  int texts = 0;
  for (const Json& item : json.at("single", what).array(what + ".single")) {
    if (const Json* text = item.find("Sequence")) {
      const std::string& id = text->at("id", what + ".single").text(what + ".single");
      check(id == "A" && ++texts == 1, what, ".single: one text \"A\" is expected");
      continue;
    }
    const std::string place = what + ".single.SpecialToken";
    const Json& token = item.at("SpecialToken", what + ".single");
    const std::vector<std::int32_t> ids = ids_of_special(
        json.at("special_tokens", what), token.at("id", place).text(place + ".id"), what, limit);
    std::vector<std::int32_t>& side = texts == 0 ? parts.before : parts.after;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  check(texts == 1, what, ".single: the text \"A\" is missing");
}

void read_post_processor(const Json& json, const std::string& what, std::int64_t limit, int depth,
                         TokenizerParts& parts) {
  if (json.is_null()) return;
  const std::string type = type_of(json, what);
  if (type == "Sequence") {
    expect_depth(depth, what);
    std::size_t i = 0;
    for (const Json& step : json.at("processors", what).array(what + ".processors"))
      read_post_processor(step, join(what, ".processors[", i++, "]"), limit, depth + 1, parts);
  } else if (type == "TemplateProcessing") {
    check(parts.before.empty() && parts.after.empty(), what,
          ": a second TemplateProcessing is not supported");
    read_template(json, what, limit, parts);
  } else {
    check(type == "ByteLevel", what, ": the post-processor ", quoted(type),
          " is not supported; ByteLevel, TemplateProcessing and Sequence are");
    expect_members(json, what, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }
}

void expect_known(const TokenizerParts& parts, const std::string& what) {
  for (const auto* side : {&parts.before, &parts.after})
    for (const std::int32_t id : *side)
      check(parts.tokens.has(id) || parts.added_by_id.contains(id), what,
            ".post_processor: there is no token with id ", id);
}

}  // namespace

AddedToken read_added_token(const Json& json, const std::string& what, std::int32_t id) {
  AddedToken token{.id = id, .content = json.at("content", what).text(what + ".content")};
  token.single_word = boolean_or(json, "single_word", what, false);
  token.lstrip = boolean_or(json, "lstrip", what, false);
  token.rstrip = boolean_or(json, "rstrip", what, false);
  token.special = boolean_or(json, "special", what, false);
  token.normalized = boolean_or(json, "normalized", what, !token.special);
  expect_members(
      json, what,
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"});
  check(!token.content.empty(), what, ".content is empty");
  return token;
}

void add_token(const AddedToken& token, const std::string& what, TokenizerParts& parts) {
  if (const auto same = parts.added_by_text.find(token.content);
      same != parts.added_by_text.end()) {
    const std::int32_t id = parts.added[same->second].id;
    check(id == token.id, what, ": ", quoted(token.content), " has the ids ", id, " and ",
          token.id);
    return;
  }
  if (const auto same = parts.added_by_id.find(token.id); same != parts.added_by_id.end())
    fail(what, ": id ", token.id, " is that of ", quoted(parts.added[same->second].content),
         " and of ", quoted(token.content));
  const std::int32_t in_model = parts.tokens.find(token.content);
  check(in_model < 0 || in_model == token.id, what, ": ", quoted(token.content), " has id ",
        token.id, ", but in model.vocab ", in_model);
  check(in_model >= 0 || !parts.tokens.has(token.id), what, ": id ", token.id, " of ",
        quoted(token.content), " is that of ", quoted(parts.tokens.text(token.id)),
        " in model.vocab");
  parts.added_by_text[token.content] = parts.added_by_id[token.id] = parts.added.size();
  parts.added.push_back(token);
}

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  expect_members(json, name,
                 {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                  "post_processor", "decoder", "model"});
  if (const Json* version = json.find("version"))
    check(version->text(name + ": version") == "1.0", name, ": version ", describe(*version),
          " is not supported; 1.0 is");
  const auto part = [&](std::string_view key) -> const Json& {
    static const Json kNull;
    const Json* found = json.find(key);
    return found ? *found : kNull;
  };
  const auto named = [&](std::string_view key) { return join(name, ": ", key); };
  TokenizerParts parts;
  parts.normalizer = Normalizer::read(part("normalizer"), named("normalizer"));
  parts.pre_tokenizer = PreTokenizer::read(part("pre_tokenizer"), named("pre_tokenizer"));
  parts.decoder = Decoder::read(part("decoder"), named("decoder"));
  const Json& model = json.at("model", name);
  const Json& added = part("added_tokens");
  const std::size_t count = model.at("vocab", named("model")).object(named("model.vocab")).size() +
                            (added.is_null() ? 0 : added.array(named("added_tokens")).size());
  const std::int64_t limit = id_limit(count);
  read_model(model, named("model"), limit, parts);
  if (!added.is_null()) {
    std::size_t i = 0;
    for (const Json& token : added.array(named("added_tokens"))) {
      const std::string what = join(named("added_tokens"), "[", i++, "]");
      const std::int32_t id = token_id(token.at("id", what), what + ".id", limit);
      add_token(read_added_token(token, what, id), what, parts);
    }
  }
  read_post_processor(part("post_processor"), named("post_processor"), limit, 0, parts);
  expect_known(parts, name);
  return parts;
}

std::unique_ptr<Tokenizer> load_tokenizer(Files& files, const std::string& file) {
  const std::string text = read_whole(files, file, JsonLimits{}.bytes);
  refuse_lfs_pointer(text, file);
  TokenizerParts parts = read_tokenizer_json(text, file);
  ContentHash hash;
  hash.update(text.data(), static_cast<std::int64_t>(text.size()));
  const std::vector<AddedToken> own = parts.added;
  read_tokenizer_settings(files, folder_of(file), parts);
  for (const auto* side : {&parts.before, &parts.after})
    for (const std::int32_t id : *side) hash.update(&id, sizeof id);
  for (const AddedToken& token : parts.added)
    hash.update(token.content.data(), static_cast<std::int64_t>(token.content.size()));
  for (std::size_t i = 0; i < parts.added.size(); ++i) {
    const AddedToken& token = parts.added[i];
    if (i < own.size() && token == own[i]) continue;
    const std::string flags = join(token.id, token.single_word, token.lstrip, token.rstrip,
                                   token.normalized, token.special);
    hash.update(flags.data(), std::ssize(flags));
  }
  parts.name = "bpe-" + hash.hex();
  return std::make_unique<JsonTokenizer>(std::move(parts));
}

}  // namespace trireme
