// A chat is a tree: every message has the answers that were given to it, in order, and which of them
// is shown. Editing and asking again add a sibling; nothing that was said is lost. The path from the
// root along the shown ones is what is read, and what the model is sent.
//
// A node: {id, parent (null: a root), role: "user" | "assistant", text, children: [ids], shown, at};
// of a user: files: [{name, text}]; of an answer: model, settings, stats, finish ("stop", "length",
// "stopped", "edited"), problem.

const newId = () => [...crypto.getRandomValues(new Uint32Array(3))].map((n) => n.toString(36)).join("");

function newChat(defaults = {}) {
  const now = Date.now();
  return {id: newId(), title: "", named: false, created: now, updated: now,
          system: defaults.system || "", sampling: {...defaults.sampling}, nodes: {}, roots: [], shown: 0};
}

const siblingsOf = (chat, node) => node.parent === null ? chat.roots : chat.nodes[node.parent].children;
const shownIndex = (chat, parent) => parent === null ? chat.shown : chat.nodes[parent].shown;

function showIndex(chat, parent, index) {
  if (parent === null) chat.shown = index;
  else chat.nodes[parent].shown = index;
}

// A new node behind `parent`, shown.
function addNode(chat, parent, role, text, more = {}) {
  const node = {id: newId(), parent, role, text, children: [], shown: 0, at: Date.now(), ...more};
  chat.nodes[node.id] = node;
  const siblings = parent === null ? chat.roots : chat.nodes[parent].children;
  siblings.push(node.id);
  showIndex(chat, parent, siblings.length - 1);
  return node;
}

function pathOf(chat) {
  const path = [];
  let ids = chat.roots, shown = chat.shown;
  while (ids.length) {
    const node = chat.nodes[ids[shown]];
    path.push(node);
    ids = node.children;
    shown = node.shown;
  }
  return path;
}

// From the root to that node, whatever is shown.
function pathTo(chat, node) {
  const path = [];
  for (let at = node; at; at = at.parent === null ? null : chat.nodes[at.parent]) path.unshift(at);
  return path;
}

function fenceFor(text) {
  let fence = "```";
  while (text.includes(fence)) fence += "`";
  return fence;
}

// What the model reads of a message: its text, and its files behind it.
function contentOf(node) {
  const files = (node.files || []).map(({name, text}) => {
    const fence = fenceFor(text);
    return `${name}:\n${fence}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
  });
  return [node.text, ...files].filter((part) => part !== "").join("\n\n");
}

function messagesOf(chat, path) {
  const messages = chat.system.trim() ? [{role: "system", content: chat.system}] : [];
  return messages.concat(path.map((node) => ({role: node.role, content: contentOf(node)})));
}

function titleOf(chat) {
  if (chat.title) return chat.title;
  const first = chat.roots.length ? chat.nodes[chat.roots[0]] : null;
  const line = first && (first.text.trim().split("\n")[0] || (first.files?.[0]?.name ?? ""));
  return line ? (line.length > 60 ? line.slice(0, 57) + "\u2026" : line) : "New chat";
}

function holdsWords(chat, words) {
  const wanted = words.toLowerCase();
  return titleOf(chat).toLowerCase().includes(wanted) || chat.system.toLowerCase().includes(wanted) ||
      Object.values(chat.nodes).some((node) => node.text.toLowerCase().includes(wanted));
}

// Chats of a file, checked and rebuilt from what they may hold; throws a sentence.
function chatsOfFile(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("This is no JSON.");
  }
  if (file?.format !== "trireme-chats" || file.version !== 1 || !Array.isArray(file.chats))
    throw new Error("This is no file of chats: \"format\": \"trireme-chats\", \"version\": 1 are expected.");
  return file.chats.map(readChat);
}

const fileOf = (chats) => JSON.stringify({format: "trireme-chats", version: 1, exported: new Date().toISOString(), chats}, null, 1);

const asText = (value, otherwise = "") => typeof value === "string" ? value : otherwise;
const asNumber = (value, otherwise = 0) => Number.isFinite(value) ? value : otherwise;
const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isName = (value) => typeof value === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(value) && value !== "__proto__";

function readChat(raw, number) {
  const wrong = (what) => new Error(`Chat ${number + 1} of the file is damaged: ${what}.`);
  if (!isRecord(raw) || !isName(raw.id) || !isRecord(raw.nodes) || !Array.isArray(raw.roots)) throw wrong("it has no id, nodes or roots");
  const chat = {...newChat(), id: raw.id, title: asText(raw.title).slice(0, 200), named: raw.named === true,
                created: asNumber(raw.created, Date.now()), updated: asNumber(raw.updated, Date.now()),
                system: asText(raw.system), sampling: readSampling(raw.sampling)};
  const take = (ids, parent) => {
    for (const id of ids) {
      const from = isName(id) && Object.hasOwn(raw.nodes, id) ? raw.nodes[id] : null;
      if (!isRecord(from) || Object.hasOwn(chat.nodes, id) || !Array.isArray(from.children)) throw wrong(`message ${String(id).slice(0, 64)} is missing, or there twice`);
      chat.nodes[id] = readNode(from, id, parent);
      pending.push([from.children, id]);
    }
    return [...ids];
  };
  const pending = [];
  chat.roots = take(raw.roots, null);
  while (pending.length) {
    const [ids, parent] = pending.pop();
    chat.nodes[parent].children = take(ids, parent);
  }
  const within = (shown, ids) => Math.max(0, Math.min(Math.trunc(asNumber(shown)), ids.length - 1));
  chat.shown = within(raw.shown, chat.roots);
  for (const node of Object.values(chat.nodes)) node.shown = within(raw.nodes[node.id].shown, node.children);
  return chat;
}

function readNode(from, id, parent) {
  const node = {id, parent, role: from.role === "assistant" ? "assistant" : "user", text: asText(from.text),
                children: [], shown: 0, at: asNumber(from.at, Date.now())};
  if (Array.isArray(from.files))
    node.files = from.files.filter(isRecord).map((file) => ({name: asText(file.name, "file").slice(0, 200), text: asText(file.text)}));
  if (node.role === "user") return node;
  node.model = asText(from.model);
  node.finish = asText(from.finish, "stopped");
  node.settings = readSampling(from.settings);
  if (isRecord(from.stats)) {
    node.stats = {};
    for (const name of ["tokens", "prompt", "used", "seconds", "first", "rate"]) node.stats[name] = asNumber(from.stats[name]);
    node.stats.exact = from.stats.exact === true;
  }
  return node;
}

function readSampling(from) {
  const sampling = {};
  for (const {name} of kControls)
    if (isRecord(from) && Number.isFinite(from[name])) sampling[name] = from[name];
  return sampling;
}
