/* The view of recent calls. */

const listCalls = keyedList(byId("call-rows"), call => call.id, makeCallRow);
let callRows = new Map();
let listedCalls = [];

function showCalls() {
  const { calls } = known.calls;
  const recent = new Set(calls.map(call => call.id));
  // An open row stays, even after the gateway has dropped the call.
  const read = listedCalls.filter(({ id }) => !recent.has(id) && callRows.get(id).details.open);
  listedCalls = [...calls, ...read];
  callRows = listCalls(listedCalls);
  byId("calls-empty").hidden = listedCalls.length > 0;
}

function makeCallRow(call) {
  const row = openingRow("call", {
    at: "number soft", code: "badge", name: "name mono line said", principal: "cell soft line said",
    attempts: "cell soft", latency: "cell number",
  });
  setText(row.parts.at, timeOf(call.at));
  setBadge(row.parts.code, call.code, toneOf(call));
  setText(row.parts.name, brief(call.name));
  setText(row.parts.principal, `by ${brief(call.principal, 100)}`);
  setText(row.parts.attempts, call.attempts > 1 ? `${call.attempts} attempts` : "");
  setText(row.parts.latency, durationOf(call.latency_ms));
  const facts = factList();
  facts.update({ "Server": brief(call.server, 100), "Tool": brief(call.tool), "Call": call.id });
  row.body.append(facts.node, make("h3", { text: "How it was decided" }), traceList(call.trace));
  row.update = () => {}; // a finished call does not change
  return row;
}
