#!/usr/bin/env python3
"""The official `openai` client against a running server: openai_client.py http://127.0.0.1:8000/v1 [KEY]

The model must have a chat template, and be served with --precision.compute=f32: texts are compared. Prints what was tried; ends with 1 at the first thing that differs, and with 77 and
a sentence where the package is not installed.
"""
import sys

try:
    import openai
except ImportError:
    print("skipped: the package openai is not installed (pip install openai)")
    sys.exit(77)

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2] if len(sys.argv) > 2 else "none", max_retries=0)
model = client.models.list().data[0].id
asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Name a colour."}]


def expect(holds, what):
    print("ok" if holds else "WRONG", what)
    if not holds:
        sys.exit(1)


def refused(kind, call, param=None):
    try:
        call()
    except kind as error:
        return param is None or error.param == param
    return False


whole = client.chat.completions.create(model=model, messages=asked, max_tokens=12, temperature=0, logprobs=True, top_logprobs=2)
answer = whole.choices[0]
expect(answer.message.role == "assistant" and answer.finish_reason in ("stop", "length"), "chat: " + repr(answer.message.content))
expect(len(answer.logprobs.content) == whole.usage.completion_tokens, "chat: a logprob a token")
expect(len(answer.logprobs.content[0].top_logprobs) == 2, "chat: top_logprobs")

text, usage = "", None
for chunk in client.chat.completions.create(
    model=model, messages=asked, max_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}
):
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
expect(text == answer.message.content, "stream: the same text")
expect(usage.completion_tokens == whole.usage.completion_tokens, "stream: usage at the end")

two = client.chat.completions.create(model=model, messages=asked, max_completion_tokens=8, n=2, seed=3, temperature=1.5)
again = client.chat.completions.create(model=model, messages=asked, max_completion_tokens=8, n=2, seed=3, temperature=1.5)
expect([c.message.content for c in two.choices] == [c.message.content for c in again.choices], "n and seed repeat")

plain = client.completions.create(model=model, prompt=["One, two,", "A, B,"], max_tokens=6, temperature=0)
expect(len(plain.choices) == 2 and plain.object == "text_completion", "completions: " + repr([c.text for c in plain.choices]))
scored = client.completions.create(model=model, prompt="One, two, three", max_tokens=0, echo=True, logprobs=1)
marks = scored.choices[0].logprobs
expect(scored.choices[0].text.endswith("three") and marks.token_logprobs[0] is None, "echo scores a prompt")
expect(len(marks.tokens) == len(marks.token_logprobs) == len(marks.text_offset), "echo: a number a token")
stopped = client.completions.create(model=model, prompt="One, two,", max_tokens=20, temperature=0, stop=[","])
expect("," not in stopped.choices[0].text, "stop: " + repr(stopped.choices[0].text))
streamed = client.completions.create(model=model, prompt="One, two,", max_tokens=6, temperature=0, stream=True)
expect("".join(c.text for chunk in streamed for c in chunk.choices) == plain.choices[0].text, "completions: the stream says the same")

bad = openai.BadRequestError
expect(refused(bad, lambda: client.chat.completions.create(model=model, messages=asked, temperature=3), "temperature"), "400 names the field")
expect(refused(bad, lambda: client.completions.create(model=model, prompt="a", max_tokens=10**9)), "400 for a context that is too long")
expect(refused(openai.NotFoundError, lambda: client.completions.create(model="other", prompt="a")), "404 for another model")
with client.chat.completions.create(model=model, messages=asked, stream=True, max_tokens=200) as left:
    next(iter(left))
expect(client.completions.create(model=model, prompt="a", max_tokens=1).choices[0].finish_reason in ("stop", "length"), "a stream may be left")
print("openai", openai.__version__, "works")
