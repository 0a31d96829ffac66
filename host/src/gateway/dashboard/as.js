/* The tools as another principal sees them, and what would be decided about its calls. Nothing is called. */

let asName = ""; // nobody else
const asList = byId("as");
asList.onchange = () => {
  asName = asList.value;
  refresh({ tools: true });
};

/** Adds whom an admin looks as to a path. */
function asPath(path) {
  return asName ? `${path}${path.includes("?") ? "&" : "?"}as=${encodeURIComponent(asName)}` : path;
}

/** Loads the tools anew if somebody else was chosen meanwhile. */
async function loadTools() {
  for (;;) {
    const name = asName, tools = await requestJson(asPath("mcp/tools"));
    if (name === asName) return tools;
  }
}

function showPrincipals(principals = []) {
  const names = principals.join("\n");
  if (showPrincipals.names === names) return;
  showPrincipals.names = names;
  if (asName && !principals.includes(asName)) asName = "";
  asList.replaceChildren(option("", "yourself"), ...principals.map(name => option(name, brief(name, 100))));
  asList.value = asName;
}

/** Shows what would be decided about a call of the chosen principal. */
async function showDecision(who, call, signal, outcome, result) {
  const answer = await postJson("mcp/decide", `{${call},"as":${JSON.stringify(who)}}`, signal);
  const { decision, code, server, tool, approval, text, trace, arguments: sent } = answer;
  const [words, tone] = { call: ["would be called", "good"], ask: ["would need approval", "warn"] }[decision] ?? [code, "bad"];
  const badge = make("span", { className: "badge", text: words, "data-tone": tone });
  outcome.replaceChildren(badge, ` for ${brief(answer.as, 100)}; nothing was called`);
  const facts = factList();
  facts.update({ "Server": server, "Tool": tool, "Rule": approval });
  const title = sent === undefined ? "It would be told" : "Would be sent";
  result.replaceChildren(facts.node, make("h3", { text: title }), longTextOf(sent === undefined ? text : pretty(sent)),
    disclosure(`Trace, ${trace.length} steps`, traceList(trace)));
}
