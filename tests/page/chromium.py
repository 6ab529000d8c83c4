"""Chromium without a window, driven through its DevTools protocol over a pipe; the standard library alone."""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

PATIENCE = 60  # seconds for a condition


def find_chromium():
    names = ["chromium", "chromium-browser", "chromium-headless-shell", "google-chrome", "chrome-headless-shell"]
    return next((path for path in map(shutil.which, names) if path), None)


class Failed(Exception):
    pass


class Browser:
    def __init__(self, program, folder):
        to_read, to_write = self._pipe()
        from_read, from_write = self._pipe()

        def connect():  # commands are read from 3, answers written to 4
            os.dup2(to_read, 3)
            os.dup2(from_write, 4)

        self._errors = open(f"{folder}/chromium.log", "wb")
        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile", "--no-first-run",
             "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--mute-audio", "--force-color-profile=srgb", "--hide-scrollbars"],
            stdin=subprocess.DEVNULL, stdout=self._errors, stderr=self._errors, preexec_fn=connect, pass_fds=(3, 4))
        os.close(to_read)
        os.close(from_write)
        self._to, self._from = to_write, from_read
        self._number, self._rest, self._answers = 0, b"", {}
        self.events = []

    @staticmethod
    def _pipe():  # away from the numbers 3 and 4
        ends = os.pipe()
        high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
        for end in ends:
            os.close(end)
        return high

    def call(self, method, session=None, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        number, until = self._number, time.monotonic() + PATIENCE
        while number not in self._answers:
            self._read(until - time.monotonic(), method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']}")
        return answer["result"]

    def _read(self, seconds, what):
        if not select.select([self._from], [], [], max(0, seconds))[0]:
            raise Failed(f"the browser does not answer {what}")
        piece = os.read(self._from, 1 << 20)
        if not piece:
            raise Failed(f"the browser has ended ({what})")
        *messages, self._rest = (self._rest + piece).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.events.append(message)

    def take_events(self):
        while select.select([self._from], [], [], 0)[0]:
            self._read(0, "events")
        return self.events

    def close(self):
        try:
            self.call("Browser.close")
        except (Failed, OSError):
            self._process.kill()
        self._process.wait()
        self._errors.close()
        os.close(self._to)
        os.close(self._from)


class Page:
    """One tab, with storage of its own or that of another."""

    def __init__(self, browser, beside=None):
        self.browser = browser
        self.context = beside.context if beside else browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log", "DOM"]:
            self.call(domain + ".enable")
        self.size(1280, 860)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'true'", "the page is ready")

    def reload(self):
        self.run("document.documentElement.dataset.ready = ''")
        self.call("Page.reload")
        self.wait("document.documentElement?.dataset.ready === 'true'", "the page is ready again")

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise Failed(f"{script}: {json.dumps(answer['exceptionDetails'])[:2000]}")
        value = answer["result"].get("value")
        return True if value == {} else value  # a node

    def wait(self, condition, what, seconds=PATIENCE):
        """Until the condition of the page holds, a function of Python or a text of JavaScript; returns its value."""
        until = time.monotonic() + seconds
        while True:
            try:
                value = condition() if callable(condition) else self.run(condition)
            except Failed as error:  # a page on its way
                if "context" not in str(error).lower():
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > until:
                shown = self.run("document.body ? document.body.innerText.slice(0, 1500) : ''")
                raise Failed(f"never came: {what} ({condition if not callable(condition) else 'see the test'}); the page says:\n{shown}")
            time.sleep(0.02)

    def click(self, selector):
        self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                 f" if (!e) throw new Error('nothing is ' + {json.dumps(selector)}); e.focus(); e.click(); }})()")

    def type(self, selector, text):
        self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.focus(); e.select?.(); }})()")
        self.call("Input.insertText", text=text)

    def press(self, key, code, modifiers=0, text=None):
        """modifiers: 2 Ctrl, 8 Shift."""
        common = {"key": key, "code": key if len(key) > 1 else "Key" + key.upper(), "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def enter(self, modifiers=0):
        self.press("Enter", 13, modifiers, "\r")

    def choose_files(self, selector, paths):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=paths, nodeId=node)

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia", features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()])

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def events(self, method):
        return [event["params"] for event in self.browser.take_events()
                if event.get("sessionId") == self.session and event["method"] == method]
