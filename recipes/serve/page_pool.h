// Who owns the pages of the key/value cache, and which prefixes of earlier sequences they still
// hold (block tables and reference counts of arXiv 2309.06180; prefix reuse by full pages).
//
// A page is free, or has one owner or more. A full page may be *published*: it then stands for its
// tokens and all tokens before it, under a salt, and whoever begins with the same ones may share
// it. What stands for what is compared token by token, never by a hash alone; the table's hash is
// keyed, so that nobody can make prefixes collide. Free pages keep what they stand for until they
// are taken again, those that were freed longest ago first.
//
// One thread. Knows no device memory.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

namespace trireme {

class PagePool {
 public:
  // `key`: of the hash; random where strangers choose the tokens.
  PagePool(std::int64_t pages, std::uint64_t key);

  std::int64_t pages() const { return std::ssize(states_); }
  std::int64_t free() const { return std::ssize(free_); }

  // A page without content, with one owner. -1 if none is free.
  std::int32_t take();
  // One more owner, one less. The last one's page becomes free; give a sequence's pages back from
  // its end, so that beginnings are kept longest.
  void share(std::int32_t page);
  void give(std::int32_t page);

  // A place in the tree of published prefixes; kRoot under a salt is the empty prefix.
  using Prefix = std::uint64_t;
  static Prefix root(std::uint64_t salt) { return salt << 1; }  // others are odd
  struct Found {
    std::int32_t page = -1;  // -1: nothing is published there
    Prefix prefix = 0;       // with this page
  };
  // The page that holds `ids` (one page of tokens) behind a prefix.
  Found find(Prefix before, std::span<const std::int32_t> ids) const;
  // Says that an owned page holds `ids` behind a prefix; returns the new prefix. Where another page
  // stands for the same already, that one's: this page stays private.
  Prefix publish(std::int32_t page, Prefix before, std::span<const std::int32_t> ids);

 private:
  struct Content {
    Prefix before = 0;
    std::vector<std::int32_t> ids;
    bool operator==(const Content&) const = default;
  };
  struct Hash {
    std::uint64_t key;
    std::size_t operator()(const Content& content) const;
  };
  struct State {
    std::int64_t owners = 0;
    std::list<std::int32_t>::iterator place = {};  // in free_ or taken_
    const Content* content = nullptr;              // if published
  };
  State& owned(std::int32_t page);
  void forget(State& state);

  std::vector<State> states_;
  // Pages change places between these without memory: giving back cannot fail.
  std::list<std::int32_t> free_, taken_;  // longest free first
  std::unordered_map<Content, Found, Hash> published_;
  Prefix next_ = 1;
};

}  // namespace trireme
