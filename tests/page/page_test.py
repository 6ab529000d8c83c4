#!/usr/bin/env python3
"""The chat page in headless Chromium, against `trireme serve` on tiny models that say a known text (tiny_model.py).

Usage: page_test.py TRIREME [--screenshots FOLDER] [NAME ...]
Exit 0: all checks hold, or skipped, which is said, where there is no Chromium.
"""
import sys

sys.dont_write_bytecode = True  # the tree stays as it is

import contextlib
import inspect
import os
import tempfile
import time

import checks_answers
import checks_history
import checks_looks
import checks_markdown
import checks_server
from chromium import Browser, Failed, Page, find_chromium
from served import FIRSTS, TEXT, WAVES, Server
from tiny_model import write_model

KEY = "0123456789abcdef-a-key"


class World:
    """Servers and tabs, made when a check asks for them by name."""

    def __init__(self, program, folder, browser):
        self.program, self.folder, self.browser, self.made = program, folder, browser, {}
        self.screenshots = None

    def _server(self, name, *flags, key="", **model):
        if name not in self.made:
            write_model(f"{self.folder}/{name}", **model)
            self.made[name] = Server(self.program, f"{self.folder}/{name}", *flags, key=key)
        return self.made[name]

    def talker(self):  # says FIRSTS and TEXT, and ends
        return self._server("talker", firsts=FIRSTS, text=TEXT)

    def endless(self):  # never ends, slowly, one answer at a time; one more may wait
        return self._server("endless", "--max-num-seqs=1", "--max-queue=1", "--max-num-batched-tokens=512", firsts=["Away. "], text=WAVES,
                            ends=False, width=24576)

    def base(self):  # without a chat template
        return self._server("base", firsts=["and the sea "], text=WAVES[:400], ends=False, template=False, context=8192)

    def locked(self):
        return self._server("locked", key=KEY, firsts=FIRSTS, text=TEXT)

    def page(self, server):
        page = Page(self.browser)
        page.key = server.key
        page.open(server.url)
        return page

    def shoot(self, page, name):
        if self.screenshots:
            page.screenshot(f"{self.screenshots}/{name}.png")

    def close(self):
        for server in self.made.values():
            server.close()


def check_quiet(page, server):
    """Nothing failed on the way, nothing was asked of anybody else, no dialog of a hostile string came."""
    errors = [e["exceptionDetails"] for e in page.events("Runtime.exceptionThrown")]
    assert not errors, errors
    assert not page.events("Page.javascriptDialogOpening"), "a dialog opened"
    logged = [e["entry"]["text"] for e in page.events("Log.entryAdded") if e["entry"]["source"] in ("security", "javascript")]
    assert not logged, logged
    asked = {e["request"]["url"] for e in page.events("Network.requestWillBeSent")}
    others = [url for url in asked if not url.startswith((server.url + "/", "data:", "blob:" + server.url))]
    assert not others, f"requests left the origin: {others}"


def main():
    arguments = sys.argv[1:]
    program = os.path.abspath(arguments.pop(0))
    screenshots = None
    if "--screenshots" in arguments:
        at = arguments.index("--screenshots")
        screenshots = arguments[at + 1]
        del arguments[at:at + 2]
        os.makedirs(screenshots, exist_ok=True)
    chromium = find_chromium()
    if not chromium:
        print("skipped: no chromium here (chromium or chromium-headless-shell of Debian)")
        return 0
    checks = [(name, check) for module in (checks_markdown, checks_answers, checks_history, checks_server, checks_looks)
              for name, check in inspect.getmembers(module, inspect.isfunction)
              if name.startswith("check_") and check.__module__ == module.__name__ and (not arguments or name[6:] in arguments)]
    failed = []
    with tempfile.TemporaryDirectory(prefix="trireme-page-") as folder, contextlib.ExitStack() as stack:
        browser = Browser(chromium, folder)
        stack.callback(browser.close)
        world = World(program, folder, browser)
        world.screenshots = screenshots
        stack.callback(world.close)
        for name, check in checks:
            begun = time.monotonic()
            server = getattr(world, inspect.signature(check).parameters["server"].annotation)()
            page = world.page(server)
            try:
                check(world, page, server)
                check_quiet(page, server)
                print(f"ok      {name[6:]} ({time.monotonic() - begun:.1f} s)", flush=True)
            except (AssertionError, Failed) as error:
                failed.append(name[6:])
                print(f"FAILED  {name[6:]}: {error}", flush=True)
                world.shoot(page, "failed-" + name[6:])
            browser.call("Target.disposeBrowserContext", browserContextId=page.context)
            browser.events.clear()
    print(f"{len(checks) - len(failed)} of {len(checks)} checks hold" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
