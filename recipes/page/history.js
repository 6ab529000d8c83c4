// The list of chats: newest first, searched by what they say; each can be opened, renamed, exported
// and deleted.

function showChats() {
  const words = $("search").value.trim();
  const all = [...store.chats.values()].sort((a, b) => b.updated - a.updated);
  const found = words ? all.filter((chat) => holdsWords(chat, words)) : all;
  const open = document.activeElement?.closest?.("#chats li")?.dataset.chat;
  const action = document.activeElement?.dataset?.action;
  $("chats").replaceChildren(...found.map(chatItem));
  if (open) $("chats").querySelector(`[data-chat="${open}"] [data-action="${action}"]`)?.focus();
  $("no-chats").hidden = found.length > 0;
  $("no-chats").textContent = words ? "No chat says that." : "No chats yet.";
}

function chatItem(chat) {
  const title = titleOf(chat);
  const current = chat.id === view.chat.id;
  const button = (name, label, action, call) => iconButton(name, `${label} \u201c${title}\u201d`, call, {"data-action": action});
  return el("li", {class: current ? "current" : null, "data-chat": chat.id},
            el("button", {class: "open", type: "button", "data-action": "open", "aria-current": current ? "true" : null,
                          on: {click: () => openChat(chat)}}, el("span", {}, title)),
            button("edit", "Rename", "rename", () => renameChat(chat)),
            button("down", "Export", "export", () => exportChats([chat], title)),
            button("bin", "Delete", "delete", () => deleteChat(chat)));
}

// Another tab may have said something meanwhile.
async function takeNews() {
  if (!store.database || view.editing) return;
  await readChats();
  const chat = store.chats.get(view.chat.id);
  if (chat && chat !== view.chat) {
    view.chat = chat;
    showThread(chat);
    showSettings();
    showGauge();
  }
  showChats();
}

function openChat(chat, keepSide = false) {
  view.chat = chat;
  view.editing = null;
  showThread(chat);
  toEnd();
  showChats();
  showSettings();
  showGauge();
  if (isNarrow() && !keepSide) showSide(false);
  if (!keepSide) focusInput();
}

// An empty one, kept when something is said in it.
function beginChat() {
  openChat(newChat(store.defaults));
  announce("New chat");
}

async function renameChat(chat) {
  const title = await askUser({title: "Rename this chat", ok: "Rename", value: titleOf(chat)});
  if (!title) return;
  Object.assign(chat, {title, named: true});
  await keepChat(chat);
  showChats();
  showThread(chat === view.chat ? chat : view.chat);
}

async function deleteChat(chat) {
  stopAnswer(chat);
  await forgetChat(chat.id);
  if (chat.id === view.chat.id) openChat(newChat(store.defaults), true);
  else showChats();
  if (!isTouch()) $("search").focus();
  toast(`Deleted \u201c${titleOf(chat)}\u201d.`, "Undo", async () => {
    await keepChat(chat);
    openChat(chat);
  });
}

async function deleteAll() {
  const count = store.chats.size;
  if (await askUser({title: "Delete all chats?", text: `${count} chat${count === 1 ? "" : "s"} of this browser would be gone.`, ok: "Delete all"}) === null) return;
  for (const chat of [...store.chats.values()]) {
    stopAnswer(chat);
    await forgetChat(chat.id);
  }
  beginChat();
}

function exportChats(chats, title) {
  const name = title.replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 50) || "chat";
  download(name + ".json", fileOf(chats));
}

async function importFile(file) {
  try {
    const chats = chatsOfFile(await file.text());
    const taken = await importChats(chats);
    toast(`${taken} of ${chats.length} chats taken in${taken < chats.length ? "; the others are here already" : ""}.`);
    if (taken) openChat(store.chats.get(chats.at(-1).id) || view.chat);
  } catch (error) {
    toast(`${file.name}: ${error.message}`);
  }
}

function showSide(shown) {
  document.body.classList.toggle("no-side", !shown);
  $("side-open").setAttribute("aria-expanded", String(shown));
  showVeil();
  if (!isNarrow()) keepSetting("side", shown);
}

function showVeil() {
  const side = isNarrow() && !document.body.classList.contains("no-side");
  const panel = matchMedia("(max-width: 1080px)").matches && !$("panel").hidden;
  $("veil").hidden = !side && !panel;
}
