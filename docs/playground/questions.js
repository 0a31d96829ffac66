/** What the page asks the component: for each part, the fields of its form become a question, and the answer is data. */

import { settingsFromJson } from './logic/settings-json.js';
import { readTools } from './tools.js';

const STYLES = [
  ['double-underscore', { tag: 'double-underscore' }],
  ['dot', { tag: 'dot' }],
  ['mcp-prefix', { tag: 'mcp-prefix' }],
  ['mcp-underscore', { tag: 'mcp-underscore' }],
  ...['anthropic', 'openai', 'gemini', 'cursor'].map((target) => [target, { tag: 'fitted', val: { target, prefix: '' } }]),
];
const MARK = /\[(?:MASKED_[A-Z0-9_]+|REDACTED[^\]]*)\]/g;

export const questions = { names, arguments: readArguments, masks, rules, search };

/** Returns the names of all masks. */
export function about(logic) {
  return logic.ask(({ masking }) => ({ groups: masking.groupNames(), patterns: masking.patternNames() }));
}

function names(logic, fields) {
  const offers = readTools(fields.get('tools'));
  const bareNames = fields.has('bare');
  let route;
  try {
    route = logic.resolve(fields.get('name'), offers, { bareNames });
  } catch (error) {
    if (!error.payload?.problem) throw error;
    return { problem: error.payload.problem, message: error.payload.message };
  }
  const listed = logic.ask(({ catalog }) => {
    const table = new catalog.Catalog(offers, bareNames);
    const isRight = ({ tool }) => tool.server === route.tool.server && tool.tool === route.tool.tool;
    return STYLES.map(([style, val]) => ({ style, name: table.tools(val).find(isRight)?.name }));
  });
  return { ...route, listed };
}

function readArguments(logic, fields) {
  const schema = fields.get('schema').trim();
  if (schema) parseJson(schema, 'The schema');
  return refusals(() => logic.parseArguments(fields.get('text'), schema || undefined));
}

function masks(logic, fields) {
  const [text, isJson] = [fields.get('text'), fields.has('json')];
  if (isJson) parseJson(text, 'The text');
  const custom = readCustomMasks(fields.get('custom'));
  const mask = (some) => refusals(() => (isJson ? logic.maskJson(text, some) : logic.mask(text, some)));
  const masked = mask({ groups: fields.getAll('group'), patterns: fields.getAll('pattern'), custom });
  const found = [...marksOf(masked, text, custom)].map(([mark, count]) => ({ mark, count, masks: [] }));
  if (found.length > 0) {
    // Each mask alone shows which of them leaves which mark.
    const single = [
      ...about(logic).patterns.map((name) => [name, { patterns: [name] }]),
      ...custom.map((one) => [one.pattern, { custom: [one] }]),
    ];
    for (const [name, some] of single) {
      const marks = marksOf(mask(some), text, some.custom ?? []);
      for (const entry of found) if (marks.has(entry.mark)) entry.masks.push(name);
    }
  }
  return { masked, found };
}

/** Counts the marks that a masked text has and the text has not. */
function marksOf(masked, text, custom) {
  const marks = new Set([...(masked.match(MARK) ?? []), ...custom.map(({ replacement }) => replacement).filter(Boolean)]);
  const count = (mark, where) => where.split(mark).length - 1;
  const added = [...marks].map((mark) => [mark, count(mark, masked) - count(mark, text)]);
  return new Map(added.filter(([, number]) => number > 0));
}

/** Reads lines of the form `pattern => replacement`. */
function readCustomMasks(text) {
  return text.split('\n').filter((line) => line.trim()).map((line) => {
    const at = line.lastIndexOf('=>');
    if (at < 0) throw new Error(`“${line.trim()}” is not of the form “pattern => replacement”.`);
    return { pattern: line.slice(0, at).trim(), replacement: line.slice(at + 2).trim() };
  });
}

function rules(logic, fields) {
  const offers = readTools(fields.get('tools'));
  const list = (name) => fields.get(name).split(/[,\n]/).map((word) => word.trim()).filter(Boolean);
  const settings = readSettings(logic, fields.get('settings'), offers.map(({ server }) => server));
  const circumstances = logic.ask(({ rules: { knownValues } }) => ({
    caller: { principal: fields.get('principal').trim() || undefined, groups: list('groups'), admin: fields.has('admin'), client: '' },
    nowMs: BigInt(fields.get('now') ? Date.parse(`${fields.get('now')}Z`) : Date.now()),
    context: { labels: list('labels'), known: knownValues(list('known')) },
  }));
  const calls = Number(fields.get('calls')) + 1;
  return refusals(() => logic.ask(({ execution }) => {
    const gate = new execution.Gate(settings);
    for (const { server, tools } of offers) gate.offer(server, tools);
    const call = { id: '1', name: fields.get('name'), arguments: fields.get('arguments') };
    const { execution: running, directive } = gate.begin(call);
    const decision = decide(running, directive, { circumstances, calls, settings });
    const notes = gate.checkRules().map(noteText);
    const isListed = decision.tool && gate.tools({ tag: 'dot' }, circumstances).some(({ tool }) => sameTool(tool, decision.tool));
    return { ...decision, isListed, notes };
  }));
}

/** Runs the loop of directives up to the point at which something would happen outside of the component. */
function decide(running, directive, { circumstances, calls, settings }) {
  for (;;) {
    const { tag, val } = directive;
    switch (tag) {
      case 'connect': // all tools are offered already
        directive = running.next({ tag: 'connected' });
        break;
      case 'circumstances':
        directive = running.next({ tag, val: circumstances });
        break;
      case 'count': {
        const lengthOf = (rule) => settings.rules.lists.flat().find(({ name }) => name === rule)?.limit?.perMs ?? 0n;
        directive = running.next({ tag: 'counted', val: val.map((rule) => ({ calls, endsInMs: lengthOf(rule) })) });
        break;
      }
      case 'request':
        return { verdict: 'allow', tool: val.tool, arguments: val.arguments, labels: val.learned?.labels ?? [], trace: running.trace() };
      case 'ask':
        return { verdict: 'ask', tool: val.tool, arguments: val.arguments, reason: val.reason, labels: [], trace: running.trace() };
      case 'done': {
        const verdict = val.code === 'not-allowed' ? 'deny' : val.code;
        return { verdict, tool: val.tool, reason: val.text, labels: [], trace: val.trace };
      }
      default:
        throw new Error(`the component asked for “${tag}”, which this page does not do`);
    }
  }
}

/** Reads settings in the JSON form of `toolgate settings`; what they leave out has its default. */
function readSettings(logic, text, servers) {
  const defaults = logic.defaultSettings(servers);
  const settings = settingsFromJson(parseJson(text.trim() || '{}', 'The settings'), defaults);
  const isThere = ({ id }) => settings.policy.servers.some((server) => server.id === id);
  settings.policy.servers.push(...defaults.policy.servers.filter((server) => !isThere(server)));
  return settings;
}

function noteText({ rule, problem: { tag, val } }) {
  const subject = rule ? `Rule “${rule}”` : 'An entry of results';
  if (tag === 'unmatched') return `${subject}: no tool has a name that “${val}” matches.`;
  if (tag === 'constant') return `${subject}: its condition is ${val} for every call.`;
  return `${subject}: ${val.tool} has no argument ${val.argument}.`;
}

function search(logic, fields) {
  return { hits: logic.search(fields.get('query'), readTools(fields.get('tools')), 10) };
}

function sameTool(one, other) {
  return one.server === other.server && one.tool === other.tool;
}

function parseJson(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} is not JSON: ${error.message}`);
  }
}

/** Says in words what the component refuses. */
function refusals(ask) {
  try {
    return ask();
  } catch (error) {
    if (error.payload === undefined) throw error;
    throw new Error(refusalText(error.payload));
  }
}

function refusalText({ tag, val }) {
  switch (tag) {
    case 'too-large': return `The text has more than ${val} bytes.`;
    case 'too-many-values': return `The text has more than ${val} values.`;
    case 'too-deep': return `The text is nested more than ${val} levels deep.`;
    case 'unknown-group':
    case 'unknown-pattern': return `There is no mask “${val.name}”.`;
    case 'bad-pattern': return `The pattern “${val.pattern}” cannot be used: ${val.reason}`;
    case 'rules': return `The condition of rule “${val.rule}” is wrong at byte ${val.at}: ${val.message}`;
    case 'rule-tools': return `${val.rule ? `The tools of rule “${val.rule}”` : 'The tools of an entry of results'}: ${val.message}`;
    case 'bad-glob': return `${val}.`;
    case 'policy':
    case 'masks': return refusalText(val);
    case 'empty-selection': return 'The selection names no server.';
    case 'unknown-server': return `There are settings for the server “${val}”, which has no tools.`;
    case 'duplicate-server': return `Two servers have the id “${val}”.`;
    case 'bad-server-id': return `“${val}” is no id of a server: write letters, digits, - and _.`;
    case 'ambiguous-grant': return `“${val.grant}” is ambiguous; write ${val.meanings.join(' or ')}.`;
    default: return `The component refuses this: ${tag}`;
  }
}
