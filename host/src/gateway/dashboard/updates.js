/* Keeps what is shown up to date, by a stream of events or by asking again. */

// Each part of the page: how it is loaded, how it is shown, which view shows it, if not all of them do, and whether it
// is loaded for that view alone.
const SOURCES = {
  servers: [() => requestJson("servers"), showServers],
  history: [() => requestJson("history"), showHistory, "overview", true],
  tools: [loadTools, searchTools, "tools"],
  costs: [() => requestJson("mcp/tools/cost"), showCosts, "tools"],
  calls: [loadCalls, null, "calls", true],
  logs: [loadLogs, null, "servers", true],
  approvals: [loadApprovals, showApprovals],
  access: [loadAccess, showAccess, "access", true],
  rules: [loadRules, showRules, "access", true],
  agents: [() => requestJson("context"), showAgents, "agents"],
  shadow: [() => requestJson("shadow?limit=100"), showShadow, "shadow"],
};
const ALL = Object.fromEntries(Object.keys(SOURCES).map(part => [part, true]));
const known = {}; // the last answer for each part
const wanted = new Map(); // the parts to load, and when
const loadedAt = {}, failedAt = {};
const problems = new Map(); // why parts could not be loaded
let refreshing = false;
let refreshedAt = 0;
let paused = false;
let following = null; // aborts the stream and the polling
let streaming = false;
let turn = 0; // counts how often the page began anew

/** Reloads parts; one round at a time, so that an old answer never replaces a newer one. */
async function refresh(parts) {
  for (const part in SOURCES) if (parts[part]) want(part, BUSY.has(part) ? BUSY_PAUSE : 0);
  // Costs change with tools, and the others with calls; they have no events of their own.
  if (parts.tools) want("costs", 0);
  if (parts.tools) want("access", 2000);
  if (parts.calls || parts.tools) want("rules", 3000);
  if (parts.calls) want("agents", 0);
  if (parts.calls && known.shadow?.shadow) want("shadow", 0);
  // For the figures: the state of a server has an event.
  if (parts.calls) want("servers", shownView === "servers" ? 3000 : 10_000);
  if (parts.calls) want("history", 10_000); // as long as a slot of its charts
  if (refreshing) return;
  refreshing = true;
  for (let due; (due = dueParts()).length;) {
    await Promise.all(due.map(load));
    refreshedAt = performance.now();
    showProblems();
    await sleep(200);
  }
  refreshing = false;
  refreshLater();
}

/** Loads the parts that are not due yet when they are. */
function refreshLater() {
  clearTimeout(refreshLater.timer);
  const next = Math.min(...[...wanted.keys()].map(dueAt));
  if (!following || next === Infinity) return;
  refreshLater.timer = setTimeout(() => refresh({}), Math.max(0, next - performance.now()));
}

/** Wants a part anew, at least so many milliseconds after it was loaded. */
function want(part, pause) {
  wanted.set(part, Math.min(wanted.get(part) ?? Infinity, (loadedAt[part] ?? -Infinity) + pause));
}

/** Returns when a wanted part is to be loaded. What nobody sees has time: only the counts in the bar show it. */
function dueAt(part) {
  if (!isLoaded(part)) return Infinity;
  const pause = isShown(part) ? 0 : HIDDEN_PAUSE;
  const [loaded, failed] = [loadedAt, failedAt].map(times => times[part] ?? -Infinity);
  return Math.max(wanted.get(part), loaded + pause, failed + RETRY_PAUSE);
}

/** Returns the parts to load now: first those that somebody sees. */
function dueParts() {
  const due = [...wanted.keys()].filter(part => dueAt(part) <= performance.now());
  return due.some(isShown) ? due.filter(isShown) : due;
}

/** Reports whether a part is loaded while this view is shown. */
function isLoaded(part) {
  return !SOURCES[part][3] || isShown(part);
}

function isShown(part) {
  const [, , view = shownView] = SOURCES[part];
  return view === shownView;
}
const HIDDEN_PAUSE = 5000;
const RETRY_PAUSE = 2000;
const BUSY_PAUSE = 1000; // a busy gateway changes faster than people read
const BUSY = new Set(["calls", "logs"]);

/** Loads a part and shows it, or notes why that was not possible. */
async function load(part) {
  const [ask, show] = SOURCES[part], begun = turn;
  wanted.delete(part);
  let problem = "the gateway cannot be reached; what is shown may be old";
  try {
    const answer = await ask();
    if (begun !== turn) return want(part, 0); // it was for another token
    problem = "this page could not show an answer of the gateway; the browser's console says why";
    known[part] = answer;
    loadedAt[part] = performance.now();
    show?.();
    problems.delete(part);
    delete failedAt[part];
  } catch (error) {
    want(part, 0);
    if (begun !== turn) return;
    failedAt[part] = performance.now();
    const isTold = error instanceof NoToken || error instanceof Refused;
    problems.set(part, isTold ? error.message : problem);
    if (!isTold) console.error(error);
    if (!(error instanceof NoToken)) return;
    // Do not ask for a token again and again; there is a button for it.
    stopFollowing();
    wanted.clear();
  }
}

/** Begins anew: another token may see other things. */
function startOver() {
  stopFollowing();
  turn++;
  asName = asList.value = "";
  for (const kept of [known, loadedAt, failedAt]) for (const part in kept) delete kept[part];
  problems.clear();
  callView = newCallView(callView.address);
  follow();
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
  const due = !streaming || performance.now() - refreshedAt > 30_000;
  // Not the tools: listing them may start dormant servers. `showServers` notices when they change.
  if (known.history) want("history", 10_000); // the hour goes on without calls
  if (due || dueParts().length) refresh({ servers: due, calls: due, shadow: due, logs: due, approvals: due });
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
      // After a refusal, polling takes over; a broken connection is retried, and so is a gateway that is busy.
      if (error instanceof NoToken || (error.status < 500 && error.status !== 429)) return;
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

function showProblems() {
  const [[, problem] = ["", ""]] = [...problems].filter(([part]) => isLoaded(part));
  setText(byId("problem"), problem);
  byId("problem").hidden = problem === "";
  showReadiness();
}
