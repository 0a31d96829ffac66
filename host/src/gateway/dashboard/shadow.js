/* The view of what a shadow policy would decide differently. */

const listShadow = keyedList(byId("shadow-rows"), ({ call }) => call, makeDivergenceRow);
const shadowFacts = factList();
byId("shadow-facts").replaceWith(shadowFacts.node);

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
  listShadow(divergences);
  byId("shadow-empty").hidden = divergences.length > 0;
}

function makeDivergenceRow(divergence) {
  const row = openingRow("call", { at: "number soft", kind: "badge", name: "name mono line said", principal: "cell soft line said" });
  setText(row.parts.at, timeOf(divergence.at));
  setBadge(row.parts.kind, divergence.kind, divergence.kind === "denied" ? "bad" : "warn");
  setText(row.parts.name, brief(divergence.name));
  setText(row.parts.principal, `by ${brief(divergence.principal, 100)}`);
  const facts = factList();
  facts.update({ "Why": divergence.rule, "Call": divergence.call });
  row.body.append(facts.node);
  row.update = () => {}; // a finished call does not change
  return row;
}
