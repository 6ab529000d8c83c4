"""Answers as they come: streaming, stop, going on, numbers, settings, what a server refuses."""
import json


def bodies(page, path="/v1/chat/completions"):
    """What the page sent there, parsed."""
    return [json.loads(e["request"]["postData"]) for e in page.events("Network.requestWillBeSent")
            if e["request"]["url"].endswith(path) and e["request"]["method"] == "POST"]


def say(page, text):
    page.type("#input", text)
    page.enter()


def answered(page, count=1):
    page.wait(f"runs.size === 0 && pathOf(view.chat).filter((node) => node.role === 'assistant' && node.finish).length >= {count}", "the answer ends")


ANSWER = "(document.querySelector('#thread .assistant:last-child .content')?.textContent ?? '')"


def check_streams_and_stop_frees_the_place(world, page, server: "endless"):
    say(page, "Row")
    seen = [page.wait(ANSWER + ".length", "text comes")]
    for step in range(3):
        seen.append(page.wait(f"{ANSWER}.length > {seen[-1]} && {ANSWER}.length", "more of it comes"))
    assert server.running() == 1
    assert page.run("document.activeElement.id") == "input", "the focus is back in the box"
    assert page.run("$('thread').getAttribute('aria-busy')") == "true"
    live = page.wait("/tokens\\/s/.test(document.querySelector('#thread span.stats')?.textContent) && document.querySelector('#thread span.stats').textContent", "a live rate")
    assert live.startswith("~"), live
    page.wait("parseInt($('gauge-text').textContent.replace(',', '')) > 40", "the context in use, live")
    world.shoot(page, "streaming")
    page.click("#stop")
    server.eventually(lambda: server.running() == 0, "the place is free")
    page.wait("runs.size === 0", "the page knows")
    text = page.run(ANSWER)
    assert text.startswith("Away. wave 0 "), text[:50]
    stats = page.run("document.querySelector('#thread details.stats').textContent")
    assert "tokens/s" in stats and "endless" in stats and "stopped" in stats, stats
    used = page.wait("$('gauge-text').textContent !== '0 / 65,536' && $('gauge-text').textContent", "the gauge")
    assert used.endswith("/ 65,536"), used
    page.click('[data-action="on"]')  # goes on where it was stopped
    page.wait(f"{ANSWER}.length > {len(text) + 20}", "it goes on")
    page.press("Escape", 27)
    server.eventually(lambda: server.running() == 0, "Esc frees the place, too")
    page.wait("runs.size === 0", "the page knows")
    assert page.run(ANSWER).startswith(text)
    assert page.run("view.chat && pathOf(view.chat).length") == 2
    first, second = bodies(page)
    assert first["stream"] and "continue_final_message" not in first
    assert second["continue_final_message"] is True and second["messages"][-1]["role"] == "assistant"


def check_a_busy_server_is_told_and_tried_again(world, page, server: "endless"):
    others = [server.occupy()]
    server.eventually(lambda: server.running() == 1, "one runs")
    others.append(server.occupy())
    server.eventually(lambda: server.waiting() == 1, "one waits")
    say(page, "Me too")
    problem = page.wait("document.querySelector('#thread .problem')?.textContent", "the problem is told")
    assert "The server is busy" in problem and "wait 1 second." in problem, problem
    world.shoot(page, "busy")
    for other in others:
        other.close()
    server.eventually(lambda: server.running() + server.waiting() == 0, "the others are gone")
    page.click('[data-action="retry"]')
    page.wait(ANSWER + ".length > 20", "an answer after all")
    assert page.run("document.querySelector('#thread .problem')") is None
    page.click("#stop")
    server.eventually(lambda: server.running() == 0, "the place is free")
    page.wait("runs.size === 0 && pathOf(view.chat).length === 2", "the page knows")


def check_a_gone_page_frees_the_place(world, page, server: "endless"):
    say(page, "Row")
    page.wait(ANSWER + ".length > 10", "text comes")
    page.reload()
    server.eventually(lambda: server.running() == 0, "the place is free")
    assert page.run("pathOf(view.chat).at(-1).finish") == "stopped", "what came is kept, as stopped"
    assert page.run("document.querySelector('[data-action=\"on\"]')"), "it can go on"


def check_numbers_are_kept_with_the_answer(world, page, server: "talker"):
    page.click("#panel-open")
    page.type("#s-temperature", "0.5")
    say(page, "How many?")
    answered(page)
    page.reload()
    told = page.run("document.querySelector('#thread details.stats').textContent")
    for part in ["talker", "temperature 0.5", "tokens/s", "ended by itself"]:
        assert part in told, told
    assert "~" not in told, told
    usage = page.run("pathOf(view.chat).at(-1).stats")
    assert page.run("$('gauge-text').textContent") == f"{usage['used']} / 65,536", usage
    assert usage["tokens"] + usage["prompt"] == usage["used"] and usage["exact"], usage


def check_settings_are_sent(world, page, server: "talker"):
    page.press(",", 188, 2)
    page.wait("!$('panel').hidden", "the panel opens")
    assert page.run("$('s-temperature').placeholder") == "1" and page.run("$('s-top_k').placeholder") == "all"
    for name, value in {"temperature": "0.3", "top_p": "0.9", "top_k": "20", "min_p": "0.05", "max_tokens": "5", "seed": "7",
                        "repetition_penalty": "1.1", "presence_penalty": "-0.5", "frequency_penalty": "0.25"}.items():
        page.type(f"#s-{name}", value)
    page.type("#system", "Be short.")
    say(page, "Now")
    answered(page)
    assert page.run("pathOf(view.chat).at(-1).finish") == "length"
    page.type("#s-temperature", "3")
    assert "from 0 to 2" in page.run("$('s-temperature-told').textContent") and page.run("$('s-temperature').ariaInvalid") == "true"
    page.click("#reset")
    assert page.run("$('s-temperature').value + $('s-temperature').ariaInvalid") == "false"
    page.type("#s-top_k", "9")
    page.click("#s-top_k-reset")
    page.type("#system", " ")
    say(page, "Again")
    answered(page, 2)
    first, second = bodies(page)
    assert {name: first[name] for name in first if name not in ("messages", "stream", "stream_options")} == {
        "temperature": 0.3, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "max_tokens": 5, "seed": 7, "repetition_penalty": 1.1,
        "presence_penalty": -0.5, "frequency_penalty": 0.25}, first
    assert first["messages"] == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Now"}]
    assert sorted(second) == ["messages", "stream", "stream_options"] and second["messages"][0] == {"role": "user", "content": "Now"}, second


def check_files_are_attached(world, page, server: "talker"):
    folder = world.folder + "/files"
    import os
    os.makedirs(folder)
    for name, data in {"notes.txt": b"line one\n```\nline two", "picture.bin": b"\x89PNG\0\xff", "other.md": b"# other\n"}.items():
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)
    page.choose_files("#attach-file", [f"{folder}/notes.txt", f"{folder}/picture.bin", f"{folder}/other.md"])
    page.wait("document.querySelectorAll('#files li').length === 2", "two are attached")
    assert "no text file" in page.run("$('toast-text').textContent")
    page.click('#files li:last-child button')
    page.run("""(() => {
      const files = new DataTransfer();
      files.items.add(new File(["dropped words"], "dropped.txt", {type: "text/plain"}));
      dispatchEvent(new DragEvent("drop", {dataTransfer: files, cancelable: true}));
      $("input").dispatchEvent(new ClipboardEvent("paste", {clipboardData: files, cancelable: true, bubbles: true}));
    })()""")
    page.wait("document.querySelectorAll('#files li').length === 3", "dropped and pasted ones, too")
    say(page, "Read")
    answered(page)
    content = bodies(page)[-1]["messages"][0]["content"]
    assert content.startswith("Read\n\nnotes.txt:\n````\nline one\n```\nline two\n````\n\ndropped.txt:\n```\ndropped words\n```"), content
    assert page.run("document.querySelectorAll('#thread .attached li').length") == 3
    assert page.run("document.querySelectorAll('#files li').length") == 0


def check_refusals_are_told(world, page, server: "talker"):
    page.click("#panel-open")
    page.type("#s-max_tokens", "65536")
    say(page, "Much")
    problem = page.wait("document.querySelector('#thread .problem')?.textContent", "the refusal")
    assert "too long for this model" in problem and "65536 tokens" in problem, problem
    page.click("#reset")
    page.click('[data-action="retry"]')
    answered(page)


def check_keyboard(world, page, server: "talker"):
    page.type("#input", "one")
    page.enter(8)
    page.call("Input.insertText", text="two")
    page.enter()
    answered(page)
    assert page.run("pathOf(view.chat)[0].text") == "one\ntwo"
    assert page.run("document.activeElement.id + $('input').value") == "input"
    page.press("ArrowUp", 38)
    area = page.wait("document.activeElement.tagName === 'TEXTAREA' && document.activeElement.id !== 'input' && document.activeElement.value", "the last message is edited")
    assert area == "one\ntwo", area
    page.call("Input.insertText", text=" three")
    page.press("Enter", 13, 2, "\r")
    answered(page)
    assert page.run("pathOf(view.chat)[0].text") == "one\ntwo three"
    page.press("k", 75, 2)
    assert page.run("document.activeElement.id") == "search"
    page.press("/", 191, 2)
    assert page.run("$('help').open") and page.run("$('shortcuts').children.length") > 10
    page.press("Escape", 27)
    page.wait("!$('help').open", "Esc closes it")
    page.press("o", 79, 10)
    page.wait("pathOf(view.chat).length === 0 && document.activeElement.id === 'input'", "a new chat")
    order = page.run("[...document.querySelectorAll('[tabindex]')].filter((node) => node.tabIndex > 0).length")
    assert order == 0, "the order of tabs is that of the page"
