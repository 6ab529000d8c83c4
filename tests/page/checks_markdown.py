"""Markdown becomes nodes, and hostile words stay words."""
import json

from served import TEXT


def rendered(page, text):
    """What the renderer makes of a text, as a small outline."""
    return page.run("""(() => {
      const outline = (node) => node.nodeType === 3 ? node.data
          : node.tagName.toLowerCase() + (node.tagName === "A" ? "=" + node.href : "") + "(" + [...node.childNodes].map(outline).join("") + ")";
      const box = document.createElement("div");
      showMarkdown(box, %s);
      box.querySelectorAll("figcaption button").forEach((b) => b.remove());
      return [...box.childNodes].map(outline).join("");
    })()""" % json.dumps(text))


CASES = [
    ("a_b_c and _em_ and __strong__ *a*b", "p(a_b_c and em(em) and strong(strong) em(a)b)"),
    ("***both*** **a *b* c** ~~gone~~ 2 * 3 * 4", "p(em(strong(both)) strong(a em(b) c) del(gone) 2 * 3 * 4)"),
    ("`a_b_` ``x ` y`` `open", "p(code(a_b_) code(x ` y) `open)"),
    ("# One #\n## Two\nthree\n===", "h1(One)h2(Two)h1(three)"),
    ("- a\n- b\n  - c\n\n    more\n1. x\n2. y", "ul(li(a)li(bul(li(p(c)p(more)))))ol(li(x)li(y))"),
    ("3. x\n4. y\n\nz", "ol(li(x)li(y))p(z)"),
    ("- [ ] do\n- [x] done", "ul(li(\u2610 do)li(\u2611 done))"),
    ("> a\nb\n> > c\n\nd", "blockquote(p(abr()b)blockquote(p(c)))p(d)"),
    ("|a|b|\n|-|:-:|\n|x<br>y|`p`|\n|\\|only|", "div(table(thead(tr(th(a)th(b)))tbody(tr(td(xbr()y)td(code(p)))tr(td(|only)td()))))"),
    ("a | b", "p(a | b)"),
    ("```py\n# x\nfoo = \"\\(bar\\)\"\n```", "figure(figcaption(span(py))pre(code(span(# x)\nfoo = span(\"\\(bar\\)\"))))"),
    ("text\n```\nstill open\n# x", "p(text)figure(figcaption(span(code))pre(code(still open\n# x)))"),
    ("~~~~\n```\n~~~~", "figure(figcaption(span(code))pre(code(```)))"),
    ("- x\n  ```\n  in\n  ```", "ul(li(xfigure(figcaption(span(code))pre(code(in)))))"),
    ("a  \nb\\\nc", "p(abr()bbr()c)"),
    ("---\n***\n\\*no\\*", "hr()hr()p(*no*)"),
    ("<img src=x onerror=alert(1)> <b>x</b> &lt;", "p(<img src=x onerror=alert(1)> <b>x</b> &lt;)"),
    ("[x](javascript:alert(1)) [y](JaVaScRiPt:alert`1`)", "p([x](javascript:alert(1)) [y](JaVaScRiPt:alertcode(1)))"),
    ("[x]( https://a.example/b_c_d \"t\") <https://b.example/>", "p(a=https://a.example/b_c_d(x) a=https://b.example/(https://b.example/))"),
    ("https://a.example/x_y_z. (https://b.example/p(q))", "p(a=https://a.example/x_y_z(https://a.example/x_y_z). (a=https://b.example/p(q)(https://b.example/p(q))))"),
    ("![pic](https://a.example/p.png) ![p](data:image/png,x)", "p(a=https://a.example/p.png(Picture: pic) ![p](data:image/png,x))"),
    ("[vb](vbscript:x) [rel](/v1/models) [file](file:///etc/passwd)", "p([vb](vbscript:x) [rel](/v1/models) [file](file:///etc/passwd))"),
    ("[a [b](https://x.example/) c](https://y.example/)", "p([a a=https://x.example/(b) c](https://y.example/))".replace("](https://y.example/)", "](a=https://y.example/(https://y.example/))")),
    ("\\(x_1^2\\) costs $5 and $6, $a_b$", "p(math(msubsup(mi(x)mn(1)mn(2))) costs $5 and $6, math(msub(mi(a)mi(b))))"),
    ("$$\n\\frac{a}{b}\n$$", "div(math(mfrac(mrow(mi(a))mrow(mi(b)))))"),
    ("\\(\\unknown{x}\\) \\(open", "p(code(\\unknown{x}) (open)"),
    ("\\(\\text{<img src=x>}\\)", "p(math(mtext(<img src=x>)))"),
]


def check_markdown_cases(world, page, server: "talker"):
    wrong = []
    for text, expected in CASES:
        said = rendered(page, text)
        if said != expected:
            wrong.append(f"\n  {text!r}\n  made     {said!r}\n  expected {expected!r}")
    assert not wrong, "".join(wrong)


def check_bombs_are_drawn_in_time(world, page, server: "talker"):
    """Texts that make careless renderers take the square of their length; each has some seconds at most."""
    for name, text in {"brackets": "[" * 30000, "stars": "*a" * 20000, "ticks": "".join("`" * (i % 90) + "a" for i in range(3000)),
                       "quotes": ">" * 20000, "lists": "\n".join(" " * i + "- x" for i in range(400)), "pipes": "|a" * 20000 + "\n" + "|-" * 20000,
                       "links": "[a](" * 10000, "under": "_a __b " * 8000, "dollars": "$a" * 20000, "lines": "a\n" * 20000, "angles": "<" * 30000}.items():
        seconds = page.run("(() => { const begun = performance.now(); showMarkdown(document.createElement('div'), %s); return (performance.now() - begun) / 1000; })()"
                           % json.dumps(text))
        assert seconds < 10, f"{name}: {seconds:.1f} s"


def check_parts_of_a_stream_become_the_whole(world, page, server: "talker"):
    """Grown letter by letter, the nodes are those of the whole text; blocks that are done stay."""
    same = page.run("""(() => {
      const text = %s, grown = document.createElement("div"), whole = document.createElement("div");
      let first = null;
      for (let i = 1; i <= text.length; ++i) {
        showMarkdown(grown, text.slice(0, i));
        if (i === 400) first = grown.firstChild;
      }
      showMarkdown(whole, text);
      const plain = (box) => box.cloneNode(true);
      return [plain(grown).isEqualNode(plain(whole)), first === grown.firstChild];
    })()""" % json.dumps(TEXT))
    assert same == [True, True], same


def check_a_hostile_answer_is_text(world, page, server: "talker"):
    page.type("#input", "<img src=x onerror=alert(0)> **as typed** [x](javascript:alert(0))")
    page.enter()
    page.wait("[...store.chats.values()].some((chat) => pathOf(chat).at(-1).finish === 'stop')", "the answer ends")
    assert page.run(LOOK + ".foreign()") == []
    mine, answer = page.run("[...document.querySelectorAll('.message .content')].map((node) => node.textContent)")
    assert mine == "<img src=x onerror=alert(0)> **as typed** [x](javascript:alert(0))", mine
    for words in ["a_b_c and snake_case_names", "<img src=x onerror=alert(1)>", "<script>alert(2)</script>", "[click me](javascript:alert(3))",
                  "Picture: a picture", "[data](data:text/html,x)", "# x is no heading here", 'foo = "\\(bar\\)"']:
        assert words in answer, f"{words} is not in {answer}"
    assert page.run("[...document.querySelectorAll('#thread figure .language')].map((node) => node.textContent)") == ["python", "js"]
    assert page.run("document.querySelectorAll('#thread td br').length") == 1
    assert page.run("document.querySelectorAll('#thread h1, #thread h2').length") == 1
    assert page.run("document.querySelector('#thread math msqrt mfrac') !== null")
    page.click('[data-action="raw"]')
    raw = page.wait("document.querySelector('#thread pre.raw')?.textContent", "the raw view")
    assert raw.endswith(TEXT) and page.run("document.activeElement.dataset.action") == "raw", raw[-200:]
    page.click('[data-action="raw"]')
    assert page.run("document.querySelector('#thread pre.raw')") is None


def look():
    with open(__file__.rpartition("/")[0] + "/look.js", encoding="utf-8") as file:
        return file.read().rstrip().partition("\n")[2]


LOOK = look()
