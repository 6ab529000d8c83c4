// Several files as one text: which, in which order, what stands between them, and what is refused.
#include "framework/data/text_files.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/data/text_tokens.h"
#include "framework/data/token_file.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::TemporaryFolder;

class TextFiles : public ::testing::Test {
 protected:
  TextFiles() {
    for (const char* folder : {"c/x", "c/y", "none/deep"})
      files_->make_directories(folder_ / folder);
    for (const char* name : {"c/b.txt", "c/a.txt", "c/.hidden", "c/x/1.txt", "c/y/0.txt", "a,b*"})
      write(name, std::string("text of ") + name);
  }
  void write(const std::string& name, const std::string& text) const {
    write_whole_atomically(*files_, folder_ / name, text);
  }
  // Names in the folder, with blanks between them.
  std::string found(const std::string& value) const {
    std::string names;
    for (const std::string& path : text_files(*files_, value))
      names += (names.empty() ? "" : " ") + path.substr((folder_ / "").size());
    return names;
  }
  std::string refusal(const std::string& value) const {
    return sentence_of([&] { text_files(*files_, value); });
  }
  CachedTokens cached(const std::string& value) const {
    return cached_tokens(*files_, text_files(*files_, value), folder_ / "cache", *byte_tokenizer());
  }
  std::string decoded(const std::string& value) const {
    const auto file = TokenFile::open(*files_, cached(value).path);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(file->count()));
    file->copy(0, file->count(), 256, ids.data());
    return byte_tokenizer()->decode(ids);
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Files> files_ = real_files();
};

TEST_F(TextFiles, FoldersPatternsAndLists) {
  EXPECT_EQ(found(folder_ / "c/b.txt"), "c/b.txt");
  EXPECT_EQ(found(folder_ / "c"), "c/a.txt c/b.txt");
  EXPECT_EQ(found(folder_ / "c/?.txt"), "c/a.txt c/b.txt");
  EXPECT_EQ(found(folder_ / "c/[b-z]*"), "c/b.txt");
  EXPECT_EQ(found(folder_ / "c/*/*.txt"), "c/x/1.txt c/y/0.txt");
  EXPECT_EQ(found((folder_ / "c/y") + ", " + (folder_ / "c/*.txt")), "c/y/0.txt c/a.txt c/b.txt");
  EXPECT_EQ(found(folder_ / "a,b*"), "a,b*");  // there is a file that is called so
  EXPECT_EQ(found(folder_ / "lost"), "lost");  // whoever opens it says so
  EXPECT_EQ(name_of(text_files(*files_, folder_ / "c")),
            "2 files, " + (folder_ / "c/a.txt") + " to " + (folder_ / "c/b.txt"));
}

TEST_F(TextFiles, WhatNamesNothingIsASentence) {
  EXPECT_EQ(refusal(folder_ / "none"), "text " + (folder_ / "none") +
                                           " is a folder without a file; the 1 in it are not "
                                           "entered: " +
                                           (folder_ / "none/*/*") + " names their files");
  EXPECT_EQ(refusal(folder_ / "none/deep"),
            "text " + (folder_ / "none/deep") + " is a folder without a file");
  EXPECT_EQ(refusal(folder_ / "c/*.md"),
            "text " + (folder_ / "c/*.md") + ": no file has such a name");
  EXPECT_NE(refusal(folder_ / "**/a.txt").find("** is not known"), std::string::npos);
  const std::string twice = (folder_ / "c/a.txt") + "," + (folder_ / "c");
  EXPECT_EQ(refusal(twice), "data.text = " + twice + " names " + (folder_ / "c/a.txt") + " twice");
  EXPECT_EQ(refusal(","), "data.text = , names no file");
}

TEST_F(TextFiles, AreOneTextWhoseCacheFollowsContentAndOrder) {
  const std::string a = folder_ / "c/a.txt", b = folder_ / "c/b.txt";
  EXPECT_EQ(decoded(folder_ / "c"), "text of c/a.txttext of c/b.txt");
  EXPECT_TRUE(cached(a + "," + b).reused);
  EXPECT_FALSE(cached(b + "," + a).reused);
  EXPECT_EQ(decoded(b + "," + a), "text of c/b.txttext of c/a.txt");
  write("c/b.txt", "other");
  EXPECT_FALSE(cached(folder_ / "c").reused);
  EXPECT_EQ(decoded(folder_ / "c"), "text of c/a.txtother");
}

// Documents of all files, bad lines by the file they are in, one kind only.
TEST_F(TextFiles, OfJsonLines) {
  files_->make_directories(folder_ / "j");
  write("j/1.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  write("j/2.jsonl", "{\"text\": \"three\"}\n{\"text\": 4}\n");
  const std::string sentence = sentence_of([&] { cached(folder_ / "j"); });
  EXPECT_TRUE(sentence.starts_with((folder_ / "j/2.jsonl") + ":2:1: ")) << sentence;
  const auto texts = text_files(*files_, folder_ / "j");
  const TokenizeReport report = tokenize_files(*files_, texts, folder_ / "t.h5", *byte_tokenizer(),
                                               {.threads = 2, .skip_bad = true});
  EXPECT_EQ(report.about, "JSON lines, 3 documents, 1 bad line passed over");
  EXPECT_EQ(report.tokens, 11);
  EXPECT_EQ(report.input, name_of(texts));
  const auto tokens = TokenFile::open(*files_, folder_ / "t.h5");
  EXPECT_TRUE(tokens->begins_document(0) && tokens->begins_document(3) &&
              tokens->begins_document(6) && !tokens->begins_document(7));
  write("j/3.txt", "plain");
  EXPECT_EQ(sentence_of([&] { cached(folder_ / "j"); }),
            "data.text: " + (folder_ / "j/1.jsonl") + " is JSON lines, but " +
                (folder_ / "j/3.txt") +
                " is text; give files of one kind, by a pattern such as "
                "FOLDER/*.jsonl");
}

}  // namespace
}  // namespace trireme
