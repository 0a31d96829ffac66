/** Reads the list of tools of a form: one tool in each line, or JSON in the form of `tools/list`. */

const HINTS = { 'read-only': 'readOnly', 'destructive': 'destructive', 'idempotent': 'idempotent', 'open-world': 'openWorld' };
const LINE = /^([A-Za-z0-9_-]+)\.([^\s:[]+)\s*(?:\[([^\]]*)\])?\s*(?::\s*(.*))?$/;

/** Returns what each server offers, in the terms of the WIT. */
export function readTools(text) {
  const offers = text.trimStart().startsWith('{') ? fromJson(JSON.parse(text)) : fromLines(text);
  return [...offers].map(([server, tools]) => ({ server, tools }));
}

function fromLines(text) {
  const offers = new Map();
  text.split('\n').forEach((line, at) => {
    if (!line.trim() || line.trimStart().startsWith('#')) return;
    const [, server, name, hints, description] = line.trim().match(LINE) ?? [];
    if (!server) throw new Error(`Line ${at + 1} of the tools is not of the form “server.tool [read-only]: description”.`);
    const annotations = Object.fromEntries((hints ?? '').split(',').filter((hint) => hint.trim()).map((hint) => {
      const [, not, word] = hint.trim().match(/^(not )?(.*)$/);
      if (!Object.hasOwn(HINTS, word)) {
        throw new Error(`Line ${at + 1} of the tools has the unknown annotation “${word}”; there are ${Object.keys(HINTS).join(', ')}.`);
      }
      return [HINTS[word], !not];
    }));
    if (!offers.has(server)) offers.set(server, []);
    offers.get(server).push({ name, description: description || undefined, inputSchema: undefined, annotations });
  });
  return offers;
}

/** Reads an object of servers, each with its tools as the server lists them. */
function fromJson(servers) {
  return new Map(Object.entries(servers).map(([server, listed]) => {
    const tools = listed?.tools ?? listed;
    if (!Array.isArray(tools)) throw new Error(`The tools of the server “${server}” must be a list.`);
    return [server, tools.map((tool) => {
      const hint = (name) => (typeof tool.annotations?.[name] === 'boolean' ? tool.annotations[name] : undefined);
      return {
        name: String(tool?.name),
        description: tool.description === undefined ? undefined : String(tool.description),
        inputSchema: tool.inputSchema === undefined ? undefined : JSON.stringify(tool.inputSchema),
        annotations: {
          readOnly: hint('readOnlyHint'),
          destructive: hint('destructiveHint'),
          idempotent: hint('idempotentHint'),
          openWorld: hint('openWorldHint'),
        },
      };
    })];
  }));
}
