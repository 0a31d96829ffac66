/* The view of calls: filters that the address holds, new calls as they end, and older ones from memory and records. */

const CODES = {
  "ok": "the tool answered",
  "tool-error": "the tool answered with an error of its own",
  "invalid-name": "the name means no tool",
  "unknown-server": "no server has this name",
  "unknown-tool": "the server has no such tool",
  "not-allowed": "the rules forbid it",
  "declined": "a person declined it",
  "invalid-arguments": "the arguments do not fit the tool",
  "server-unavailable": "the server could not be reached",
  "restart-in-progress": "the server was restarting",
  "restart-failed": "the server did not come back",
  "needs-auth": "the server wants an authorization",
  "rpc-error": "the server answered with a protocol error",
  "timeout": "the server did not answer in time",
  "cancelled": "the caller no longer waited",
  "queue-full": "too many calls waited already",
  "outcome-unknown": "the connection broke, and the tool may have run",
  "result-too-large": "the answer was too large",
  "masking-failed": "the answer could not be masked",
  "internal": "toolgate failed",
};
const SPANS = { "": "Any time", "15m/": "Last 15 minutes", "1h/": "Last hour", "24h/": "Last day", "7d/": "Last 7 days" };
const FILTERS = ["principal", "server", "tool", "code"];
const PAGE_OF_CALLS = 100;

const listCalls = keyedList(byId("call-rows"), call => call.id, makeCallRow);
const filterForm = byId("filter");
let callRows = new Map();
let callView = newCallView("");

/** Starts a list of calls for the parameters in the address. */
function newCallView(address) {
  const calls = { calls: [], room: PAGE_OF_CALLS, last: null }; // how many may stay, and which is the newest seen
  return { address, ...calls, older: { recorded: false, until: null }, ended: false }; // where older ones come from
}

function setUpCalls() {
  filterForm.code.append(option("", "Any outcome"), ...Object.keys(CODES).map(code => option(code, code)));
  filterForm.time.append(...Object.entries(SPANS).map(([value, text]) => option(value, text)));
  let timer = 0;
  filterForm.oninput = event => {
    clearTimeout(timer);
    timer = setTimeout(writeFilter, event.target.type === "search" ? 300 : 0);
  };
  filterForm.onsubmit = event => { event.preventDefault(); writeFilter(); };
  byId("filter-clear").onclick = () => { filterForm.reset(); writeFilter(); filterForm.tool.focus(); };
  byId("older").onclick = loadOlder;
}

function option(value, text) {
  return make("option", { value, text });
}

/** Writes the filter into the address, where it can be shared, and shows what it selects. */
function writeFilter() {
  if (shownView !== "calls") return; // it was left meanwhile
  const [since, until] = filterForm.time.value.split("/");
  const values = { ...Object.fromEntries(FILTERS.map(name => [name, filterForm[name].value.trim()])), since, until };
  const address = new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
  history.replaceState(null, "", `#calls${address && "?"}${address}`);
  showFilter(address);
}

/** Shows the calls that the parameters in the address select. */
function showFilter(address) {
  const given = new URLSearchParams(address);
  const [since, until] = ["since", "until"].map(name => given.get(name) ?? "");
  const span = since || until ? `${since}/${until}` : "";
  offer(filterForm.server, given.get("server") ?? "", []);
  offer(filterForm.time, span, []);
  offer(filterForm.code, given.get("code") ?? "", []);
  for (const name of ["principal", "tool"]) {
    // What somebody is typing stays as it is.
    if (filterForm[name].value.trim() !== (given.get(name) ?? "")) filterForm[name].value = given.get(name) ?? "";
  }
  byId("filter-clear").hidden = address === "";
  if (address === callView.address) return;
  callView = newCallView(address);
  want("calls", 0);
  refresh({});
}

/** Writes the filter into the address again when somebody comes back to the view. */
function keptFilter() {
  const { address } = callView;
  if (address) history.replaceState(null, "", `#calls?${address}`);
  return address;
}

/** Chooses a value in a list, and adds what is missing there. */
function offer(select, value, values) {
  const there = new Set([...select.options].map(({ value: known }) => known));
  const text = span => (select === filterForm.time ? span.split("/").map(brief).join(" – ") : brief(span, 100));
  for (const missing of new Set([...values, value])) {
    if (!there.has(missing)) select.append(option(missing, text(missing)));
  }
  select.value = value;
}

/** Returns the path of a page of calls that the filter selects. */
function callsPath(more) {
  const parameters = new URLSearchParams(callView.address);
  const since = parameters.get("since");
  if (since) parameters.set("since", timeBefore(since));
  for (const [name, value] of Object.entries(more)) if (value !== null) parameters.set(name, value);
  return `calls?${parameters}`;
}

/** Converts an age such as 15m to the time so long ago; leaves a time as it is. */
function timeBefore(age) {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(age) ?? [];
  const ms = count * { s: 1e3, m: 6e4, h: 36e5, d: 864e5 }[unit];
  return unit && Date.now() > ms ? new Date(Date.now() - ms).toISOString() : age;
}

/** Asks for the newest calls, and then only for those that ended since. */
function newCallsPath() {
  return callView.last === null
    ? callsPath({ limit: PAGE_OF_CALLS })
    : callsPath({ after: callView.last, limit: 500 });
}

/** Takes the answer to `newCallsPath`, unless the filter has changed since it was asked. */
async function loadCalls() {
  const view = callView;
  try {
    const isFirst = view.last === null;
    const page = await requestJson(newCallsPath());
    if (view !== callView) return;
    // Too many calls ended, or the gateway was started again: begin anew.
    if (!isFirst && (page.lost || (page.last ?? 0) < view.last)) view.last = null;
    else view.last = page.last ?? null;
    if (isFirst) sayCalls("");
    addCalls(page.calls, [], isFirst);
    if (!isFirst && (view.last === null || page.calls.length === 500)) refresh({ calls: true });
  } catch (error) {
    if (view !== callView) return;
    // A filter in the address may mean nothing.
    if (error.status !== 400) throw error;
    sayCalls(error.message);
    addCalls([], [], true);
  }
}

/** Adds newer and older calls, and forgets the oldest ones for which there is no room. */
function addCalls(newer, older, anew = false) {
  const listed = new Map();
  const before = anew ? callView.calls.filter(isOpen) : callView.calls;
  for (const call of [...newer, ...before, ...older]) if (!listed.has(call.id)) listed.set(call.id, call);
  const all = [...listed.values()];
  const since = Date.parse(timeBefore(new URLSearchParams(callView.address).get("since") ?? ""));
  const fits = (call, place) => place < callView.room && !(Date.parse(call.at) < since);
  callView.calls = all.filter((call, place) => fits(call, place) || isOpen(call));
  if (anew || callView.calls.length < all.length) callView.older = { recorded: false, until: null };
  if (anew) callView.ended = false;
  showCalls();
}

/** Reports whether the row of a call is open; such a row stays. */
function isOpen({ id }) {
  return callRows.get(id)?.details.open === true;
}

function showCalls() {
  callRows = listCalls(callView.calls);
  byId("calls-empty").hidden = callView.calls.length > 0;
  setText(byId("calls-empty"), callView.address ? "No call that the gateway remembers fits." : "No calls yet.");
  byId("older").hidden = callView.ended;
}

/** Tells how a search for calls ended. */
function sayCalls(text) {
  setText(byId("calls-said"), text);
}

/** Loads older calls: those that the gateway remembers, and then those in records. */
async function loadOlder() {
  const view = callView, button = byId("older");
  if (button.ariaBusy === "true") return;
  button.ariaBusy = true;
  try {
    let added = 0;
    while (added === 0 && !view.ended) {
      const { recorded, until } = view.older;
      const from = until ?? view.calls.at(-1)?.at ?? null;
      const page = await requestJson(callsPath({ until: from, recorded: recorded || null, limit: OLDER_CALLS }));
      if (view !== callView) return;
      added = takeOlder(page, from);
      const problems = (page.problems ?? []).map(({ folder, text }) => [folder, text].filter(Boolean).join(": "));
      sayCalls(problems.join("; ") || (view.ended ? "These are all calls." : ""));
    }
  } catch (error) {
    if (view !== callView) return;
    view.ended = error.status === 404;
    sayCalls(`no older calls: ${error.message}`);
  } finally {
    button.ariaBusy = false;
    showCalls();
  }
}
const OLDER_CALLS = 200;

/** Adds a page of older calls, and returns how many of them are new. */
function takeOlder({ calls }, from) {
  const listed = new Set(callView.calls.map(({ id }) => id));
  const fresh = calls.filter(({ id }) => !listed.has(id));
  const { recorded } = callView.older;
  callView.room += fresh.length;
  addCalls([], fresh);
  const oldest = calls.at(-1)?.at;
  if (calls.length === OLDER_CALLS && oldest !== from) callView.older = { recorded, until: oldest };
  // A record has the time of a call a little different from what the gateway remembers.
  else if (!recorded) callView.older = { recorded: true, until: later(callView.calls.at(-1)?.at) };
  else callView.ended = true;
  return fresh.length;
}

function later(time) {
  return time ? new Date(Date.parse(time) + 1000).toISOString() : null;
}

function makeCallRow(call) {
  const row = openingRow("call", {
    at: "number soft", code: "badge", name: "name mono line said", principal: "cell soft line said",
    attempts: "cell soft", latency: "cell number",
  });
  setBadge(row.parts.code, call.code, toneOf(call));
  setText(row.parts.name, brief(call.name));
  setText(row.parts.principal, call.principal ? `by ${brief(call.principal, 100)}` : "");
  setText(row.parts.attempts, call.attempts > 1 ? `${call.attempts} attempts` : "");
  setText(row.parts.latency, durationOf(call.latency_ms));
  let filled = false;
  // Fill a row when it opens: thousands of closed rows need no stories.
  row.details.ontoggle = () => {
    if (!filled) row.body.append(...storyOf(call));
    filled = true;
  };
  row.update = () => setText(row.parts.at, timeOf(call.at)); // from tomorrow on, it has the day too
  return row;
}

/** Tells what is known about a call. */
function storyOf(call) {
  const facts = factList();
  const { server, tool, principal, code, folder } = call;
  facts.update({
    "Outcome": [code, CODES[code]].filter(Boolean).join(": "),
    "Ended": `${timeOf(call.at)}.${call.at.slice(20, 23)}`,
    "Took": durationOf(call.latency_ms),
    "Attempts": call.attempts,
    "Server": brief(server, 100),
    "Tool": brief(tool),
    "Name in the call": brief(call.name),
    "By": brief(principal, 100),
    "Call": call.id,
    "Recorded in": folder,
  });
  const alike = [["this tool", tool && { server, tool }], ["this principal", principal && { principal }],
    ["this outcome", { code }]];
  const links = alike.filter(([, values]) => values).map(([text, values]) =>
    make("a", { href: `#calls?${new URLSearchParams(values)}`, text: `Calls with ${text}` }));
  const story = call.trace.length ? [make("h3", { text: "How it was decided" }), traceList(call.trace)] : [];
  const command = make("code", { text: `toolgate explain ${call.id}` });
  const hint = make("p", { className: "soft" }, "The record tells more: ", command);
  return [facts.node, ...story, ...(folder === undefined ? [] : [hint]), make("p", { className: "buttons" }, ...links)];
}
