/* Which rules matched calls, and which never did. */

async function loadRules() {
  const { gateway } = known.servers ?? await requestJson("servers");
  return gateway?.principal?.admin ? requestJson("rules") : null; // the rules of others are for admins
}

function showRules() {
  if (!known.rules) return;
  const { rules, since } = known.rules;
  const unused = rules.filter(({ matched }) => matched === 0).length;
  setText(byId("rules-sum"), `Rules: ${countOf(unused)} of ${countOf(rules.length)} have matched no call since ${timeOf(since)}`);
  if (!byId("rules").open) return;
  const key = JSON.stringify(rules);
  if (key === showRules.drawn) return;
  showRules.drawn = key;
  const rows = rules.map(({ text, of, place, matched, last, warnings }) => [text, of, matched ? countOf(matched) : "never",
    last ? timeOf(last) : "", [place, ...warnings].filter(Boolean).join("; ")]);
  showTable(byId("rule-rows"), "Rules and how often they matched", ["Rule", "Of", "Matched", "Last", "Where"], rows);
  const shown = byId("rule-rows").querySelectorAll("tbody tr");
  rules.forEach(({ matched, warnings }, at) => {
    shown[at].dataset.tone = warnings.length ? "bad" : matched ? "" : "warn";
  });
}
