"""`trireme serve` on a tiny model, and plain requests to it."""
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 60

# What the model says: each kind of Markdown, and the strings that have hurt other pages.
FIRSTS = ["Certainly. ", "Of course. ", "With pleasure: "]
TEXT = r"""Here is what a **trireme** is, in short.

## Three banks of oars

It had _three_ rows of oars on each side; names such as a_b_c and snake_case_names stay as they are.
See [the page](https://example.org/trireme) or https://example.org/plain for more.

1. Thranites, the top row
2. Zygites, in the middle
   - their oars go through the hull
3. Thalamites, below

| Row | Oars |
| --- | ---: |
| Top<br>(thranites) | 62 |
| Middle | 54 |

```python
# x is no heading here
foo = "\(bar\)"
for row in range(3):
    print(row, "of 170 oars")
```

Its speed follows from \( v = \sqrt{\frac{2 P}{\rho A}} \), more or less.

> Hostile words are words: <img src=x onerror=alert(1)>, <script>alert(2)</script>,
> [click me](javascript:alert(3)), ![a picture](https://evil.example/pixel.png), [data](data:text/html,x).

Done, and `<b>code</b>` is *code*.

```js
const open = "this fence is never closed";
"""
WAVES = "\n\n".join(" ".join(f"wave {10 * i + j}" for j in range(10)) + "." for i in range(40)) + "\n\n"


class Server:
    def __init__(self, program, folder, *flags, key=""):
        self.key = key
        self.port, self.url = 0, ""
        if key:
            with open(folder + "/keys", "w", encoding="utf-8") as file:
                file.write(key + "\n")
            flags = (*flags, "--api-key-file", folder + "/keys")
        self.log = folder + "/server.log"
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen([program, "serve", folder, "--port=0", "--parallel.threads=1", *flags],
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "HOME": folder})
        self.eventually(self._answers, "the server is ready")

    def _answers(self):
        with open(self.log, encoding="utf-8") as log:
            said = log.read()
        assert self._process.poll() is None, "the server ended: " + said
        port = re.search(r"ready in .*http://127\.0\.0\.1:(\d+)/.*\n", said)  # any that was free
        if not port:
            return False
        self.port, self.url = int(port[1]), f"http://127.0.0.1:{port[1]}"
        try:
            return self.get("/health") is not None
        except (OSError, urllib.error.HTTPError):
            return False

    @staticmethod
    def eventually(holds, what):
        until = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < until, "never came: " + what
            time.sleep(0.02)

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"Authorization": "Bearer " + self.key} if self.key else {})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def gauge(self, name):
        return float(re.search(rf"^vllm:{name}{{[^}}]*}} (\S+)$", self.get("/metrics"), re.M)[1])

    def running(self):
        return self.gauge("num_requests_running")

    def waiting(self):
        return self.gauge("num_requests_waiting")

    def occupy(self):
        """A client that waits for a long answer; closing its socket frees its place."""
        body = json.dumps({"prompt": "x", "max_tokens": 60000, "ignore_eos": True})
        client = socket.create_connection(("127.0.0.1", self.port))
        client.sendall((f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
        return client

    def close(self):
        self._process.send_signal(signal.SIGINT)
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
