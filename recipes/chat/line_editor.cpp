#include "recipes/chat/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cwchar>
#include <optional>
#include <string_view>

#include "framework/base/error.h"
#include "recipes/chat/terminal_modes.h"

namespace trireme {

namespace {

constexpr std::wstring_view kPasteEnd = L"\033[201~";
constexpr int kKept = 1000;  // messages of the history

class Editor final : public TerminalInput {
 public:
  Editor(Interrupts& interrupts, EditorOptions options)
      : interrupts_(interrupts),
        options_(std::move(options)),
        modes_(STDIN_FILENO, options_.prints_on_error ? STDERR_FILENO : STDOUT_FILENO) {
    std::setlocale(LC_CTYPE, "C.UTF-8");  // what libedit takes bytes for
    FILE* out = options_.prints_on_error ? stderr : stdout;
    edit_ = el_init("trireme", stdin, out, stderr);
    history_ = history_init();
    check(edit_ != nullptr && history_ != nullptr, "libedit does not start");
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_SIGNAL, 0);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_PROMPT, &Editor::prompt);
    el_wset(edit_, EL_GETCFN, &Editor::read_char);
    el_set(edit_, EL_ADDFN, "trireme-paste", "insert what is pasted", &Editor::paste);
    el_set(edit_, EL_ADDFN, "trireme-first", "insert what is to be edited", &Editor::put_first);
    el_set(edit_, EL_ADDFN, "trireme-complete", "complete a command", &Editor::complete);
    el_set(edit_, EL_BIND, "^I", "trireme-complete", nullptr);
    el_set(edit_, EL_BIND, "\\e[200~", "trireme-paste", nullptr);
    el_set(edit_, EL_BIND, "\\e[999~", "trireme-first", nullptr);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    HistEvent event;
    history(history_, &event, H_SETSIZE, kKept);
    el_set(edit_, EL_HIST, history, history_);
    for (const std::string& message : options_.history) remember(message);
  }
  ~Editor() override {
    history_end(history_);
    el_set(edit_, EL_EDITMODE, 0);  // or its end throws away what was typed and not read
    el_end(edit_);
  }

  InputRead read(const std::string& prompt, const std::string& first) override {
    prompt_ = prompt;
    first_ = first;
    if (!first.empty()) held_.insert(0, "\033[999~");
    end_.reset();
    typed_ = false;
    prepare();
    el_resize(edit_);  // nobody tells it of a window that changed
    int count = 0;
    const char* line = el_gets(edit_, &count);
    if (end_) return {.kind = *end_, .was_empty = !typed_};
    if (line == nullptr || count <= 0) return {};
    std::string text(line, static_cast<std::size_t>(count));
    if (text.ends_with('\n')) text.pop_back();
    return {.kind = InputRead::Kind::kLine, .text = text};
  }

  void remember(const std::string& message) override {
    HistEvent event;
    if (!message.empty()) history(history_, &event, H_ENTER, message.c_str());
  }

  void put_back() override { modes_.put_back(); }
  void take() override { modes_.take(); }

 private:
  static Editor& self(EditLine* edit) {
    void* data = nullptr;
    el_get(edit, EL_CLIENTDATA, &data);
    return *static_cast<Editor*>(data);
  }
  static char* prompt(EditLine* edit) { return self(edit).prompt_.data(); }

  // libedit believes that the modes are those that it last set: others may have set some since.
  // What it puts back between two lines shall be what it has while it reads one.
  void prepare() {
    el_set(edit_, EL_SETTY, "-x", "-icanon", "-echo", "-iexten", nullptr);
    if (!modes_.taken()) modes_.take();
    el_set(edit_, EL_PREP_TERM, 0);
    el_set(edit_, EL_PREP_TERM, 1);
  }

  // 1: a character; 0: no more of this line, end_ tells why, or the terminal is gone.
  static int read_char(EditLine* edit, wchar_t* into) { return self(edit).next(edit, into); }
  int next(EditLine* edit, wchar_t* into) {
    std::mbstate_t state{};
    std::size_t at = 0;
    for (;; ++at) {
      while (at >= held_.size())
        if (!more(edit)) return 0;
      const std::size_t made = std::mbrtowc(into, held_.data() + at, 1, &state);
      if (made == static_cast<std::size_t>(-2)) continue;  // a part of a character
      if (made == static_cast<std::size_t>(-1)) *into = L'\ufffd';
      break;
    }
    held_.erase(0, at + 1);
    typed_ = typed_ || *into >= L' ';
    return 1;
  }

  bool more(EditLine* edit) {
    switch (interrupts_.wait(STDIN_FILENO, options_.idle)) {
      case Interrupts::Woken::kTerminate:
        end_ = InputRead::Kind::kTerminate;
        return false;
      case Interrupts::Woken::kInterrupt:
        interrupts_.take();
        held_.clear();
        end_ = InputRead::Kind::kInterrupt;
        return false;
      case Interrupts::Woken::kContinued:
        prepare();
        el_set(edit, EL_REFRESH);
        return true;
      case Interrupts::Woken::kInput:
        break;
    }
    // One by one: what is behind the line may be another program's, an editor's or the shell's.
    std::array<char, 4096> buffer;
    const ssize_t n = modes_.read(buffer.data(), pasting_ ? buffer.size() : 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n <= 0) {
      end_ = InputRead::Kind::kEnd;
      return false;
    }
    held_.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
  }

  // Everything up to the end of the paste. Terminals send line ends as carriage returns.
  static unsigned char paste(EditLine* edit, int) {
    std::wstring text;
    wchar_t c = 0;
    self(edit).pasting_ = true;
    while (!text.ends_with(kPasteEnd)) {
      if (el_wgetc(edit, &c) != 1) return self(edit).pasting_ = false, CC_EOF;
      if (c == L'\n' && text.ends_with(L'\r')) continue;
      text += c;
    }
    self(edit).pasting_ = false;
    text.erase(text.size() - kPasteEnd.size());
    for (wchar_t& one : text)
      if (one == L'\r') one = L'\n';
    while (text.ends_with(L'\n')) text.pop_back();
    return insert(edit, text);
  }
  static unsigned char put_first(EditLine* edit, int) {
    return insert(edit, wide(self(edit).first_));
  }
  static unsigned char complete(EditLine* edit, int) {
    const EditorOptions& options = self(edit).options_;
    const LineInfo* line = el_line(edit);
    const auto size = static_cast<std::size_t>(line->cursor - line->buffer);
    if (!options.complete) return CC_ERROR;
    const Completion found = options.complete({line->buffer, size});
    if (!found.text.empty()) return insert(edit, wide(found.text));
    if (found.choices.empty()) return CC_ERROR;
    std::string list = "\n";
    for (const std::string& choice : found.choices) list += choice + "  ";
    FILE* out = options.prints_on_error ? stderr : stdout;
    std::fputs((list + "\n").c_str(), out);
    std::fflush(out);
    return CC_REDISPLAY;
  }

  // Up to what is no UTF-8.
  static std::wstring wide(const std::string& bytes) {
    std::wstring text;
    std::mbstate_t state{};
    for (std::size_t at = 0; at < bytes.size();) {
      wchar_t c = 0;
      const std::size_t made = std::mbrtowc(&c, bytes.data() + at, bytes.size() - at, &state);
      if (made == 0 || made > bytes.size()) break;
      text += c;
      at += made;
    }
    return text;
  }
  static unsigned char insert(EditLine* edit, const std::wstring& text) {
    if (!text.empty()) el_winsertstr(edit, text.c_str());
    return CC_REFRESH;
  }

  Interrupts& interrupts_;
  EditorOptions options_;
  TerminalModes modes_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_, first_, held_;
  std::optional<InputRead::Kind> end_;
  bool typed_ = false, pasting_ = false;
};

}  // namespace

std::unique_ptr<TerminalInput> terminal_lines(Interrupts& interrupts, EditorOptions options) {
  return std::make_unique<Editor>(interrupts, std::move(options));
}

}  // namespace trireme
