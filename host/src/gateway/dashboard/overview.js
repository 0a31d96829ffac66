/* The first view: what needs a person, and how the calls of the last hour went. */

const listAttention = keyedList(byId("attention"), ({ server, name, text }) => name ?? `${server}\n${text}`, makeAttentionRow);
const listPace = keyedList(byId("pace-rows"), ({ server }) => server, makePaceRow);
const CHARTS = {
  calls: makeChart("Calls a second", [{ name: "calls", tone: "calm" }], rateOf),
  latency: makeChart("Latency", [{ name: "p99", tone: "warn" }, { name: "p50", tone: "calm" }], durationOf),
  errors: makeChart("Errors", [{ name: "failures", tone: "bad" }, { name: "tool errors", tone: "warn" }], perMinute),
  denied: makeChart("Denials", [{ name: "denied", tone: "warn" }], perMinute),
};
byId("charts").append(...Object.values(CHARTS).map(({ node }) => node));
byId("figures").ontoggle = showFigures;

function rateOf(rate) {
  return `${countOf(rate)}/s`;
}

function perMinute(count) {
  return `${countOf(count)} a minute`;
}

/** Lists what needs a person; it is part of every answer about servers. */
function showAttention() {
  const { servers, warnings, gateway } = known.servers;
  const states = new Map(servers.map(({ server, state }) => [server, STATES[state]?.[0]]));
  const warned = new Set(warnings.map(({ server }) => server));
  const toneOfServer = server => (states.get(server) === "bad" ? "bad" : "warn");
  const items = warnings.map(({ server, text, since }) => ({ server, text, since, tone: toneOfServer(server) }));
  for (const { server, state, started_in_ms: started, last_error: error } of servers) {
    // A server that starts with the next call, and never could.
    const isStuck = state === "dormant" && started === null && error && !warned.has(server);
    const text = `it could not be started: ${textOf(error?.text)}`;
    if (isStuck) items.push({ server, text, since: error.at, tone: "warn" });
  }
  const { shadow } = known.shadow ?? {};
  const { approvals: [oldest, ...others] = [] } = known.approvals ?? {};
  if (oldest) {
    const text = others.length ? `${countOf(others.length + 1)} calls wait for an admin` : "a call waits for an admin";
    items.push({ name: "Approvals", href: "#approvals", text, since: oldest.since, tone: "warn" });
  }
  if (gateway?.not_applied) {
    items.push({ name: "Configuration", text: `it stays as it was: ${gateway.not_applied}`, tone: "bad" });
  }
  if (gateway?.store === "unreachable") items.push({ name: "Store", text: STORE, tone: "bad" });
  if (gateway?.store_lost) items.push({ name: "Store", text: STORE_LOST, tone: "bad" });
  if (gateway?.replicas === "not listening") items.push({ name: "Replicas", text: UNHEARD, tone: "warn" });
  if (shadow && !shadow.running) {
    const text = `it is off: ${brief(shadow.off) || "see the log"}`;
    items.push({ name: "Shadow policy", href: "#shadow", text, tone: "warn" });
  }
  if (gateway?.draining) items.push({ name: "Gateway", text: "it is about to stop", tone: "warn" });
  items.sort((one, other) => (other.tone === "bad") - (one.tone === "bad"));
  listAttention(items);
  byId("attention-empty").hidden = items.length > 0;
  const badge = byId("overview-count");
  setText(badge, items.length || "");
  badge.dataset.tone = items.some(({ tone }) => tone === "bad") ? "bad" : "warn";
  badge.title = items.length ? `${items.length} need a person` : "";
}
const STORE_LOST = "it has lost what was in it: agents that this replica does not remember count as untrusted until you run `toolgate context adopt`";
const UNHEARD = "messages of other replicas do not arrive";
const STORE = "it cannot be reached, so calls that must be counted or approved across replicas are refused";

function makeAttentionRow({ server, name, href }) {
  const who = server ? makeButton(brief(server, 100), "plain line") : href ? make("a", { href, text: name })
    : make("span", { text: name ?? "Rules" });
  if (server) who.onclick = () => openServer(server);
  const text = make("span", { className: "said" }), since = make("span", { className: "soft number" });
  const node = make("li", {}, who, text, since);
  return { node, update(item) {
    node.dataset.tone = item.tone;
    setText(text, visible(item.text));
    setText(since, item.since ? ageOf(item.since) : "");
  } };
}

function showHistory() {
  const { all, servers, since } = known.history;
  const { slots, slot_s: seconds, ends } = all;
  const ms = seconds * 1000, now = Date.parse(ends) - ms;
  // A gateway that has just started has nothing to show of most of the hour.
  const known_s = Math.max(600, (now - Date.parse(since)) / 1000);
  const recent = (values, slot) => values.slice(-Math.ceil(known_s / slot) - 1);
  // The last slot is not over yet, so its rate would be too low.
  const over = values => recent(values, seconds).slice(0, -1);
  const count = over(slots.calls).length;
  const draw = (name, values, ...words) => CHARTS[name].update(values, now - count * ms, ms, ...words);
  const minutes = Math.floor(count * seconds / 60);
  const drawMinutes = (name, values, ...words) => {
    const sums = values.map(each => byMinute(over(each), 60 / seconds));
    CHARTS[name].update(sums, now - minutes * 60_000, 60_000, ...words);
  };
  const rates = over(slots.calls).map(calls => calls / seconds);
  const { calls, failures, tool_errors: toolErrors, denied, p50_ms: p50, p99_ms: p99 } = all;
  draw("calls", [rates], `${rateOf(rates.at(-1))} now`, `${countOf(calls)} calls`);
  const latency = p50 === null ? "–" : `p50 ${durationOf(p50)}, p99 ${durationOf(p99)}`;
  draw("latency", [over(slots.p99_ms), over(slots.p50_ms)], latency);
  drawMinutes("errors", [slots.failures, slots.tool_errors], countOf(failures + toolErrors),
    `${countOf(failures)} failures, ${countOf(toolErrors)} tool errors`);
  const share = calls ? `${countOf(100 * denied / calls)} % of the calls` : "";
  drawMinutes("denied", [slots.denied], countOf(denied), share);
  const isAdmin = known.servers?.gateway?.principal?.admin ?? true;
  const knownSince = Date.parse(since) > Date.now() - 36e5 ? `Known since ${timeOf(since)}. ` : "";
  const own = isAdmin ? "" : "These are your own calls; admins see those of everybody.";
  setText(byId("history-note"), knownSince + own);
  listPace(servers.map(track => ({ ...track, recent: name => recent(track.slots[name], track.slot_s) })));
  byId("pace-empty").hidden = servers.length > 0;
  showFigures();
}

/** Adds up slots to whole minutes, which end with the last slot. */
function byMinute(values, step) {
  const rest = values.slice(values.length % step);
  return Array.from({ length: rest.length / step }, (_, minute) =>
    rest.slice(minute * step, (minute + 1) * step).reduce((sum, value) => sum + value, 0));
}

function makePaceRow({ server }) {
  const name = makeButton(brief(server, 100), "plain line"), chart = makeSparkline();
  name.onclick = () => openServer(server);
  const cells = Object.keys(PACE).map(label => {
    const value = make("span", { className: "number" });
    const name = make("span", { className: "label", text: label });
    return [label, value, make("span", { className: "cell" }, name, value)];
  });
  const node = make("li", { className: "pace" }, name, chart.node, ...cells.map(([, , cell]) => cell));
  return { node, update(track) {
    const calls = track.recent("calls");
    const most = `at most ${perMinute(Math.max(...calls))}, ${countOf(track.failures)} failures`;
    chart.update(calls, track.recent("failures"), `${countOf(track.calls)} calls in the last hour, ${most}`);
    for (const [label, value] of cells) {
      setText(value, PACE[label](track));
      value.dataset.tone = value.textContent === "0" ? "" : TONES[label] ?? "";
    }
  } };
}
const PACE = {
  "Calls": ({ calls }) => countOf(calls),
  "Failures": ({ failures }) => countOf(failures),
  "Tool errors": ({ tool_errors: errors }) => countOf(errors),
  "Denied": ({ denied }) => countOf(denied),
  "p50": ({ p50_ms: ms }) => durationOf(ms),
  "p99": ({ p99_ms: ms }) => durationOf(ms),
};

/** Shows the figures of the charts as a table, five minutes in a row. */
function showFigures() {
  if (!byId("figures").open || !known.history) return;
  const { slots, slot_s: seconds, ends } = known.history.all;
  const count = slots.calls.length, step = 300 / seconds;
  const sum = values => countOf(values.reduce((total, value) => total + value, 0));
  const most = values => (values.some(value => value !== null) ? durationOf(Math.max(...values)) : "–");
  const rows = [];
  for (let from = count - step; from >= 0; from -= step) {
    const part = name => slots[name].slice(from, from + step);
    const at = timeOf(Date.parse(ends) - (count - from) * seconds * 1000);
    const counts = ["calls", "failures", "tool_errors", "denied"].map(name => sum(part(name)));
    rows.push([at, ...counts, most(part("p50_ms")), most(part("p99_ms"))]);
  }
  const cells = rows.map(([at, ...figures]) =>
    make("tr", {}, make("th", { scope: "row", text: at }), ...figures.map(text => make("td", { text }))));
  byId("figure-rows").replaceChildren(...cells);
}
