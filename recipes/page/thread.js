// The path of the open chat as articles. It is built anew when its structure changes; while an
// answer comes only that answer is.

const view = {chat: null, articles: new Map(), raw: new Set(), editing: null};

const kFinish = {stop: "ended by itself", length: "ended at the most tokens", stopped: "stopped", edited: "edited by you"};

function showThread(chat = view.chat, focus = null) {
  if (chat !== view.chat) return;
  const path = pathOf(chat);
  const stuck = atEnd();
  view.articles.clear();
  $("thread").replaceChildren(...path.map((node, i) => articleOf(chat, node, i, path.length)));
  $("empty").hidden = path.length > 0;
  $("thread").hidden = path.length === 0;
  $("title").textContent = titleOf(chat);
  document.title = path.length ? titleOf(chat) + " - Trireme" : "Trireme";
  showRunning();
  if (stuck) toEnd();
  if (focus) $("thread").querySelector(`[data-node="${focus.id}"] [data-action="${focus.action}"]`)?.focus();
}

function showRunning() {
  const run = runs.get(view.chat.id);
  const hadFocus = [$("send"), $("stop")].includes(document.activeElement);
  $("stop").hidden = !run;
  $("send").hidden = Boolean(run);
  if (hadFocus) (run ? $("stop") : $("send")).focus();
  $("hint").textContent = run ? "" : isTouch() ? "" : "Enter sends";
  $("thread").setAttribute("aria-busy", String(Boolean(run)));
}

function articleOf(chat, node, index, count) {
  const user = node.role === "user";
  const siblings = siblingsOf(chat, node);
  const at = siblings.indexOf(node.id);
  const which = siblings.length > 1 ? `, ${at + 1} of ${siblings.length}` : "";
  const name = user ? (server.chat ? "You" : "Your text") : (node.model || (server.chat ? "Answer" : "Continuation"));
  const content = el("div", {class: "content"});
  const article = el("article", {class: "message " + node.role, "data-node": node.id, "aria-label": `${name}, message ${index + 1}${which}`},
                     el("div", {class: user ? "unseen" : "who"}, name), content);
  view.articles.set(node.id, {article, content});
  if (view.editing === node.id) {
    content.classList.add("wide");
    content.append(editorOf(chat, node));
    return article;
  }
  if (user) {
    content.append(node.text);
    if (node.files?.length) content.append(filesOf(node.files));
  } else {
    drawContent(chat, node, content);
  }
  if (node.problem) article.append(problemCard(chat, node));
  const busy = runs.get(chat.id);
  if (!busy || busy.node !== node) article.append(actionsOf(chat, node, {index, last: index + 1 === count, busy, at, siblings}));
  else article.append(el("div", {class: "bar-row"}, statsOf(node)));
  return article;
}

const filesOf = (files) => el("ul", {class: "attached", "aria-label": "Attached files"}, ...files.map(({name, text}) =>
    el("li", {}, el("details", {}, el("summary", {}, icon("file"), name), el("pre", {}, text)))));

function drawContent(chat, node, content) {
  const raw = view.raw.has(node.id);
  const kind = raw ? "raw" : server.chat ? "markdown" : "plain";
  if (content.dataset.kind !== kind) {
    content.replaceChildren();
    content.sources = [];
    content.dataset.kind = kind;
    content.className = "content " + (raw ? "" : kind);
  }
  if (kind === "markdown") showMarkdown(content, node.text);
  else content.replaceChildren(raw ? el("pre", {class: "raw"}, node.text) : node.text);
  content.classList.toggle("waiting", runs.get(chat.id)?.node === node);
}

// While it comes.
function drawAnswer(chat, node) {
  const shown = chat === view.chat && view.articles.get(node.id);
  if (!shown || runs.get(chat.id)?.node !== node) return;
  const stuck = atEnd();
  drawContent(chat, node, shown.content);
  shown.article.querySelector(".stats")?.replaceWith(statsOf(node));
  const run = runs.get(chat.id);
  if (run.prompt) drawGauge(run.prompt + run.before + run.tokens);
  if (stuck) toEnd();
}

function rateText(stats) {
  const parts = [`${stats.exact ? "" : "~"}${countText(stats.tokens)} token${stats.tokens === 1 ? "" : "s"}`];
  if (stats.rate) parts.push(`${stats.rate.toFixed(stats.rate < 100 ? 1 : 0)} tokens/s`);
  return parts.join(", ");
}

function statsOf(node) {
  const stats = node.stats;
  const run = runs.get(view.chat.id);
  if (run?.node === node) {
    const waited = Math.floor((performance.now() - run.begun) / 1000);
    return el("span", {class: "stats"}, run.tokens ? rateText(stats) : "Reading the prompt\u2026" + (waited ? ` ${waited} s` : ""));
  }
  const told = [["Model", node.model || "unknown"], ["Prompt", stats.prompt ? countText(stats.prompt) + " tokens" : "not told"],
                ["Answer", rateText(stats)], ["First token", stats.first ? stats.first.toFixed(2) + " s" : "-"],
                ["End", kFinish[node.finish] || node.finish || "-"],
                ["Settings", Object.entries(node.settings || {}).map(([name, value]) => `${name} ${value}`).join(", ") || "the server's defaults"]];
  return el("details", {class: "stats"}, el("summary", {}, rateText(stats)),
            el("dl", {}, ...told.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

function actionsOf(chat, node, {index, last, busy, at, siblings}) {
  const user = node.role === "user", number = index + 1;
  const what = user ? "message" : "answer";
  const mark = (name, button) => {
    button.dataset.action = name;
    return button;
  };
  const copy = mark("copy", iconButton("copy", `Copy ${what} ${number}`, () => copyText(contentOf(node), copy)));
  const bar = el("div", {class: "bar-row"});
  if (siblings.length > 1) bar.append(branchesOf(chat, node, at, siblings, mark, busy));
  if (node.problem && !node.text) return bar;  // its card has what can be done
  bar.append(copy);
  if (!busy) bar.append(mark("edit", iconButton("edit", `Edit ${what} ${number}`, () => beginEdit(chat, node))));
  if (user) return bar;
  const shown = view.raw.has(node.id);
  bar.append(mark("raw", iconButton("raw", `Show ${what} ${number} as written`, () => {
    shown ? view.raw.delete(node.id) : view.raw.add(node.id);
    showThread(chat, {id: node.id, action: "raw"});
  }, {"aria-pressed": String(shown)})));
  if (!busy) {
    bar.append(mark("again", iconButton("again", `Answer ${number} again`, () => answerBehind(chat, node.parent))));
    if (last && node.finish !== "stop" && node.text)
      bar.append(mark("on", iconButton("on", `Continue answer ${number}`, () => answerInto(chat, node))));
    else if (last && !server.chat)
      bar.append(mark("on", iconButton("on", "Continue this text", () => answerInto(chat, node))));
  }
  if (node.stats?.tokens) bar.append(statsOf(node));
  return bar;
}

function branchesOf(chat, node, at, siblings, mark, busy) {
  const go = (by, action) => () => {
    const to = at + by;
    if (to < 0 || to >= siblings.length || runs.has(chat.id)) return;
    showIndex(chat, node.parent, to);
    keepChat(chat);
    showThread(chat, {id: siblings[to], action});
    showGauge();
    announce(`Branch ${to + 1} of ${siblings.length}`);
  };
  const off = (edge) => edge || busy ? "true" : null;
  return el("span", {class: "branch", role: "group", "aria-label": "Branches"},
            mark("left", iconButton("left", "Earlier branch", go(-1, "left"), {"aria-disabled": off(at === 0)})),
            `${at + 1}/${siblings.length}`,
            mark("right", iconButton("right", "Later branch", go(1, "right"), {"aria-disabled": off(at + 1 === siblings.length)})));
}

function problemCard(chat, node) {
  const {status, sentence, code, wait} = node.problem;
  const busy = status === 429 || status === 503;
  const title = busy ? "The server is busy" : status === 401 ? "A key is needed" : code === "context_length_exceeded" ? "The chat is too long for this model" : "No answer";
  const retry = el("button", {type: "button", "data-action": "retry", on: {click: () => answerInto(chat, node)}}, icon("again"), "Retry");
  return el("div", {class: "problem"}, el("strong", {}, title), el("div", {}, sentence.charAt(0).toUpperCase() + sentence.slice(1)),
            wait !== null ? el("div", {class: "quiet"}, `It asks to wait ${wait} second${wait === 1 ? "" : "s"}.`) : null,
            el("div", {class: "row"}, retry,
               status === 401 ? el("button", {type: "button", on: {click: askKey}}, "Enter a key") : null));
}

function beginEdit(chat, node) {
  view.editing = node.id;
  showThread(chat);
  const area = $("thread").querySelector(".editor textarea");
  area.focus();
  area.setSelectionRange(area.value.length, area.value.length);
}

function editorOf(chat, node) {
  const user = node.role === "user";
  const area = el("textarea", {"aria-label": "Text of this message", rows: String(Math.min(16, node.text.split("\n").length + 2))});
  area.value = node.text;
  const close = () => {
    view.editing = null;
    showThread(chat, {id: node.id, action: "edit"});
  };
  const save = () => {
    view.editing = null;
    const text = area.value;
    if (user && !text.trim() && !node.files?.length) return close();
    if (user) {
      sendMessage(chat, node.parent, text, node.files || []);
    } else {
      addNode(chat, node.parent, "assistant", text, {model: node.model, settings: node.settings, finish: "edited", stats: {tokens: 0}});
      keepChat(chat);
      showThread(chat);
    }
    $("input").focus();
  };
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return el("div", {class: "editor"}, area, el("div", {class: "row"},
      el("button", {type: "button", on: {click: close}}, "Cancel"),
      el("button", {type: "button", class: "main", on: {click: save}}, user ? "Send" : "Save")));
}

const atEnd = () => $("scroll").scrollHeight - $("scroll").scrollTop - $("scroll").clientHeight < 80;

function toEnd() {
  $("scroll").scrollTop = $("scroll").scrollHeight;
  $("to-end").hidden = true;
}
