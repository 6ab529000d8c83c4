#include "recipes/commands/document_statistics.h"

#include <algorithm>
#include <bit>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::size_t kLongest = 3;
constexpr std::int64_t kBar = 40;  // characters

double share(std::int64_t part, std::int64_t all) {
  return all == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(all);
}

}  // namespace

void DocumentStatistics::add(const CountedDocument& document) {
  const auto length = static_cast<std::int64_t>(document.ids.size());
  lengths_.push_back(length);
  tokens_ += length;
  trained_ += document.trained;
  turns_ += document.turns;
  talks_ += document.turns > 0 ? 1 : 0;
  longer_ += length > sequence_ ? 1 : 0;
  ++histogram_[length == 0
                   ? 0
                   : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(length)))];
  ContentHash hash;
  hash.update(document.ids.data(), static_cast<std::int64_t>(document.ids.size_bytes()));
  duplicates_ += seen_.insert(hash.hex()).second ? 0 : 1;
  note_long({length, document.line});
}

void DocumentStatistics::note_long(const Long& document) {
  const auto at = std::find_if(longest_.begin(), longest_.end(),
                               [&](const Long& other) { return other.tokens < document.tokens; });
  longest_.insert(at, document);
  if (longest_.size() > kLongest) longest_.pop_back();
}

std::string DocumentStatistics::text(const std::string& unit) const {
  if (lengths_.empty()) return {};
  std::vector<std::int64_t> sorted = lengths_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double part) {
    return grouped(sorted[static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) * part)]);
  };
  std::string text =
      join("documents  ", grouped(documents()), ", in tokens: shortest ", at(0), ", half up to ",
           at(0.5), ", nine in ten up to ", at(0.9), ", longest ", at(1), "\n");
  std::int64_t most = 0;
  for (const auto& [from, count] : histogram_) most = std::max(most, count);
  for (const auto& [from, count] : histogram_) {
    const std::string range = from == 0 ? "0" : join(from, " to ", 2 * from - 1);
    text += join("  ", std::string(20 - std::min<std::size_t>(20, range.size()), ' '), range, "  ",
                 std::string(static_cast<std::size_t>((count * kBar + most - 1) / most), '#'), " ",
                 grouped(count), "\n");
  }
  text += "longest    ";
  for (const Long& document : longest_)
    text += join(&document == longest_.data() ? "" : ", ", grouped(document.tokens), " tokens (",
                 unit, " ", document.line, ")");
  text += join("\nduplicates ", grouped(duplicates_), " equal an earlier one (",
               percent_text(share(duplicates_, documents())), ")\n");
  text += join("too long   ", grouped(longer_), " have more tokens than a sample of ", sequence_,
               " (", percent_text(share(longer_, documents())), "): no sample has them whole\n");
  if (talks_ > 0)
    text += join("turns      ", fixed(share(turns_, talks_), 1), " a conversation, ",
                 grouped(turns_), " in all\n");
  return text;
}

Json::Object DocumentStatistics::json(const std::string& unit) const {
  Json::Array histogram, longest;
  for (const auto& [from, count] : histogram_)
    histogram.push_back(
        Json::Object{{"from", from}, {"to", from == 0 ? 0 : 2 * from - 1}, {"documents", count}});
  for (const Long& document : longest_)
    longest.push_back(Json::Object{{unit, document.line}, {"tokens", document.tokens}});
  return {{"lengths", std::move(histogram)}, {"longest", std::move(longest)},
          {"duplicates", duplicates_},       {"sequence", sequence_},
          {"longer_than_sequence", longer_}, {"turns", turns_}};
}

}  // namespace trireme
