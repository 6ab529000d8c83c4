#include "recipes/page/chat_page.h"

#include "framework/base/error.h"
#include "recipes/page/chat_page_text.h"

namespace trireme {

std::string_view chat_page() { return kChatPageText; }

std::string chat_page_policy() {
  return join("default-src 'none'; script-src 'sha256-", kChatPageScriptHash,
              "'; style-src 'sha256-", kChatPageStyleHash,
              "'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
              "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'");
}

}  // namespace trireme
