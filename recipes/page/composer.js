// The message box: writing, attaching text files, sending; and how full the context is.

const kFileLimit = 1 << 20;  // bytes of an attached file
let attached = [];           // {name, text}

function focusInput() {
  if (!isTouch()) $("input").focus();
}

function fitInput() {
  const input = $("input");
  input.style.height = "auto";
  input.style.height = input.scrollHeight + "px";
}

function submitInput() {
  const text = $("input").value;
  if ((!text.trim() && !attached.length) || runs.has(view.chat.id)) return;
  const path = pathOf(view.chat), last = path.at(-1);
  const files = attached;
  attached = [];
  showFiles();
  $("input").value = "";
  fitInput();
  view.editing = null;
  sendMessage(view.chat, last ? last.id : null, text, files);
  toEnd();
  showChats();
  focusInput();
}

async function attachFiles(files) {
  for (const file of files) {
    try {
      if (file.size > kFileLimit) throw new Error(`it has ${bytesText(file.size)}; at most ${bytesText(kFileLimit)} are taken`);
      const text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
      if (text.includes("\0")) throw new Error("it is no text file");
      attached.push({name: file.name || "pasted.txt", text});
    } catch (error) {
      toast(`${file.name}: ${error instanceof TypeError ? "it is no text file (UTF-8)" : error.message}.`);
    }
  }
  showFiles();
  focusInput();
}

function showFiles() {
  $("files").replaceChildren(...attached.map((file) =>
      el("li", {}, icon("file"), el("span", {}, file.name), iconButton("close", `Remove ${file.name}`, () => {
        attached = attached.filter((other) => other !== file);
        showFiles();
        focusInput();
      }))));
}

let gaugeNumber = 0;
// Tokens of the open chat of those that the model takes: as the last answer was counted, else asked;
// while an answer comes, those of its prompt and what came.
async function showGauge() {
  const chat = view.chat, number = ++gaugeNumber;
  const path = pathOf(chat), last = path.at(-1);
  $("gauge").hidden = !server.context;
  if (!server.context) return;
  let used = path.length ? last.stats?.exact ? last.stats.used : 0 : 0;
  const run = runs.get(chat.id);
  if (path.length && !used) {
    const said = path.filter((node) => node !== run?.node && contentOf(node) !== "");
    const body = server.chat ? {messages: messagesOf(chat, said)} : {prompt: wholeText(chat, said)};
    try {
      used = (await askJson("/tokenize", {body})).count;
    } catch {
      used = 0;  // a template that refuses an open answer: not known
    }
  }
  if (run) run.prompt = used;
  if (number === gaugeNumber && chat === view.chat && run === runs.get(chat.id)) drawGauge(used + (run ? run.before + run.tokens : 0));
}

function drawGauge(used) {
  const part = Math.min(1, used / server.context);
  $("gauge").setAttribute("aria-valuemax", String(server.context));
  $("gauge").setAttribute("aria-valuenow", String(used));
  $("gauge").setAttribute("aria-valuetext", `${used} of ${server.context} tokens`);
  $("gauge").classList.toggle("full", part > 0.9);
  $("gauge-fill").style.width = 100 * part + "%";
  $("gauge-text").textContent = `${countText(used)} / ${countText(server.context)}`;
}

function startComposer() {
  const input = $("input");
  input.addEventListener("input", fitInput);
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && (!isTouch() || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      submitInput();
    } else if (event.key === "ArrowUp" && !input.value && !runs.has(view.chat.id)) {
      const mine = pathOf(view.chat).filter((node) => node.role === "user").at(-1);
      if (!mine) return;
      event.preventDefault();
      beginEdit(view.chat, mine);
    }
  });
  input.addEventListener("paste", (event) => {
    if (!event.clipboardData?.files.length) return;
    event.preventDefault();
    attachFiles([...event.clipboardData.files]);
  });
  $("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    submitInput();
  });
  $("stop").addEventListener("click", () => {
    stopAnswer(view.chat);
    focusInput();
  });
  $("attach").addEventListener("click", () => $("attach-file").click());
  $("attach-file").addEventListener("change", (event) => {
    attachFiles([...event.target.files]);
    event.target.value = "";
  });
  const holdsFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    $("drop").hidden = false;
  });
  addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").hidden = true; });
  addEventListener("drop", (event) => {
    $("drop").hidden = true;
    if (!holdsFiles(event)) return;
    event.preventDefault();
    attachFiles([...event.dataTransfer.files]);
  });
}
