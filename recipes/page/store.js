// Chats in this browser: IndexedDB, one record a chat; small settings in localStorage. Where a
// browser keeps nothing (private windows of some), chats live until the page is closed, and that is
// said.

const store = {
  chats: new Map(),  // by id
  database: null,
  defaults: {},      // of new chats: {system, sampling}
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
    for (const chat of await request(store.database.transaction("chats").objectStore("chats").getAll()))
      store.chats.set(chat.id, chat);
  } catch {
    store.database = null;
    toast("This browser keeps no chats here: they are gone when the page is closed. Export what you need.");
  }
}

async function keepChat(chat) {
  store.chats.set(chat.id, chat);
  if (!store.database) return;
  try {
    await request(store.database.transaction("chats", "readwrite").objectStore("chats").put(chat));
  } catch (error) {
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
