// One answer as it comes: from asking to its end, a stop, or a problem. A chat has at most one at a
// time; others may go on in other chats. Stopping aborts the request: the server sees the client
// leave and frees its place before the next pass.

const runs = new Map();  // by the chat's id: {node, controller, tokens, begun, first, last}
const kBaseTokens = 256;  // of a text that goes on, where the user wished no number

function samplingBody(chat) {
  const body = {};
  for (const {name} of kControls)
    if (Number.isFinite(chat.sampling[name])) body[name] = chat.sampling[name];
  return body;
}

// Base models go on with all that stands there; what was said last by the model comes last.
const wholeText = (chat, path) => path.map(contentOf).join("");

async function requestOf(chat, node, signal) {
  const path = pathTo(chat, node);
  const begun = node.text !== "";
  const body = {...samplingBody(chat), stream: true, stream_options: {include_usage: true}};
  if (server.chat) {
    body.messages = messagesOf(chat, begun ? path : path.slice(0, -1));
    if (begun) Object.assign(body, {continue_final_message: true, add_generation_prompt: false});
    return {path: "/v1/chat/completions", body};
  }
  body.prompt = wholeText(chat, path);
  const {count} = await askJson("/tokenize", {body: {prompt: body.prompt}, signal});
  const left = server.context - count;
  if (left < 1)
    throw new Problem(400, `The text has ${count} tokens, the model takes ${server.context}: begin a new chat, or shorten it.`, "context_length_exceeded");
  body.max_tokens = Math.min(body.max_tokens ?? kBaseTokens, left);
  return {path: "/v1/completions", body};
}

// Fills the answer `node`, or goes on with what it says already.
async function answerInto(chat, node) {
  if (runs.has(chat.id)) return;
  const run = {node, controller: new AbortController(), tokens: 0, begun: performance.now(), first: 0, last: 0,
               before: node.text ? node.stats?.tokens ?? 0 : 0, kept: performance.now()};
  runs.set(chat.id, run);
  Object.assign(node, {problem: null, finish: null, settings: {...chat.sampling}, model: server.model});
  node.stats = {...node.stats, tokens: run.before, exact: false};
  keepChat(chat);
  showThread(chat);
  announce(run.before ? "Going on" : "Answering");
  const clock = setInterval(() => drawSoon(chat, node), 1000);
  try {
    if (!server.known) await askProps();
    const {path, body} = await requestOf(chat, node, run.controller.signal);
    const response = await ask(path, {body, signal: run.controller.signal});
    showGauge();
    for await (const event of eventsOf(response)) takeEvent(chat, run, event);
    node.finish = node.finish || "stop";
  } catch (error) {
    node.finish = "stopped";
    if (error.name !== "AbortError") tellProblem(node, error);
  } finally {
    clearInterval(clock);
    runs.delete(chat.id);
    countRun(run);
    chat.updated = Date.now();
    if (store.chats.has(chat.id)) keepChat(chat);  // else it was deleted
    showThread(chat);
    showChats();
    announce(node.problem ? node.problem.sentence : view.articles.get(node.id)?.content.innerText.slice(0, 2000) || "Stopped");
    showGauge();
    askMemory();
  }
}

function takeEvent(chat, run, event) {
  const node = run.node, choice = event.choices?.[0];
  if (event.model) node.model = event.model;
  if (event.usage) {
    run.usage = event.usage;
    return;
  }
  const text = choice?.delta?.content ?? choice?.text ?? "";
  if (choice?.finish_reason) node.finish = choice.finish_reason;
  if (!text) return;
  run.last = performance.now();
  if (!run.first) run.first = run.last;
  ++run.tokens;
  node.text += text;
  countRun(run);
  drawSoon(chat, node);
  if (run.tokens === 1 || run.last - run.kept > 500) {
    run.kept = run.last;
    keepChat(chat);
  }
}

// Tokens are the pieces that came, until the server tells the sum.
function countRun(run) {
  const stats = run.node.stats;
  const tokens = run.usage ? run.usage.completion_tokens : run.tokens;
  stats.tokens = run.before + tokens;
  stats.exact = Boolean(run.usage);
  if (run.first) stats.first = (run.first - run.begun) / 1000;
  stats.seconds = ((run.last || performance.now()) - run.begun) / 1000;
  const seconds = (run.last - run.first) / 1000;
  // What came in one burst says nothing of pace by itself.
  stats.rate = tokens > 1 && seconds > 0.1 ? (tokens - 1) / seconds : tokens && stats.seconds ? tokens / stats.seconds : 0;
  if (run.usage) stats.prompt = run.usage.prompt_tokens;
  stats.used = run.usage ? run.usage.total_tokens : 0;
}

function tellProblem(node, error) {
  const known = error instanceof Problem;
  node.problem = {status: known ? error.status : 0, sentence: error.message, code: known ? error.code : "",
                  wait: known ? error.wait : null};
  if (known && error.status === 401) askKey();
}

function stopAnswer(chat) {
  const run = runs.get(chat.id);
  if (run) run.controller.abort();
}

// What the user wrote, and its answer.
function sendMessage(chat, parent, text, files = []) {
  const node = addNode(chat, parent, "user", text, files.length ? {files} : {});
  chat.updated = Date.now();
  return answerBehind(chat, node.id);
}

// Another answer to the message `parent`, beside those it has.
function answerBehind(chat, parent) {
  const node = addNode(chat, parent, "assistant", "", {stats: {tokens: 0}});
  chat.updated = Date.now();
  return answerInto(chat, node);
}

let drawing = null;
function drawSoon(chat, node) {
  if (!drawing) requestAnimationFrame(() => {
    const all = drawing;
    drawing = null;
    for (const [one, of] of all) drawAnswer(of, one);
  });
  drawing = (drawing || new Map()).set(node, chat);
}
