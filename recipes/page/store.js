// Chats in this browser: IndexedDB, one record a chat; small settings in localStorage. Where a
// browser keeps nothing (private windows of some), chats live until the page is closed, and that is
// said.

const store = {
  chats: new Map(),  // by id
  database: null,
  defaults: {},      // of new chats: {system, sampling}
  unkept: new Set(), // ids of chats that found no room
};

const request = (asked) => new Promise((resolve, reject) => {
  asked.onsuccess = () => resolve(asked.result);
  asked.onerror = () => reject(asked.error);
});

async function openStore() {
  store.defaults = settingOf("defaults", {});
  try {
    const asked = indexedDB.open("trireme", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore("chats", {keyPath: "id"});
    store.database = await request(asked);
    store.database.onversionchange = () => store.database.close();
    await readChats();
  } catch {
    store.database = null;
    toast("This browser keeps no chats here: they are gone when the page is closed. Export what you need.");
  }
}

// What another tab has kept since; a chat that is being answered here stays as it is here.
async function readChats() {
  const kept = await request(store.database.transaction("chats").objectStore("chats").getAll());
  const ids = new Set(kept.map((chat) => chat.id));
  for (const id of store.chats.keys()) if (!ids.has(id) && !runs.has(id) && !store.unkept.has(id)) store.chats.delete(id);
  for (const chat of kept)
    if (!runs.has(chat.id) && !((store.chats.get(chat.id)?.saved ?? 0) >= (chat.saved ?? 1))) store.chats.set(chat.id, chat);
}

async function keepChat(chat) {
  chat.saved = Date.now();
  store.chats.set(chat.id, chat);
  if (!store.database) return;
  try {
    const change = store.database.transaction("chats", "readwrite");
    const asked = change.objectStore("chats").put(chat);
    change.commit();  // at once: the page may be left
    await request(asked);
    store.unkept.delete(chat.id);
  } catch (error) {
    store.unkept.add(chat.id);
    toast("This chat could not be kept: " + error.message);
  }
}

async function forgetChat(id) {
  store.chats.delete(id);
  if (store.database) await request(store.database.transaction("chats", "readwrite").objectStore("chats").delete(id));
}

// How many were new. One that is here already is left alone; a different one of that id comes as a copy.
async function importChats(chats) {
  let taken = 0;
  for (const chat of chats) {
    const here = store.chats.get(chat.id);
    if (here && here.updated === chat.updated) continue;
    if (here) chat.id = newId();
    await keepChat(chat);
    ++taken;
  }
  return taken;
}

function settingOf(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem("trireme." + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function keepSetting(name, value) {
  try {
    localStorage.setItem("trireme." + name, JSON.stringify(value));
  } catch { /* nothing is kept here */ }
}
