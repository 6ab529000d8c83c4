// The page as a whole: what is asked first, colours, keys of the keyboard.

const kShortcuts = [
  ["Enter", "Send"], ["Shift + Enter", "New line"], ["Esc", "Stop the answer; close what is open"],
  ["\u2191 in an empty box", "Edit your last message"], ["Ctrl + Enter", "Send an edited message"],
  ["Ctrl + K", "Search chats"], ["Ctrl + Shift + O", "New chat"], ["Ctrl + ,", "Settings and memory"], ["Ctrl + /", "This list"],
];

const kThemes = {auto: "as the system", light: "light", dark: "dark"};

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setIcon($("theme"), "theme", `Colours: ${kThemes[theme]}`);
}

function nextTheme() {
  const names = Object.keys(kThemes);
  const theme = names[(names.indexOf(settingOf("theme", "auto")) + 1) % names.length] || "auto";
  keepSetting("theme", theme);
  showTheme(theme);
  announce(`Colours: ${kThemes[theme]}`);
}

function askKey() {
  if ($("key").open) return;
  $("key-input").value = "";
  $("key").showModal();
}

async function takeKey() {
  useKey($("key-input").value.trim());
  await meetServer();
  focusInput();
}

function showServer() {
  $("model").textContent = server.known ? `${server.model} \u00b7 context ${countText(server.context)}` : "";
  $("base-note").hidden = server.chat;
  $("base-note").textContent = "Base model, continuing text: it has no chat template. What you write is continued as it stands.";
  $("input").placeholder = server.chat ? "Message" : "A text to be continued";
  $("input-label").textContent = $("input").placeholder;
  $("empty-title").textContent = server.chat ? "Ask something" : "Begin a text";
  $("empty-text").textContent = server.chat
      ? "Answers come from the model on this machine, and chats stay in this browser."
      : "This is a base model, continuing text: it goes on from what you write, on this machine.";
  showIdeas();
}

const kIdeas = ["What is a trireme?", "Reverse a string in Python", "Explain gravity to a child"];
const kBeginnings = ["In the beginning", "Once upon a time", "The sea was calm, and"];

// What a newcomer may begin with: put into the box, to be sent or changed.
function showIdeas() {
  $("ideas").replaceChildren(...(server.chat ? kIdeas : kBeginnings).map((text) => el("li", {}, el("button", {
    type: "button", on: {click: () => {
      $("input").value = text;
      fitInput();
      $("input").focus();
    }}}, text))));
}

let meetTimer = 0;
// Asks what is served; while a model is being loaded, again and again.
async function meetServer() {
  clearTimeout(meetTimer);
  try {
    await askProps();
    showServer();
    showSettings();
    showThread();
    showGauge();
  } catch (error) {
    $("model").textContent = error.message;
    if (error.status === 401) askKey();
    else meetTimer = setTimeout(meetServer, 1000 * (error.wait ?? 2));
  }
}

function escapePressed() {
  if (!$("panel").hidden && matchMedia("(max-width: 1080px)").matches) showPanel(false);
  else if (isNarrow() && !document.body.classList.contains("no-side")) showSide(false);
  else if (runs.has(view.chat.id)) stopAnswer(view.chat);
  else focusInput();
}

function keyPressed(event) {
  if (document.querySelector("dialog[open]")) return;
  const command = event.ctrlKey || event.metaKey;
  const call = event.key === "Escape" ? escapePressed
      : command && event.shiftKey && event.key.toLowerCase() === "o" ? beginChat
      : command && !event.shiftKey && event.key.toLowerCase() === "k" ? () => { showSide(true); $("search").focus(); }
      : command && event.key === "," ? () => showPanel($("panel").hidden)
      : command && event.key === "/" ? () => $("help").showModal()
      : null;
  if (!call) return;
  event.preventDefault();
  call();
}

function connectButtons() {
  const click = (id, call) => $(id).addEventListener("click", call);
  click("new-chat", beginChat);
  click("side-open", () => showSide(document.body.classList.contains("no-side")));
  click("side-close", () => showSide(false));
  click("veil", () => { if (isNarrow()) showSide(false); if (!$("panel").hidden) showPanel(false); });
  click("theme", nextTheme);
  click("help-open", () => $("help").showModal());
  click("panel-open", () => showPanel($("panel").hidden));
  click("panel-close", () => showPanel(false));
  click("to-end", toEnd);
  click("import", () => $("import-file").click());
  click("export-all", () => exportChats([...store.chats.values()], "trireme chats"));
  click("delete-all", deleteAll);
  click("set-key", askKey);
  click("key-cancel", () => $("key").close());
  click("reset", () => setSampling({}));
  click("keep", () => {
    store.defaults = {system: view.chat.system, sampling: {...view.chat.sampling}};
    keepSetting("defaults", store.defaults);
    toast("New chats begin with these settings.");
  });
  for (const name of Object.keys(kPresets)) click("preset-" + name, () => setSampling(kPresets[name]));
  $("import-file").addEventListener("change", (event) => {
    if (event.target.files[0]) importFile(event.target.files[0]);
    event.target.value = "";
  });
  $("search").addEventListener("input", showChats);
  $("system").addEventListener("input", () => { view.chat.system = $("system").value; keepOpenChat(); });
  $("key-form").addEventListener("submit", takeKey);
  $("scroll").addEventListener("scroll", () => { $("to-end").hidden = atEnd(); }, {passive: true});
  addEventListener("keydown", keyPressed);
  addEventListener("resize", showVeil);
  addEventListener("focus", takeNews);
  addEventListener("pagehide", () => { for (const id of runs.keys()) keepChat(store.chats.get(id)); });
}

async function startPage() {
  showTheme(settingOf("theme", "auto"));
  try {
    server.key = sessionStorage.getItem("trireme.key") || "";
  } catch { /* none */ }
  view.chat = newChat();
  for (const button of document.querySelectorAll("button.icon, button.round")) button.title ||= button.ariaLabel;
  makeControls();
  connectButtons();
  startComposer();
  $("shortcuts").replaceChildren(...kShortcuts.flatMap(([keys, does]) => [el("dt", {}, keys), el("dd", {}, does)]));
  showSide(!isNarrow() && settingOf("side", true));
  await openStore();
  for (const chat of store.chats.values())
    for (const node of Object.values(chat.nodes)) if (node.role === "assistant" && !node.finish) node.finish = "stopped";
  const newest = [...store.chats.values()].sort((a, b) => b.updated - a.updated)[0];
  openChat(newest && Date.now() - newest.updated < 3600e3 ? newest : newChat(store.defaults));
  await meetServer();
  document.documentElement.dataset.ready = "true";
}

startPage();
