/* The view of what a shadow policy would decide differently. */

const listShadow = keyedList(byId("shadow-rows"), ({ call }) => call, makeDivergenceRow);
const shadowFacts = factList();
byId("shadow-facts").replaceWith(shadowFacts.node);
const shadowChart = makeChart("Divergences", [{ name: "different", tone: "warn" }], perMinute);
byId("shadow-chart").append(shadowChart.node);
byId("shadow-figures").ontoggle = showShadowFigures;

function showShadow() {
  const { shadow } = known.shadow;
  byId("shadow-link").hidden = !shadow;
  if (known.servers) showAttention();
  if (!shadow) return;
  // Only admins get the counts over all calls.
  const { same, different, dropped, failed, kinds, divergences } = shadow;
  setText(byId("shadow-count"), countOf(different ?? divergences.length));
  setBadge(byId("shadow-badge"), shadow.running ? "running" : "off", shadow.running ? "good" : "bad");
  setText(byId("shadow-about"), [brief(shadow.about), brief(shadow.off)].filter(Boolean).join(": "));
  shadowFacts.update(!kinds ? {} : {
    "Same": countOf(same),
    "Differs": countOf(different),
    "Skipped (queue full)": countOf(dropped),
    "Crashed": countOf(failed),
    ...Object.fromEntries(Object.entries(kinds).filter(([, count]) => count).map(([kind, count]) => [kind, countOf(count)])),
  });
  showShadowHour(shadow.history);
  listShadow(divergences);
  byId("shadow-empty").hidden = divergences.length > 0;
}

/** Shows how many calls of the last hour it would have decided differently. */
function showShadowHour(history) {
  byId("shadow-hour").hidden = !history; // only admins get it
  if (!history) return;
  const { slots: { judged, different }, slot_s: seconds, ends } = history;
  const sum = values => values.reduce((total, value) => total + value, 0);
  const begins = Date.parse(ends) - different.length * seconds * 1000;
  shadowChart.update([different], begins, seconds * 1000, countOf(sum(different)), `of ${countOf(sum(judged))} calls`);
  showShadowFigures();
}

/** Shows the figures of the chart as a table, five minutes in a row. */
function showShadowFigures() {
  const { history } = known.shadow?.shadow ?? {};
  if (!byId("shadow-figures").open || !history) return;
  const { slots: { judged, different }, slot_s: seconds, ends } = history;
  const step = 300 / seconds, count = different.length, rows = [];
  for (let from = count - step; from >= 0; from -= step) {
    const sum = values => countOf(values.slice(from, from + step).reduce((total, value) => total + value, 0));
    rows.push([timeOf(Date.parse(ends) - (count - from) * seconds * 1000), sum(different), sum(judged)]);
  }
  showTable(byId("shadow-table"), "Divergences of the last hour", ["From", "Different", "Judged"], rows);
}

function makeDivergenceRow(divergence) {
  const row = openingRow("call", { at: "number soft", kind: "badge", name: "name mono line said", principal: "cell soft line said" });
  setBadge(row.parts.kind, divergence.kind, divergence.kind === "denied" ? "bad" : "warn");
  setText(row.parts.name, brief(divergence.name));
  setText(row.parts.principal, `by ${brief(divergence.principal, 100)}`);
  const facts = factList();
  facts.update({ "Why": divergence.rule, "Call": divergence.call });
  row.body.append(facts.node);
  row.update = () => setText(row.parts.at, timeOf(divergence.at)); // from tomorrow on, it has the day too
  return row;
}
