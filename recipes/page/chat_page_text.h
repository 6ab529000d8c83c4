// What join.cmake makes of the files here; for chat_page.cpp.
#pragma once

#include <string_view>

namespace trireme {

extern const std::string_view kChatPageText;
extern const std::string_view kChatPageStyleHash, kChatPageScriptHash;  // SHA-256, base64

}  // namespace trireme
