"use strict";
// Nodes are built here and nowhere else from strings: text becomes text nodes, never markup. The
// page's policy (require-trusted-types-for) makes the browser refuse innerHTML, too.

const $ = (id) => document.getElementById(id);

// el("button", {class: "x", type: "button", on: {click: f}}, "text", node, null, ...)
function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
    } else if (name === "class") {
      node.className = value;
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const icons = new Map();  // by name: the picture of a button of page.html, to be copied
function icon(name) {
  if (!icons.has(name)) {
    const picture = document.querySelector("#new-chat svg").cloneNode(true);
    picture.firstElementChild.setAttribute("href", "#i-" + name);
    icons.set(name, picture);
  }
  return icons.get(name).cloneNode(true);
}

function iconButton(name, label, click, more = {}) {
  return el("button", {class: "icon", type: "button", "aria-label": label, title: label,
                       on: {click}, ...more}, icon(name));
}

function setIcon(button, name, label) {
  button.replaceChildren(icon(name));
  button.setAttribute("aria-label", label);
  button.title = label;
}

// For screen readers: said when they are free.
function announce(text) {
  $("live").textContent = "";
  requestAnimationFrame(() => { $("live").textContent = text; });
}

let toastTimer = 0;
// A sentence at the foot of the page for some seconds, with something to be done about it.
function toast(text, action = null, call = null) {
  clearTimeout(toastTimer);
  $("toast-text").textContent = text;
  $("toast-action").hidden = !action;
  $("toast-action").textContent = action || "";
  $("toast-action").onclick = () => { $("toast").hidden = true; call(); };
  $("toast").hidden = false;
  toastTimer = setTimeout(() => { $("toast").hidden = true; }, 8000);
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // not a secure place, or not allowed: the old way
    const area = el("textarea", {class: "unseen", "aria-hidden": "true"});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const pictures = button.querySelector("svg");
  const old = pictures.firstElementChild.getAttribute("href");
  pictures.firstElementChild.setAttribute("href", "#i-check");
  setTimeout(() => pictures.firstElementChild.setAttribute("href", old), 1500);
  announce("Copied");
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], {type: "application/json"}));
  el("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// Resolves to what was typed ("" without an input), or null.
function askUser({title, text = "", ok = "OK", value = null}) {
  return new Promise((resolve) => {
    const dialog = $("ask"), input = $("ask-input");
    $("ask-title").textContent = title;
    $("ask-text").textContent = text;
    $("ask-text").hidden = !text;
    $("ask-ok").textContent = ok;
    $("ask-label").hidden = input.hidden = value === null;
    input.value = value ?? "";
    let answer = null;
    $("ask-form").onsubmit = () => { answer = input.value.trim(); };
    $("ask-cancel").onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    if (value !== null) input.select();
  });
}

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB"];
function bytesText(bytes) {
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit + 1 < byteUnits.length) {
    bytes /= 1024;
    ++unit;
  }
  return (unit === 0 || bytes >= 100 ? bytes.toFixed(0) : bytes.toFixed(1)) + " " + byteUnits[unit];
}

const countText = (count) => count.toLocaleString("en");
const isTouch = () => matchMedia("(pointer: coarse)").matches;
const isNarrow = () => matchMedia("(max-width: 860px)").matches;
