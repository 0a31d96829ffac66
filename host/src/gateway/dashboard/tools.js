/* The view of tools: a search, and what their definitions cost. */

const TOOLS_AT_ONCE = 100;
const keyOfTool = ({ name }) => `${asName}\n${name}`;
const listTools = keyedList(byId("tool-rows"), keyOfTool, makeToolRow);
const listFailed = keyedList(byId("failed"), failed => failed.server, () => {
  const node = make("li", { className: "said" });
  return { node, update: ({ server, reason }) => setText(node, `${brief(server, 100)}: ${brief(reason)}`) };
});
let toolsShown = TOOLS_AT_ONCE;
let search = { text: "", hits: [], done: true, problem: "" }; // what the gateway has found
let searching = null; // aborts the search that runs

/** Shows the tools that have the typed text at once, and asks the gateway for those that do what it says. */
async function searchTools() {
  const text = byId("search").value.trim();
  searching?.abort();
  searching = new AbortController();
  const { signal } = searching;
  if (text !== search.text) search = { text, hits: [], done: text === "", problem: "" };
  showTools();
  if (text === "") return;
  await sleep(150); // people type faster than they read
  if (signal.aborted) return;
  let hits = [], problem = "";
  try {
    const path = asPath(`mcp/tools/search?query=${encodeURIComponent(text)}&limit=${HITS}`);
    hits = (await requestJson(path, { signal: AbortSignal.any([signal, AbortSignal.timeout(60_000)]) })).tools;
  } catch (error) {
    problem = `the gateway could not search: ${error.message}`;
  }
  if (signal.aborted) return;
  search = { text, hits, done: true, problem };
  showTools();
}
const HITS = 100;

/** Returns the tools to show, each with the reason why it was found: first what the gateway found, the best first. */
function foundTools(tools) {
  const words = search.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return tools.map(tool => ({ ...tool, why: "" }));
  const rest = new Map(tools.map(tool => [tool.name, tool]));
  const hits = search.hits.filter(({ name }) => rest.has(name)).map(({ name, why }) => ({ ...rest.get(name), why }));
  for (const { name } of hits) rest.delete(name);
  // The gateway compares whole words, and people type them letter by letter.
  const alike = [...rest.values()].filter(({ name, server, tool, description }) => {
    const text = `${name} ${server} ${tool} ${textOf(description)}`.toLowerCase();
    return words.every(word => text.includes(word));
  });
  return [...hits, ...alike.map(tool => ({ ...tool, why: "its text" }))];
}

function showTools() {
  if (!known.tools) return;
  const { tools, failed, principals } = known.tools;
  showPrincipals(principals);
  setText(byId("tools-count"), countOf(tools.length));
  if (shownView !== "tools") return;
  const found = foundTools(tools);
  const keys = new Set(tools.map(keyOfTool));
  // A row that the search hides keeps its typed text.
  listTools(found.slice(0, toolsShown), key => keys.has(key));
  listFailed(failed);
  const count = `${countOf(found.length)} of ${countOf(tools.length)}`;
  const outcome = search.done ? [count, search.problem].filter(Boolean).join("; ") : "searching…";
  setText(byId("found"), search.text ? outcome : "");
  byId("tools-empty").hidden = found.length > 0 || !search.done;
  setText(byId("more"), `Show more (${countOf(found.length - toolsShown)} hidden)`);
  byId("more").hidden = found.length <= toolsShown;
}

function makeToolRow() {
  const row = openingRow("tool", {
    name: "name mono line said", about: "about line said soft", hint: "soft", server: "line said soft",
    tokens: "tokens number soft", why: "why line said soft",
  });
  row.parts.tokens.title = ESTIMATE;
  let tool = null, fillBody = null;
  // Fill a row when it opens: a thousand closed rows need no forms.
  const fill = () => {
    if (!row.details.open) return;
    fillBody ??= makeToolBody(row.body);
    fillBody(tool);
  };
  row.details.ontoggle = fill;
  row.update = changed => {
    tool = changed;
    setText(row.parts.name, brief(tool.name));
    setText(row.parts.about, brief(tool.description));
    setText(row.parts.server, brief(tool.server, 100));
    const { readOnlyHint, destructiveHint } = tool.annotations ?? {};
    setText(row.parts.hint, readOnlyHint === true ? "read-only" : destructiveHint === true ? "destructive" : "");
    const cost = costOf(tool.server)?.tools?.find(({ name }) => name === tool.name);
    setText(row.parts.tokens, aboutTokens(cost?.tokens));
    setText(row.parts.why, tool.why ? `found by ${brief(tool.why)}` : "");
    row.parts.why.hidden = !tool.why;
    fill();
  };
  return row;
}

function makeToolBody(body) {
  const about = longText("prose"), schema = longText(), form = make("div");
  const trial = make("div", { className: "for-admins" }, make("h3", { text: asName ? "What would be decided" : "Try it" }), form);
  const hint = "To try a tool here, sign in with the token of an admin.";
  const note = make("p", { className: "soft for-readers", text: hint });
  body.append(about.node, disclosure("Input schema", schema.node), trial, note);
  let made = null;
  return tool => {
    about.update(tool.description);
    // Keep the form and its typed text while the schema stays the same.
    const shape = pretty(tool.inputSchema);
    schema.update(shape);
    if (shape !== made) form.replaceChildren(makeForm(tool));
    made = shape;
  };
}

const ESTIMATE = "Estimated: every four bytes of a tool's name, description and input schema count as one token.";
const costFacts = factList();
byId("cost").append(costFacts.node);
byId("cost-sum").title = ESTIMATE;

function showCosts() {
  const { tokens, servers, filters, search: searched } = known.costs;
  byId("cost").hidden = !tokens;
  setText(byId("cost-sum"), [
    `The definitions of all tools take ${aboutTokens(tokens)}`,
    filters?.tools ? `filters save ${aboutTokens(filters.tokens)}` : "",
    searched?.tokens < tokens ? `search would save ${aboutTokens(tokens - searched.tokens)}` : "",
  ].filter(Boolean).join("; "));
  costFacts.update(Object.fromEntries(servers.map(cost => [brief(cost.server, 100), aboutTokens(cost.tokens)])));
  showTools();
  if (known.servers) showServers();
}

/** Returns what the tools of a server cost. */
function costOf(id) {
  return known.costs?.servers.find(({ server }) => server === id);
}

function aboutTokens(tokens) {
  return typeof tokens === "number" ? `about ${countOf(tokens)} ${tokens === 1 ? "token" : "tokens"}` : "";
}
