"""Chats are kept, searched, branched, taken out and in."""
import json
import os

from chromium import Page
from checks_answers import ANSWER, answered, bodies, say


def titles(page):
    return page.run("[...document.querySelectorAll('#chats .open')].map((node) => node.textContent)")


def check_chats_survive_and_are_found(world, page, server: "talker"):
    say(page, "First of all")
    answered(page)
    text = page.run(ANSWER)
    page.click("#new-chat")
    say(page, "Second of all")
    answered(page)
    assert titles(page) == ["Second of all", "First of all"]
    page.reload()
    assert titles(page) == ["Second of all", "First of all"]
    page.click("#chats li:last-child .open")
    assert page.run("$('title').textContent") == "First of all" and page.run(ANSWER) == text
    page.type("#search", "FIRST of")
    assert titles(page) == ["First of all"]
    page.type("#search", "nothing like it")
    assert titles(page) == [] and page.run("$('no-chats').textContent") == "No chat says that."
    page.run("$('search').value = ''; $('search').dispatchEvent(new Event('input'))")
    page.click('#chats li:last-child [data-action="rename"]')
    page.type("#ask-input", "A better name")
    page.enter()
    page.wait("[...document.querySelectorAll('#chats .open')].some((node) => node.textContent === 'A better name')", "the name")
    page.click('#chats li:last-child [data-action="delete"]')
    page.wait("document.querySelectorAll('#chats li').length === 1", "it is gone")
    page.click("#toast-action")
    page.wait("document.querySelectorAll('#chats li').length === 2", "it is back")
    page.click('#chats [aria-label*="Delete"][aria-label*="better"]')
    page.wait("document.querySelectorAll('#chats li').length === 1", "it is gone again")
    page.reload()
    assert titles(page) == ["Second of all"]


def check_edit_again_and_branches(world, page, server: "talker"):
    say(page, "Question")
    answered(page)
    page.click('.assistant [data-action="again"]')
    page.wait("document.querySelector('.assistant .branch')?.textContent === '2/2' && runs.size === 0", "a second answer")
    page.click('.assistant [data-action="again"]')
    page.wait("document.querySelector('.assistant .branch')?.textContent === '3/3' && runs.size === 0", "a third one")
    page.click('.assistant [data-action="left"]')
    assert page.run("document.querySelector('.assistant .branch').textContent") == "2/3"
    assert page.run("document.activeElement.dataset.action") == "left", "the focus stays"
    say(page, "Behind the second")
    answered(page, 2)
    page.click('.user [data-action="edit"]')
    page.type(".editor textarea", "Another question")
    page.click(".editor .main")
    page.wait("document.querySelector('.user .branch')?.textContent === '2/2' && runs.size === 0", "a branch of the message")
    assert page.run("pathOf(view.chat).length") == 2
    page.click('.user [data-action="left"]')
    assert page.run("pathOf(view.chat).length") == 4
    assert page.run("[...document.querySelectorAll('.branch')].map((node) => node.textContent)") == ["1/2", "2/3"]
    page.click('.message:last-child [data-action="edit"]')
    page.type(".editor textarea", "My own words")
    page.click(".editor .main")
    assert page.run(ANSWER) == "My own words"
    page.reload()
    assert page.run("[...document.querySelectorAll('.branch')].map((node) => node.textContent)") == ["1/2", "2/3", "2/2"]
    assert page.run(ANSWER) == "My own words"
    page.click('.message:last-child [data-action="on"]')  # an edited answer goes on
    answered(page, 2)
    assert bodies(page)[-1]["messages"][-1] == {"role": "assistant", "content": "My own words"}
    assert page.run(ANSWER).startswith("My own words") and len(page.run(ANSWER)) > 50
    world.shoot(page, "branches")


def check_two_tabs_do_not_undo_each_other(world, page, server: "talker"):
    say(page, "Here")
    answered(page)
    other = Page(world.browser, beside=page)
    other.open(server.url)
    say(other, "There")
    answered(other, 2)
    other.click("#new-chat")
    say(other, "Elsewhere")
    answered(other)
    page.run("dispatchEvent(new Event('focus'))")
    page.wait("pathOf(view.chat).length === 4 && document.querySelectorAll('#thread article').length === 4", "what the other tab said")
    say(page, "Here again")
    answered(page, 3)
    assert titles(page) == ["Here", "Elsewhere"]
    other.run("dispatchEvent(new Event('focus'))")
    other.wait("pathOf([...store.chats.values()].find((chat) => titleOf(chat) === 'Here')).length === 6", "and this one")
    page.click('#chats li:last-child [data-action="delete"]')
    page.wait("document.querySelectorAll('#chats li').length === 1", "it is gone")
    other.run("dispatchEvent(new Event('focus'))")
    other.wait("document.querySelectorAll('#chats li').length === 1", "there, too")


def check_export_and_import(world, page, server: "talker"):
    folder = world.folder + "/downloads"
    os.makedirs(folder)
    world.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder, browserContextId=page.context)
    for text in ["One", "Two"]:
        page.click("#new-chat")
        say(page, text)
        answered(page)
    page.click('#chats li.current [data-action="export"]')
    page.wait(lambda: os.path.exists(folder + "/Two.json"), "the file of one chat")
    page.click("#export-all")
    page.wait(lambda: os.path.exists(folder + "/trireme chats.json"), "the file of all")
    with open(folder + "/trireme chats.json", encoding="utf-8") as file:
        whole = json.load(file)
    assert whole["format"] == "trireme-chats" and sorted(c["nodes"][c["roots"][0]]["text"] for c in whole["chats"]) == ["One", "Two"]
    page.click("#panel-open")
    page.click("#delete-all")
    page.click("#ask-ok")
    page.wait("document.querySelectorAll('#chats li').length === 0", "all are gone")
    page.choose_files("#import-file", [folder + "/trireme chats.json"])
    page.wait("document.querySelectorAll('#chats li').length === 2", "all are back")
    page.choose_files("#import-file", [folder + "/Two.json"])
    page.wait("$('toast-text').textContent.startsWith('0 of 1')", "what is here already is left alone")
    again = page.run("JSON.parse(fileOf([...store.chats.values()]))")
    key = lambda chat: chat["id"]
    for old, new in zip(sorted(whole["chats"], key=key), sorted(again["chats"], key=key)):
        for name in ["title", "roots", "shown", "system", "sampling"]:
            assert old[name] == new[name], name
        assert [n["text"] for n in old["nodes"].values()] == [new["nodes"][i]["text"] for i in old["nodes"]]


def check_damaged_files_are_refused(world, page, server: "talker"):
    node = {"id": "n", "parent": None, "role": "user", "text": "x", "children": [], "shown": 0}
    chat = {"id": "c", "nodes": {"n": node}, "roots": ["n"], "shown": 0}
    cases = ["", "[]", "{}", '{"format": "trireme-chats", "version": 2, "chats": []}']
    for change in [{"id": 5}, {"nodes": []}, {"roots": ["m"]}, {"roots": ["n", "n"]}, {"roots": ["constructor"]}, {"roots": "n"},
                   {"nodes": {"n": {**node, "children": ["n"]}}}, {"nodes": {"n": {**node, "children": None}}}]:
        cases.append(json.dumps({"format": "trireme-chats", "version": 1, "chats": [{**chat, **change}]}))
    path = world.folder + "/bad.json"
    for case in cases:
        with open(path, "w", encoding="utf-8") as file:
            file.write(case)
        page.run("$('toast').hidden = true")
        page.choose_files("#import-file", [path])
        page.wait("!$('toast').hidden && $('toast-text').textContent.startsWith('bad.json: ')", f"a refusal of {case}")
    strange = {**chat, "id": "s", "title": "<b>bold</b>", "shown": 99, "sampling": {"temperature": "hot", "evil": 1, "top_k": 3},
               "nodes": {"n": {**node, "text": "<img src=x onerror=alert(1)>", "files": [{"name": "<i>", "text": 1}], "shown": -5}}}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({"format": "trireme-chats", "version": 1, "chats": [strange]}))
    page.choose_files("#import-file", [path])
    page.wait("document.querySelectorAll('#chats li').length === 1", "a strange one is taken as it can be")
    assert titles(page) == ["<b>bold</b>"]
    assert page.run("JSON.stringify(view.chat.sampling)") == '{"top_k":3}'
    assert page.run("document.querySelectorAll('#thread img, #side b').length") == 0
