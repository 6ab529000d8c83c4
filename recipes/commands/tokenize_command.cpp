// trireme tokenize TEXT TOKENS.h5 [--data.tokenizer=PATH] [--json]
#include <ostream>

#include "framework/base/error.h"
#include "framework/data/text_tokens.h"
#include "recipes/commands/process.h"
#include "recipes/commands/tokenizing.h"
#include "recipes/report/numbers.h"

namespace trireme {

int tokenize_command(Process& process, const CommandLine& line) {
  if (line.names.size() != 2)
    throw UsageError(join("tokenize: needs a text and a token file to write, got ",
                          line.names.size(), " names; of several texts the first has commas ",
                          "between them, or is a folder or a pattern in quotes"));
  for (const Flag& flag : line.flags)
    if (flag.name != "data.tokenizer" && flag.name != "data.loss_on" &&
        flag.name != "data.skip_bad")
      throw UsageError(join("tokenize: --", flag.name,
                            " says nothing about tokens; --data.tokenizer, --data.loss_on, "
                            "--skip-bad and --json are its flags"));
  const Recipe recipe = recipe_of(process, {.command = line.command, .flags = line.flags}, false);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(recipe.data.tokenizer, process.files);
  TokenizingBar bar(process);
  const TokenizeReport r = tokenize_files(process.files, texts_of(process, line.names[0]),
                                          line.names[1], *tokenizer, bar.options(recipe));
  if (line.options.contains("json"))
    process.out << "{\"input\": " << json_string(r.input)
                << ", \"output\": " << json_string(r.output)
                << ", \"tokenizer\": " << json_string(r.tokenizer)
                << ", \"text_bytes\": " << r.text_bytes << ", \"tokens\": " << r.tokens
                << ", \"trained\": " << r.trained << ", \"about\": " << json_string(r.about)
                << ", \"vocabulary\": " << r.vocabulary << ", \"type\": " << json_string(r.type)
                << "}\n";
  else
    process.out << r.output << ": " << grouped(r.tokens) << " tokens (" << r.type << ", vocabulary "
                << r.vocabulary << ") from " << grouped(r.text_bytes) << " bytes of " << r.input
                << (r.about.empty()
                        ? ""
                        : join(": ", r.about, "; ", grouped(r.trained), " tokens are learned"))
                << "\n";
  if (!r.first_bad.empty()) process.err << "the first line passed over: " << r.first_bad << "\n";
  return 0;
}

}  // namespace trireme
