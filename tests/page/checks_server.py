"""What the page makes of a server: keys, base models, memory, one that is away."""
from checks_answers import ANSWER, answered, bodies, say


def check_base_model_continues_text(world, page, server: "base"):
    assert "Base model, continuing text" in page.run("$('base-note').textContent") and not page.run("$('base-note').hidden")
    assert page.run("$('system-section').hidden")
    say(page, "The ships ")
    answered(page)
    assert page.run("pathOf(view.chat).at(-1).finish") == "length"
    text = page.run(ANSWER)
    assert text.startswith("and the sea wave 0 "), text[:40]
    first = bodies(page, "/v1/completions")[0]
    assert first["prompt"] == "The ships " and first["max_tokens"] == 256, first
    page.click('[data-action="on"]')
    page.wait(f"runs.size === 0 && {ANSWER}.length > {len(text)}", "it goes on")
    assert bodies(page, "/v1/completions")[1]["prompt"] == "The ships " + text
    say(page, " and then ")
    answered(page, 2)
    assert bodies(page, "/v1/completions")[2]["prompt"].endswith(" and then ") and page.run(ANSWER).startswith("and the sea ")
    world.shoot(page, "base")
    page.type("#input", "x" * 9000)
    page.enter()
    problem = page.wait("document.querySelector('#thread .problem')?.textContent", "the text is too long")
    assert "too long" in problem and "the model takes 8192" in problem, problem


def check_key_is_asked_and_kept_for_the_tab(world, page, server: "locked"):
    # World.page() waited for the page alone: it came without a key.
    page.wait("$('key').open", "the page asks for the key")
    page.type("#key-input", "wrong-key-wrong-key")
    page.enter()
    page.wait("!server.known && $('key').open && $('key-input').value === ''", "asked again")
    page.type("#key-input", page.key)
    page.enter()
    page.wait("server.known && !$('key').open", "the key is right")
    say(page, "Open")
    answered(page)
    page.reload()
    page.wait("server.known", "the key is still there")
    kept = page.run("JSON.stringify(localStorage) + JSON.stringify([...store.chats.values()])")
    assert page.key not in kept
    assert page.run("sessionStorage.getItem('trireme.key')") == page.key


def check_memory_is_shown(world, page, server: "talker"):
    page.click("#panel-open")
    rows = page.wait("document.querySelectorAll('#memory tr').length && [...document.querySelectorAll('#memory tr')].map((row) => row.textContent)", "memory")
    text = " | ".join(rows)
    for name in ["Weights", "KV cache, used", "KV cache, free", "Free"]:
        assert name in text, text
    weights = page.run("server.memory.bytes.device.parameters")
    assert weights > 50000, weights
    assert page.run("server.memory.cache.bytes === server.memory.bytes.device.kv_cache"), page.run("JSON.stringify(server.memory)")
    page.run("$('memory').scrollIntoView()")
    world.shoot(page, "memory")


def check_a_server_that_is_away_is_told(world, page, server: "talker"):
    page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    say(page, "Anybody?")
    problem = page.wait("document.querySelector('#thread .problem')?.textContent", "the problem")
    assert "does not answer" in problem, problem
    page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    page.click('[data-action="retry"]')
    answered(page)
    page.browser.events[:] = [e for e in page.browser.events if e["method"] != "Log.entryAdded"]


def check_a_broken_stream_is_told(world, page, server: "talker"):
    """An error in the middle, an end without [DONE], and 503 while the server shuts down, as the server words them."""
    page.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/chat/completions"}])
    chunk = 'data: {"choices": [{"index": 0, "delta": {"content": "Half of "}}]}\n\n'
    busy = '{"error": {"message": "the server is shutting down", "type": "unavailable_error", "param": null, "code": "shutting_down"}}'
    for status, body, told in [(200, ": a comment\n\n" + chunk + 'data: {"error": {"message": "no numbers <b>"}}\n\n', "No numbers <b>"),
                               (200, chunk, "broke off"), (503, busy, "The server is busy")]:
        import base64
        page.click("#new-chat")
        say(page, "Go")
        paused = page.wait(lambda: page.events("Fetch.requestPaused"), "the request")[-1]
        page.browser.events[:] = [e for e in page.browser.events if e["method"] != "Fetch.requestPaused"]
        page.call("Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=status, body=base64.b64encode(body.encode()).decode(),
                  responseHeaders=[{"name": "Content-Type", "value": "text/event-stream"}, {"name": "Retry-After", "value": "7"}])
        problem = page.wait("document.querySelector('#thread .problem')?.textContent", "the problem")
        assert told in problem, problem
        if status == 503:
            assert "wait 7 seconds" in problem, problem
        else:
            assert page.run(ANSWER) == "Half of ", page.run(ANSWER)
    page.call("Fetch.disable")
    page.click('[data-action="retry"]')
    answered(page)
    page.browser.events[:] = [e for e in page.browser.events if e["method"] != "Log.entryAdded"]
