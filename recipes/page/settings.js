// What the chat is asked with: its system prompt and how tokens are drawn. An empty field is the
// server's default, which stands in it in grey. And the memory of the server.

const kControls = [
  {name: "temperature", label: "Temperature", least: 0, most: 2, step: 0.1},
  {name: "top_p", label: "Top p", least: 0.01, most: 1, step: 0.05},
  {name: "top_k", label: "Top k", least: -1, most: 2147483647, step: 1},
  {name: "min_p", label: "Min p", least: 0, most: 1, step: 0.01},
  {name: "max_tokens", label: "Max tokens", least: 1, most: 2147483647, step: 1},
  {name: "seed", label: "Seed", least: Number.MIN_SAFE_INTEGER, most: Number.MAX_SAFE_INTEGER, step: 1},
  {name: "repetition_penalty", label: "Repetition penalty", least: 0.01, most: 100, step: 0.05},
  {name: "presence_penalty", label: "Presence penalty", least: -2, most: 2, step: 0.1},
  {name: "frequency_penalty", label: "Frequency penalty", least: -2, most: 2, step: 0.1},
];
const kPresets = {exact: {temperature: 0}, even: {temperature: 0.7, top_p: 0.95}, free: {temperature: 1.1, min_p: 0.05}};

function defaultText(name) {
  if (name === "seed") return "random";
  if (name === "max_tokens") return server.chat ? "fits" : String(kBaseTokens);
  const value = server.defaults[name];
  return value === undefined ? "default" : name === "top_k" && value <= 0 ? "all" : String(value);
}

function makeControls() {
  $("sampling").replaceChildren(...kControls.map((control) => {
    const id = "s-" + control.name;
    const told = el("div", {class: "told", id: id + "-told", hidden: true});
    const input = el("input", {id, type: "number", inputmode: control.step < 1 ? "decimal" : "numeric", min: String(control.least),
                               max: String(control.most), step: "any", "aria-describedby": told.id,
                               on: {input: () => takeControl(control)}});
    const reset = iconButton("again", `${control.label}: server default`, () => {
      delete view.chat.sampling[control.name];
      showSettings();
      keepOpenChat();
      input.focus();
    }, {id: id + "-reset"});
    return el("div", {class: "control"}, el("label", {for: id}, control.label), input, reset, told);
  }));
}

function takeControl({name, least, most, step}) {
  const input = $("s-" + name), told = $("s-" + name + "-told");
  const value = input.valueAsNumber;
  const empty = input.value === "" && !input.validity.badInput;
  const legal = empty || (value >= least && value <= most && (step < 1 || Number.isInteger(value)));
  input.setAttribute("aria-invalid", String(!legal));
  told.hidden = legal;
  told.textContent = `${step < 1 ? "A number" : "A whole number"} from ${least} to ${most}.`;
  if (!legal) return;
  if (empty) delete view.chat.sampling[name];
  else view.chat.sampling[name] = value;
  $("s-" + name + "-reset").hidden = empty;
  keepOpenChat();
}

function showSettings() {
  $("system").value = view.chat.system;
  $("system-section").hidden = !server.chat;
  for (const {name} of kControls) {
    const input = $("s-" + name), value = view.chat.sampling[name];
    input.value = value === undefined ? "" : String(value);
    input.placeholder = defaultText(name);
    input.setAttribute("aria-invalid", "false");
    $("s-" + name + "-told").hidden = true;
    $("s-" + name + "-reset").hidden = value === undefined;
  }
}

function setSampling(sampling) {
  view.chat.sampling = {...sampling};
  showSettings();
  keepOpenChat();
}

// A chat that says nothing yet is not kept.
function keepOpenChat() {
  if (view.chat.roots.length) keepChat(view.chat);
}

function showPanel(shown) {
  $("panel").hidden = !shown;
  $("panel-open").setAttribute("aria-expanded", String(shown));
  showVeil();
  if (shown) {
    askMemory();
    $("panel-close").focus();
  } else {
    $("panel-open").focus();
  }
}

// While somebody looks at it, every two seconds.
let memoryTimer = 0;
async function askMemory() {
  clearTimeout(memoryTimer);
  if ($("panel").hidden) return;
  if (!document.hidden) {
    try {
      await askProps();
      showMemory();
    } catch (error) {
      if (error.status !== 401) $("memory").textContent = error.message;
    }
  }
  clearTimeout(memoryTimer);
  memoryTimer = setTimeout(askMemory, 2000);
}

function showMemory() {
  const {bytes, cache, limit, free, limit_source: source, ranks} = server.memory;
  const kinds = bytes.device, of = (name) => kinds[name] || 0;
  const used = cache.bytes && cache.tokens ? cache.bytes * cache.used_tokens / cache.tokens : 0;
  const other = Object.entries(kinds).reduce((sum, [name, value]) => name === "parameters" || name === "kv_cache" ? sum : sum + value, 0);
  const rows = [["k1", "Weights", of("parameters")], ["k2", "KV cache, used", used],
                ["k4", "KV cache, free", Math.max(0, cache.bytes - used)], ["k3", "Other", other]];
  for (const tier of ["host", "disk"])
    for (const [name, value] of Object.entries(bytes[tier] || {})) rows.push([null, `${name.replace("_", " ")} on ${tier}`, value]);
  if (limit) rows.push([null, "Free", free]);
  const whole = limit || rows.reduce((sum, row) => sum + row[2], 0) || 1;
  const bar = el("div", {class: "stack", role: "img", "aria-label": rows.map(([, name, value]) => `${name} ${bytesText(value)}`).join(", ")});
  for (const [kind, , value] of rows.filter((row) => row[0])) {
    const part = el("span", {class: kind});
    part.style.width = Math.min(100, 100 * value / whole) + "%";
    if (value > 0) part.style.minWidth = "2px";
    bar.append(part);
  }
  $("memory").replaceChildren(bar,
      el("table", {}, el("tbody", {}, ...rows.map(([kind, name, value]) =>
          el("tr", {}, el("th", {scope: "row"}, kind ? el("span", {class: "dot " + kind}) : null, name), el("td", {}, bytesText(value)))))),
      el("p", {}, `Cache: ${countText(cache.used_tokens)} of ${countText(cache.tokens)} tokens.` +
                  (ranks > 1 ? ` One of ${ranks} ranks.` : "") + (limit ? ` Limit: ${source}.` : "")));
}
