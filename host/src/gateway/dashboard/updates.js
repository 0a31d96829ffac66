/* Keeps what is shown up to date, by a stream of events or by asking again. */

const ALL = { servers: true, tools: true, costs: true, calls: true, agents: true, shadow: true };
const known = {}; // the last answer for each part
const SOURCES = {
  servers: ["servers", showServers],
  tools: ["mcp/tools", searchTools],
  costs: ["mcp/tools/cost", showCosts],
  calls: ["calls?limit=100", showCalls],
  agents: ["context", showAgents],
  shadow: ["shadow?limit=100", showShadow],
};
const wanted = new Set();
let refreshing = false;
let refreshedAt = 0;
let paused = false;
let following = null; // aborts the stream and the polling
let streaming = false;
let problem = "";

/** Reloads parts; one round at a time, so that an old answer never replaces a newer one. */
async function refresh(parts) {
  for (const part in SOURCES) if (parts[part]) wanted.add(part);
  // Costs change with tools, agents and the shadow policy with calls; they have no events of their own.
  if (parts.tools) wanted.add("costs");
  if (parts.calls) wanted.add("agents");
  if (parts.calls && known.shadow?.shadow) wanted.add("shadow");
  if (refreshing) return;
  refreshing = true;
  try {
    while (wanted.size) {
      await Promise.all([...wanted].map(load));
      refreshedAt = Date.now();
      showProblem("");
      await sleep(200); // a busy gateway changes faster than people read
    }
  } catch (error) {
    // Do not ask for a token again and again; there is a button for it.
    if (error instanceof NoToken) stopFollowing();
    const told = error instanceof NoToken || error instanceof Refused;
    showProblem(told ? error.message : "the gateway cannot be reached; what is shown may be old");
  } finally {
    refreshing = false;
  }
}

async function load(part) {
  const [path, show] = SOURCES[part];
  wanted.delete(part);
  try {
    known[part] = await requestJson(path);
  } catch (error) {
    wanted.add(part); // for the next poll
    throw error;
  }
  show();
}

/** Follows the gateway while the page is visible. */
function follow() {
  const run = !paused && !document.hidden;
  setText(byId("pause"), paused ? "Resume" : "Pause");
  if (!run) stopFollowing();
  else if (!following) {
    following = new AbortController();
    const timer = setInterval(poll, 2000);
    following.signal.onabort = () => clearInterval(timer);
    refresh(ALL);
    readStreams(following.signal);
  }
  showLive();
}

function stopFollowing() {
  following?.abort();
  following = null;
  showLive();
}

/** Reloads every time without a stream; with one, only now and then, since a connection can break silently. */
function poll() {
  const due = !streaming || Date.now() - refreshedAt > 30_000;
  // Not the tools: listing them may start dormant servers. `showServers` notices when they change.
  if (due || wanted.size) refresh({ servers: due, calls: due, shadow: due });
}

async function readStreams(signal) {
  for (let opened = 0; !signal.aborted; await sleep(5000)) {
    try {
      const response = await request("events", { signal, headers: { Accept: "text/event-stream" } });
      streaming = true;
      showLive();
      if (opened++) refresh(ALL); // for changes between two streams
      await readEvents(response.body);
    } catch (error) {
      // After a refusal, polling takes over; a broken connection is retried.
      if (error instanceof Refused || error instanceof NoToken) return;
    } finally {
      streaming = false;
      showLive();
    }
  }
}

/** Reads the data lines only: there is one kind of event, and its data is one line. */
async function readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) refresh(JSON.parse(line.slice(5)));
  }
}

function sleep(ms) {
  return new Promise(resolve => setTimeout(resolve, ms));
}

function showLive() {
  setText(byId("live"), paused ? "paused" : !following ? "not updating" : streaming ? "live" : "updated every 2 s");
}

function showProblem(text) {
  problem = text;
  setText(byId("problem"), text);
  byId("problem").hidden = text === "";
  showReadiness();
}
