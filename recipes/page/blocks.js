// Markdown's blocks: headings, lists, quotes, tables, fences (one still open runs to the end of what
// has come), formulas, paragraphs. Markup of HTML is text.
//
// An answer grows word by word: update() builds again only the blocks whose source has changed.

const kDepth = 12;  // of lists and quotes in each other; deeper ones are paragraphs

const kHeading = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const kRule = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})$/;
const kFence = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)$/;
const kItem = /^( *)([-+*]|\d{1,9}[.)])(?:( +)(.*)|)$/;
const kQuote = /^ {0,3}> ?/;
const kTableLine = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const kMathBegin = /^ {0,3}(\$\$|\\\[)/;

const isBlank = (line) => line === undefined || /^\s*$/.test(line);
const indentOf = (line) => /^ */.exec(line)[0].length;

function beginsBlock(line) {
  return kHeading.test(line) || kRule.test(line) || kFence.test(line) || kQuote.test(line) ||
      kMathBegin.test(line) || (kItem.test(line) && !/^ *\d*[^1\s][.)]/.test(line));
}

// Blocks of the lines: {begin, end, node()}, lines `begin` up to `end`.
function blocksOf(lines, depth = 0) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (isBlank(lines[i])) {
      ++i;
      continue;
    }
    const block = blockAt(lines, i, depth);
    blocks.push({begin: i, ...block});
    i = block.end;
  }
  return blocks;
}

function blockAt(lines, i, depth) {
  const line = lines[i];
  const fence = kFence.exec(line);
  if (fence) return fenceAt(lines, i, fence);
  const heading = kHeading.exec(line);
  if (heading) {
    const words = heading[2] || "";
    return {end: i + 1, node: () => el("h" + heading[1].length, {}, ...inlineNodes(words))};
  }
  if (kRule.test(line)) return {end: i + 1, node: () => el("hr")};
  const math = kMathBegin.exec(line);
  if (math) {
    const block = mathBlockAt(lines, i, math[1]);
    if (block) return block;
  }
  if (depth < kDepth && kQuote.test(line)) return quoteAt(lines, i, depth);
  if (depth < kDepth && kItem.test(line)) return listAt(lines, i, depth);
  if (isTable(lines, i)) return tableAt(lines, i);
  return paragraphAt(lines, i);
}

function fenceAt(lines, i, [, indent, mark, info]) {
  const closes = new RegExp("^ {0,3}" + (mark[0] === "`" ? "`" : "~") + "{" + mark.length + ",}\\s*$");
  let end = i + 1;
  while (end < lines.length && !closes.test(lines[end])) ++end;
  const strip = new RegExp("^ {0," + indent.length + "}");
  const code = lines.slice(i + 1, end).map((line) => line.replace(strip, "")).join("\n");
  const language = (/^[\w+#.-]+/.exec(info) || [""])[0];
  return {end: Math.min(end + 1, lines.length), node: () => codeNode(code, language)};
}

function codeNode(code, language) {
  const name = language || "code";
  const copy = el("button", {type: "button", "aria-label": "Copy this " + name,
                             on: {click: () => copyText(code, copy)}}, icon("copy"), "Copy");
  return el("figure", {class: "code"},
            el("figcaption", {}, el("span", {class: "language"}, name), copy),
            el("pre", {tabindex: "0", role: "group", "aria-label": "Text of this " + name},
               el("code", {}, ...highlighted(code, language))));
}

function quoteAt(lines, i, depth) {
  let end = i;
  const inner = [];
  for (; end < lines.length && !isBlank(lines[end]); ++end) {
    if (!kQuote.test(lines[end]) && beginsBlock(lines[end])) break;
    inner.push(lines[end].replace(kQuote, ""));
  }
  return {end, node: () => el("blockquote", {}, ...nodesOf(inner, depth + 1))};
}

// An item goes on with lines that are indented under its text, and with lazy ones.
function listAt(lines, i, depth) {
  const first = kItem.exec(lines[i]);
  const kind = (marker) => marker.slice(-1);
  const base = first[1].length;
  const items = [];
  let loose = false, end = i, blank = false;
  while (end < lines.length) {
    const line = lines[end].replace(/^\t+/, (tabs) => "    ".repeat(tabs.length));
    if (isBlank(line)) {
      blank = true;
      if (items.length) items.at(-1).lines.push("");
      ++end;
      continue;
    }
    const item = kItem.exec(line);
    if (item && Math.abs(item[1].length - base) < 2) {
      if (kind(item[2]) !== kind(first[2]) || kRule.test(line)) break;
      if (blank && items.length) loose = true;
      const gap = (item[3] || " ").length > 4 ? 1 : (item[3] || " ").length;
      items.push({width: item[1].length + item[2].length + gap,
                  lines: [" ".repeat((item[3] || " ").length - gap) + (item[4] || "")]});
    } else if (indentOf(line) >= base + 2) {
      if (blank && indentOf(line) < items.at(-1).width + 2) loose = true;
      items.at(-1).lines.push(line.slice(Math.min(indentOf(line), items.at(-1).width)));
    } else if (!blank && !beginsBlock(line)) {
      items.at(-1).lines.push(line.trimStart());
    } else {
      break;
    }
    blank = false;
    ++end;
  }
  while (isBlank(lines[end - 1])) --end;
  const ordered = /\d/.test(first[2]);
  const start = ordered && parseInt(first[2], 10) !== 1 ? parseInt(first[2], 10) : null;
  return {end, node: () => el(ordered ? "ol" : "ul", {start},
                              ...items.map((item) => itemNode(item.lines, loose, depth)))};
}

function itemNode(lines, loose, depth) {
  const task = /^\[([ xX])\] +/.exec(lines[0]);
  const inner = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
  const nodes = nodesOf(inner, depth + 1);
  const tight = loose ? nodes
      : nodes.flatMap((node) => node.tagName === "P" ? [...node.childNodes] : [node]);
  const box = task && (task[1] === " " ? "\u2610 " : "\u2611 ");
  return el("li", {}, box, ...tight);
}

function cellsOf(line) {
  const cells = [""];
  const row = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  for (let i = 0; i < row.length; ++i) {
    if (row[i] === "\\" && row[i + 1] === "|") cells[cells.length - 1] += row[++i];
    else if (row[i] === "|") cells.push("");
    else cells[cells.length - 1] += row[i];
  }
  return cells.map((cell) => cell.trim());
}

function isTable(lines, i) {
  const under = lines[i + 1];
  return lines[i].includes("|") && under !== undefined && kTableLine.test(under) &&
      cellsOf(lines[i]).length === cellsOf(under).length;
}

function tableAt(lines, i) {
  let end = i + 2;
  while (end < lines.length && !isBlank(lines[end]) && !beginsBlock(lines[end])) ++end;
  const sides = cellsOf(lines[i + 1]).map((cell) =>
      /^:-*:$/.test(cell) ? "center" : /:$/.test(cell) ? "right" : null);
  const row = (tag) => (line) => {
    const cells = cellsOf(line);
    return el("tr", {}, ...sides.map((side, c) =>
        el(tag, {class: side, scope: tag === "th" ? "col" : null}, ...inlineNodes(cells[c] || ""))));
  };
  return {end, node: () => el("div", {class: "table", tabindex: "0", role: "group", "aria-label": "Table"},
                              el("table", {}, el("thead", {}, row("th")(lines[i])),
                                 el("tbody", {}, ...lines.slice(i + 2, end).map(row("td")))))};
}

function paragraphAt(lines, i) {
  let end = i + 1;
  while (end < lines.length && !isBlank(lines[end])) {
    const under = /^ {0,3}(=+|-+)[ \t]*$/.exec(lines[end]);
    if (under && (under[1][0] === "=" || under[1].length > 1)) {
      const words = lines.slice(i, end).join("\n");
      const tag = under[1][0] === "=" ? "h1" : "h2";
      return {end: end + 1, node: () => el(tag, {}, ...inlineNodes(words))};
    }
    if (beginsBlock(lines[end]) || isTable(lines, end)) break;
    ++end;
  }
  const words = lines.slice(i, end).map((line) => line.replace(/^ +/, "")).join("\n");
  return {end, node: () => el("p", {}, ...inlineNodes(words))};
}

function nodesOf(lines, depth) { return blocksOf(lines, depth).map((block) => block.node()); }

// Makes `box` show the text; nodes of equal source stay.
function showMarkdown(box, text) {
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const old = box.sources || [];
  const blocks = blocksOf(lines);
  const sources = blocks.map((block) => lines.slice(block.begin, block.end).join("\n"));
  let same = 0;
  while (same < old.length && old[same] === sources[same]) ++same;
  while (box.childNodes.length > same) box.lastChild.remove();
  for (const block of blocks.slice(same)) box.append(block.node());
  box.sources = sources;
}
