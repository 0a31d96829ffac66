/* The view of servers, with what they are doing and buttons for admins. */

const STATES = {
  "ready": ["good", "answers"],
  "dormant": ["calm", "starts with the next call"],
  "disabled": ["calm", "disabled"],
  "connecting": ["warn", "starting"],
  "restarting": ["warn", "lost; restarting"],
  "degraded": ["warn", "not answering; probing"],
  "failed": ["bad", "down"],
  "needs-auth": ["bad", "needs authorization"],
};
const CELLS = {
  "Calls": ({ calls }) => countOf(calls.calls),
  "Failures": ({ calls }) => countOf(calls.failures),
  "Tool errors": ({ calls }) => countOf(calls.tool_errors),
  "Denied": ({ calls }) => countOf(calls.denied ?? 0),
  "p50": ({ calls }) => durationOf(calls.p50_ms),
  "p99": ({ calls }) => durationOf(calls.p99_ms),
  "Queue": ({ queues }) => queueLine(queues),
  "Restarts": ({ restarts }) => countOf(restarts),
  "Since": ({ since }) => ageOf(since),
};
// The cells that get a colour unless they are 0.
const TONES = { "Failures": "bad", "Tool errors": "warn", "Denied": "warn" };
const listServers = keyedList(byId("server-rows"), server => server.server, makeServerRow);
let serverRows = null;
let catalogs = null;

function showServers() {
  const { servers } = known.servers;
  if (shownView === "servers") serverRows = listServers(servers);
  showAttention();
  byId("servers-empty").hidden = servers.length > 0;
  setText(byId("servers-count"), servers.length);
  offer(filterForm.server, filterForm.server.value, servers.map(({ server }) => server));
  showPrincipal();
  showReadiness();
  // A server that changes may have new tools, even if no event says so.
  const changed = JSON.stringify(servers.map(({ server, ready, tools }) => [server, ready, tools]));
  if (catalogs !== null && catalogs !== changed) refresh({ tools: true });
  catalogs = changed;
}

/** Says who the gateway takes this page for; the style sheet hides what only admins may do. */
function showPrincipal() {
  const { name, admin } = known.servers.gateway?.principal ?? {};
  document.documentElement.dataset.role = admin ? "admin" : "reader";
  const right = admin ? "admin" : "read-only";
  setText(byId("principal"), name === undefined ? "" : `you are ${brief(name, 100)} (${right})`);
  if (admin && !known.approvals?.approvers) refresh({ approvals: true });
  // Another token may do more.
  if (!admin) byId("token-button").hidden = false;
}

function showReadiness() {
  if (problems.has("servers") || !known.servers) return setBadge(byId("readiness"), "unknown", "calm");
  const { ready, servers, gateway } = known.servers;
  const readiness = gateway?.draining ? "draining" : ready ? "ready" : "not ready";
  setBadge(byId("readiness"), readiness, ready ? "good" : "bad");
  document.title = ready ? "toolgate" : `toolgate: ${readiness}`;
  const up = servers.filter(server => server.ready).length;
  setText(byId("summary"), `${up} of ${servers.length} servers ready`);
}

function openServer(id) {
  // After the listener that switches the view.
  window.addEventListener("hashchange", () => {
    const row = serverRows?.get(id);
    if (!row) return;
    row.details.open = true;
    row.head.focus();
  }, { once: true });
  location.hash = "#servers";
}

function makeServerRow({ server: id }) {
  const row = openingRow("server", { state: "badge", name: "name line said", reason: "reason line said soft" });
  const cells = Object.keys(CELLS).map(label => {
    const value = make("span", { className: "number" });
    const name = make("span", { className: "label", text: label });
    row.head.append(make("span", { className: "cell" }, name, value));
    return [label, value];
  });
  const about = longText("prose"), trouble = longText(), error = longText(), errorTitle = make("h3");
  const facts = factList(), toolNames = longText(), toolsTitle = make("h3", { text: "Tools" });
  row.body.append(about.node, trouble.node, errorTitle, error.node, make("h3", { text: "Now" }), facts.node);
  const log = makeServerLog(id);
  row.body.append(toolsTitle, toolNames.node, log.node);
  const reconnect = makeButton("Reconnect"), toggle = makeButton("");
  row.node.append(make("div", { className: "buttons for-admins" }, reconnect, toggle));

  let state = null, shown = null;
  // Fill a row only while it is open: a hundred closed rows change often.
  const fill = () => {
    if (!row.details.open) return;
    const server = shown;
    about.update(server.description);
    trouble.update(server.problem);
    error.update(server.last_error?.text);
    errorTitle.hidden = !server.last_error;
    if (server.last_error) setText(errorTitle, `Last error, at ${timeOf(server.last_error.at)}`);
    facts.update(factsOf(server));
    toolsTitle.hidden = !server.tool_names?.length;
    toolNames.update(server.tool_names?.map(name => brief(name)).join(", "));
  };
  row.details.ontoggle = () => {
    fill();
    log.follow(row.details.open);
  };
  toggle.onclick = () => act(toggle, id, state === "disabled" ? "enable" : "disable");
  reconnect.onclick = () => { if (state !== "disabled") act(reconnect, id, "reconnect"); };
  row.update = server => {
    if (state !== null && state !== server.state) say(`${brief(id, 80)} is ${server.state}`);
    state = server.state;
    setBadge(row.parts.state, state, STATES[state]?.[0] ?? "calm");
    setText(row.parts.name, brief(id, 100));
    setText(row.parts.reason, reasonOf(server));
    for (const [label, value] of cells) {
      setText(value, CELLS[label](server));
      value.dataset.tone = value.textContent === "0" ? "" : TONES[label] ?? "";
    }
    shown = server;
    fill();
    setText(toggle, state === "disabled" ? "Enable" : "Disable");
    for (const button of [toggle, reconnect]) button.ariaLabel = `${button.textContent} ${brief(id, 80)}`;
    // Not `disabled`, which would remove the focus.
    reconnect.ariaDisabled = state === "disabled";
  };
  return row;
}

function reasonOf({ state, problem: trouble, last_error: error }) {
  const [tone, words] = STATES[state] ?? ["calm", ""];
  if (trouble) return brief(trouble);
  if (!error || tone === "calm") return words;
  return tone === "good" ? `${words}; ${ageOf(error.at)} ago: ${brief(error.text)}` : `${words}: ${brief(error.text)}`;
}

function queueLine(queues) {
  const total = name => queues.reduce((sum, queue) => sum + queue[name], 0);
  if (queues.length === 0) return "–";
  return `${total("running")}/${total("slots")}${total("waiting") ? ` +${total("waiting")}` : ""}`;
}

function factsOf(server) {
  const { calls } = server;
  return {
    "Readiness": server.ready ? "ready" : "not ready",
    "Since": timeOf(server.since),
    "Kind": server.kind,
    "Software": brief(server.software ?? server.name, 100),
    "Protocol": [server.version, server.era].filter(Boolean).join(", "),
    "Process": server.pid,
    "Tools": server.tools,
    "Definitions": aboutTokens(costOf(server.server)?.tokens),
    "Scope": server.scope,
    "Used by": server.users,
    "Started in": server.started_in_ms && durationOf(server.started_in_ms),
    "Last check": server.last_check && timeOf(server.last_check),
    "Calls": `${countOf(calls.ok)} answered, ${countOf(calls.failures)} failures, ` +
      `${countOf(calls.tool_errors)} tool errors, ${countOf(calls.denied ?? 0)} denied, ` +
      `${countOf(calls.unknown)} unknown, ${countOf(calls.cancelled)} cancelled, ${countOf(calls.in_flight)} in flight`,
    "Latency": `p50 ${durationOf(calls.p50_ms)}, p90 ${durationOf(calls.p90_ms)}, p99 ${durationOf(calls.p99_ms)}, ` +
      `max ${durationOf(calls.max_ms)}`,
    ...Object.fromEntries(server.queues.map(queue => [
      `Queue ${queue.name}`,
      `${queue.running} of ${queue.slots} running, ${queue.waiting} waiting; ${countOf(queue.entered)} entered, ` +
        `${countOf(queue.refused)} refused, ${countOf(queue.timed_out)} timed out`,
    ])),
  };
}

/** Enables, disables or reconnects a server, and shows its new state. */
async function act(button, id, action) {
  if (button.ariaBusy === "true") return;
  button.ariaBusy = true;
  try {
    const changed = await requestJson(`servers/${encodeURIComponent(id)}/${action}`, { method: "POST" });
    if (known.servers) { // another token may have been given meanwhile
      known.servers.servers = known.servers.servers.map(server => (server.server === id ? changed : server));
      showServers();
    }
    refresh({ servers: true });
  } catch (error) {
    say(`${action} ${brief(id, 80)}: ${error.message}`);
  } finally {
    button.ariaBusy = false;
  }
}
