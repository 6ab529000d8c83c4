// Asks this server, and no other: every address is a path of its own. A key is kept for the tab.

class Problem extends Error {
  // `wait`: seconds after which it may be tried again; null if the server said nothing of it.
  constructor(status, sentence, code = "", wait = null) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.wait = wait;
  }
  get busy() { return this.status === 429 || this.status === 503; }
}

const server = {key: "", model: "", context: 0, chat: true, defaults: {}, memory: null, known: false};

function useKey(key) {
  server.key = key;
  try {
    if (key) sessionStorage.setItem("trireme.key", key);
    else sessionStorage.removeItem("trireme.key");
  } catch { /* kept in this page alone */ }
}

async function ask(path, {body = null, signal = undefined} = {}) {
  const headers = {};
  if (server.key) headers.Authorization = "Bearer " + server.key;
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {method: body ? "POST" : "GET", headers, signal, cache: "no-store",
                                  credentials: "omit", redirect: "error", body: body && JSON.stringify(body)});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer. Does it still run?");
  }
  if (response.ok) return response;
  throw await problemOf(response);
}

async function problemOf(response) {
  let error = null;
  try {
    error = (await response.json()).error;
  } catch { /* no JSON */ }
  const wait = parseInt(response.headers.get("Retry-After"), 10);
  return new Problem(response.status, asText(error?.message, `The server says ${response.status}.`),
                     asText(error?.code), Number.isFinite(wait) ? wait : null);
}

const askJson = async (path, options) => (await ask(path, options)).json();

// What is served: the model, its context, the server's defaults, memory.
async function askProps() {
  const props = await askJson("/props");
  Object.assign(server, {model: props.model, context: props.max_model_len, chat: props.chat_template,
                         defaults: props.sampling_defaults, memory: props.memory, known: true});
}

// The JSON of each event of a stream. Throws if it breaks off.
async function* eventsOf(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) throw new Problem(0, "The answer broke off: the server went away.");
      text += decoder.decode(value, {stream: true});
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const lines = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:"));
        text = text.slice(end + 2);
        const data = lines.map((line) => line.slice(5).trimStart()).join("\n");
        if (data === "[DONE]") return;
        if (!data) continue;
        const event = JSON.parse(data);
        if (event.error) throw new Problem(500, asText(event.error.message, "The server failed."), asText(event.error.code));
        yield event;
      }
    }
  } catch (error) {
    if (error instanceof Problem || error.name === "AbortError") throw error;
    throw new Problem(0, "The answer broke off: " + error.message);
  } finally {
    reader.cancel().catch(() => {});
  }
}
