"""What is seen and heard: names, contrast, phones, motion, colours; with screenshots for people."""
from checks_answers import answered, say
from checks_markdown import LOOK

NAMED = {"button", "link", "textbox", "searchbox", "spinbutton", "dialog", "meter", "navigation", "complementary", "article", "DisclosureTriangle"}


def unnamed(page, least=8):
    page.call("Accessibility.enable")
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    seen = [node for node in nodes if not node["ignored"] and node["role"]["value"] in NAMED]
    assert len(seen) >= least, "the tree of names is there"
    return [f"{node['role']['value']} {node.get('backendDOMNodeId')}" for node in seen if not node.get("name", {}).get("value", "").strip()]


def everything_open(page):
    say(page, "Show me everything")
    answered(page)
    page.click('.assistant [data-action="again"]')
    page.wait("document.querySelector('.assistant .branch') && runs.size === 0", "branches")


def check_names_for_screen_readers(world, page, server: "talker"):
    everything_open(page)
    page.click('.user [data-action="edit"]')
    page.click("#panel-open")
    page.wait("document.querySelector('#memory table')", "memory")
    found = unnamed(page)
    assert found == [], found
    for dialog in ["help", "key", "ask"]:
        page.run(f"$('{dialog}').showModal(); $('ask-title').textContent = 'Title'")
        found = unnamed(page, 2)
        assert found == [], f"{dialog}: {found}"
        page.run(f"$('{dialog}').close()")
    assert page.run("document.documentElement.lang") == "en"
    assert page.run("$('live').getAttribute('aria-live')") == "polite"
    same = page.run("(() => { const names = [...document.querySelectorAll('#thread button')].map((b) => b.ariaLabel || b.textContent);"
                    " return names.filter((name, i) => !name || (names.indexOf(name) !== i && !/branch|Copy this/.test(name))); })()")
    assert same == [], f"names that are there twice, or empty: {same}"


def check_an_answer_is_announced(world, page, server: "talker"):
    say(page, "Speak")
    answered(page)
    page.wait("$('live').textContent.includes('trireme')", "the answer in the live region")


def check_contrast(world, page, server: "talker"):
    everything_open(page)
    page.click("#panel-open")
    page.wait("document.querySelector('#memory table')", "memory")
    for scheme in ["light", "dark"]:
        page.media(prefers_color_scheme=scheme)
        pale = page.run(LOOK + ".pale()")
        assert pale == [], f"{scheme}: {pale}"
        page.run("$('help').showModal()")
        pale = page.run(LOOK + ".pale()")
        assert pale == [], f"{scheme}, help: {pale}"
        page.run("$('help').close()")
    page.media(prefers_color_scheme="light")
    page.click("#theme")
    page.click("#theme")
    assert page.run("document.documentElement.dataset.theme + getComputedStyle(document.body).backgroundColor") == "darkrgb(20, 24, 27)"
    page.reload()
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 27)", "the choice is kept"
    page.click("#theme")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(251, 250, 248)", "as the system again"


def check_a_phone(world, page, server: "talker"):
    everything_open(page)
    page.size(360, 740, phone=True)
    page.reload()
    where = {"thread": "1", "side": "showSide(true)", "panel": "showSide(false), showPanel(true)", "help": "showPanel(false), $('help').showModal()"}
    for name, script in where.items():
        page.run(script)
        for found in [page.run(LOOK + ".wide(360)"), page.run(LOOK + ".small()")]:
            assert found == [], f"{name}: {found}"
        world.shoot(page, "phone-" + name)
    assert page.run("$('help').scrollHeight <= $('help').clientHeight"), "the help is seen from its heading to its button"
    page.run("$('help').close()")
    page.run("$('scroll').scrollTop = 0")
    world.shoot(page, "phone-top")
    count = page.run("pathOf(view.chat).length")
    page.type("#input", "touch")
    page.enter()
    assert page.run("$('input').value") == "touch\n", "Enter makes a new line here"
    assert page.run("pathOf(view.chat).length") == count
    page.click("#send")
    answered(page, 2)
    assert page.run("pathOf(view.chat).length") == count + 2
    assert page.run("document.activeElement.id") != "input", "no keyboard in front of the answer"


def check_motion_is_optional(world, page, server: "endless"):
    for wish, moving in [("reduce", 0), ("no-preference", 1)]:
        page.media(prefers_reduced_motion=wish)
        page.click("#new-chat")
        say(page, "Row")
        page.wait("document.querySelector('#thread .waiting')?.textContent.length > 5", "text comes")
        found = page.run("document.getAnimations().filter((a) => a.playState === 'running' && a instanceof CSSAnimation).length")
        assert found == moving, f"{wish}: {found}"
        page.click("#stop")
        page.wait("runs.size === 0", "it is stopped")
    server.eventually(lambda: server.running() == 0, "the place is free")


def check_pictures_for_people(world, page, server: "talker"):
    world.shoot(page, "light-empty")
    for text in ["What is a trireme?", "And who rowed it?"]:
        say(page, text)
        answered(page, 1 if text[0] == "W" else 2)
    page.run("$('scroll').scrollTop = 0")
    page.media(prefers_color_scheme="light")
    world.shoot(page, "light")
    page.click("#panel-open")
    page.wait("document.querySelector('#memory table')", "memory")
    page.media(prefers_color_scheme="dark")
    world.shoot(page, "dark-panel")
    page.click("#panel-close")
    page.run("$('scroll').scrollTop = 500")
    world.shoot(page, "dark")
    page.run("$('help').showModal()")
    world.shoot(page, "dark-help")
