// The inside of a paragraph: code, emphasis, links, line ends. The rules of CommonMark 0.31 for
// runs of * and _ (so a_b_c stays itself), and GitHub's ~~. What is not understood is text.
// Links are followed to http and https alone; pictures become links: nothing is loaded.

const kLabelLimit = 2000;  // characters of a link's text

function inlineNodes(text) {
  const nodes = [];
  const runs = [];  // of * _ ~: {node, char, count, opens, closes}
  const noCode = new Set();  // lengths of backtick runs that nothing closes
  let plain = "";
  const flush = () => {
    if (plain) nodes.push(document.createTextNode(plain));
    plain = "";
  };
  const add = (node) => {
    flush();
    nodes.push(node);
  };
  for (let i = 0; i < text.length;) {
    const c = text[i];
    const found = c === "`" ? codeAt(text, i, noCode)
        : c === "\\" || c === "$" ? escapeAt(text, i)
        : c === "<" ? angleAt(text, i)
        : c === "[" || (c === "!" && text[i + 1] === "[") ? linkAt(text, i)
        : c === "h" ? bareLinkAt(text, i)
        : c === "\n" ? {node: el("br"), end: i + 1}
        : null;
    if (found) {
      if (found.node) add(found.node);
      else plain += found.text;
      i = found.end;
    } else if (c === "*" || c === "_" || c === "~") {
      const run = runAt(text, i);
      add(run.node);
      runs.push({...run, at: nodes.length - 1});
      i += run.count;
    } else {
      plain += c === " " && /^ +\n/.test(text.slice(i, i + 40)) ? "" : c;
      ++i;
    }
  }
  flush();
  return joinRuns(nodes, runs);
}

function codeAt(text, i, noCode) {
  const mark = /^`+/.exec(text.slice(i, i + 100))[0];
  if (!noCode.has(mark.length)) {
    for (let j = i + mark.length; (j = text.indexOf(mark, j)) >= 0;) {
      let end = j;
      while (text[end] === "`") ++end;
      if (end - j === mark.length) {
        let code = text.slice(i + mark.length, j).replaceAll("\n", " ");
        if (/^ .*[^ ].* $/.test(code)) code = code.slice(1, -1);
        return {node: el("code", {}, code), end};
      }
      j = end;
    }
    noCode.add(mark.length);
  }
  return {text: mark, end: i + mark.length};
}

// \( \[ $ begin mathematics; \* is a star.
function escapeAt(text, i) {
  const math = mathAt(text, i);
  if (math) return math;
  if (text[i] === "\\" && text[i + 1] === "\n") return {node: el("br"), end: i + 2};
  if (text[i] === "\\" && /[!-/:-@[-`{-~]/.test(text[i + 1] || ""))
    return {text: text[i + 1], end: i + 2};
  return {text: text[i], end: i + 1};
}

function angleAt(text, i) {
  const rest = text.slice(i, i + kLabelLimit);
  const end = /^<br\s*\/?>/i.exec(rest);
  if (end) return {node: el("br"), end: i + end[0].length};
  const auto = /^<(https?:\/\/[^\s<>]+)>/.exec(rest);
  const node = auto && linkNode(auto[1], [auto[1]]);
  return node ? {node, end: i + auto[0].length} : {text: "<", end: i + 1};
}

// Null for anything but a whole address of http or https.
function linkNode(address, children) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return null;
  return el("a", {href: url.href, target: "_blank", rel: "noopener noreferrer nofollow"},
            ...children);
}

function bareLinkAt(text, i) {
  if (i > 0 && /\w/.test(text[i - 1])) return null;
  const match = /^https?:\/\/[^\s<>"'`*[\]{}|\\^]+/.exec(text.slice(i, i + kLabelLimit));
  if (!match) return null;
  let address = match[0].replace(/[.,;:!?_~]+$/, "");
  while (address.endsWith(")") && address.split(")").length > address.split("(").length)
    address = address.slice(0, -1).replace(/[.,;:!?]+$/, "");
  const node = linkNode(address, [address]);
  return node && {node, end: i + address.length};
}

// [text](address "title"), ![text](address).
function linkAt(text, i) {
  const picture = text[i] === "!";
  const open = picture ? i + 1 : i;
  const plain = {text: text.slice(i, open + 1), end: open + 1};
  let depth = 0, close = open;
  const limit = Math.min(text.length, open + kLabelLimit);
  for (; close < limit; ++close) {
    if (text[close] === "\\") ++close;
    else if (text[close] === "[") ++depth;
    else if (text[close] === "]" && --depth === 0) break;
  }
  if (close >= limit || text[close + 1] !== "(") return plain;
  const target = /^\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/
      .exec(text.slice(close + 1, close + 1 + kLabelLimit));
  if (!target) return plain;
  const label = text.slice(open + 1, close);
  const children = picture ? ["Picture: " + (label || "without a name")] : inlineNodes(label);
  const node = linkNode((target[1] ?? target[2]).replace(/\\([!-/:-@[-`{-~])/g, "$1"), children);
  if (!node || node.querySelector("a")) return plain;
  return {node, end: close + 1 + target[0].length};
}

const isSpace = (c) => c === undefined || /\s/.test(c);
const isMark = (c) => c !== undefined && /[\p{P}\p{S}]/u.test(c);

function runAt(text, i) {
  let count = 1;
  const char = text[i];
  while (text[i + count] === char) ++count;
  const before = text[i - 1], after = text[i + count];
  const left = !isSpace(after) && (!isMark(after) || isSpace(before) || isMark(before));
  const right = !isSpace(before) && (!isMark(before) || isSpace(after) || isMark(after));
  const bound = char === "_";
  return {
    node: document.createTextNode(text.slice(i, i + count)), char, count, original: count,
    opens: (char !== "~" || count === 2) && left && (!bound || !right || isMark(before)),
    closes: (char !== "~" || count === 2) && right && (!bound || !left || isMark(after)),
  };
}

// The algorithm of CommonMark's appendix, on an array: `nodes` with holes where runs were used up.
function joinRuns(nodes, runs) {
  const floor = new Map();  // below which no opener is for such a closer
  for (let c = 0; c < runs.length; ++c) {
    const closer = runs[c];
    while (closer.closes && closer.count > 0) {
      const key = closer.char + (closer.original % 3) + closer.opens;
      let o = c - 1;
      for (; o >= (floor.get(key) ?? 0); --o) {
        const opener = runs[o];
        if (!opener.opens || opener.count === 0 || opener.char !== closer.char) continue;
        const odd = (opener.closes || closer.opens) &&
            (opener.original + closer.original) % 3 === 0 &&
            (opener.original % 3 !== 0 || closer.original % 3 !== 0);
        if (!odd) break;
      }
      if (o < (floor.get(key) ?? 0)) {
        floor.set(key, c);
        break;
      }
      wrapRun(nodes, runs[o], closer);
      for (let k = o + 1; k < c; ++k) runs[k].opens = runs[k].closes = false;
    }
  }
  return nodes.filter((node) => node !== null);
}

function wrapRun(nodes, opener, closer) {
  const used = closer.char === "~" || (opener.count >= 2 && closer.count >= 2) ? 2 : 1;
  const tag = closer.char === "~" ? "del" : used === 2 ? "strong" : "em";
  const inner = nodes.slice(opener.at + 1, closer.at).filter((node) => node !== null);
  nodes.fill(null, opener.at + 1, closer.at);
  const joined = el(tag, {}, ...inner);
  for (const run of [opener, closer]) {
    run.count -= used;
    run.node.data = run.char.repeat(run.count);
  }
  // It stands in the hole behind its opener; there is one, as something is between the two.
  nodes[opener.at + 1] = joined;
}
