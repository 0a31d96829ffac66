/** Tests gates with real servers that fail, die, hang or are missing; `TOOLGATE` is the program if it is not in `PATH`. */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Broken, Failed, Gate, Logic } from '@toolgate/logic';
import { StdioServer, member } from '@toolgate/logic/stdio';

const here = dirname(fileURLToPath(import.meta.url));
const toolgate = process.env.TOOLGATE ?? 'toolgate';
const logic = await Logic.load();
let folder, log, servers, gate;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolgate-example-'));
  log = join(folder, 'log');
  delete logic.instance;
  const shop = new StdioServer(process.execPath, [join(here, 'server.mjs'), log]);
  servers = { demo: new StdioServer(toolgate, ['demo-server']), shop };
  gate = new Gate(logic, servers, { log: () => {} });
});

afterEach(async () => {
  await Promise.all(Object.values(servers).map((server) => server.close()));
  rmSync(folder, { recursive: true });
});

const runs = () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n').length : 0);

async function check(name, text, code, attempts, words = '') {
  const result = await gate.call(name, text);
  assert.deepEqual([result.code, result.attempts], [code, attempts], result.text);
  assert.ok(result.text.includes(words), result.text);
  return result;
}

/** Runs a function after each response to a tool call, before the component gets it. */
function afterAnswers(server, act) {
  const request = server.request;
  server.request = async function (method, params, signal) {
    const answer = await request.call(this, method, params, signal);
    if (method === 'tools/call') act();
    return answer;
  };
}

/** Makes an instance work on its next question until its time limit. */
function tire(instance) {
  const ask = instance.ask;
  instance.millis = 50;
  instance.ask = () => ask.call(instance, () => { for (;;); });
  return instance;
}

/** Makes every instance trap from now on, including the current one. */
function tireAll() {
  tire(gate.instance);
  const instance = Logic.prototype.instance;
  logic.instance = () => tire(instance.call(logic));
}

test('a tool answers', async () => {
  await check('demo__add', 'a: 1, b: 2', 'ok', 1, '3');
  await check('shop.charge', '', 'ok', 1, 'run 1');
});

test('digits are kept both ways', async () => {
  await check('demo.add', 'a: 12345678901234567890, b: 1', 'ok', 1, '12345678901234567891');
  const { structured } = await gate.call('demo.add', 'a: 12345678901234567890, b: 1');
  assert.equal(structured, '{"sum":12345678901234567891}');
  const line = '{"x\\"}": [{"result": 1}], "result" : {"n": 1.10, "t": "]}\\\\"} }';
  assert.equal(member(line, 'result'), '{"n": 1.10, "t": "]}\\\\"}');
});

test('a tool that fails says so', async () => {
  await check('demo.fail', 'message: no luck', 'tool-error', 1, 'no luck');
});

test('a bad name is a result that a model can read', async () => {
  await check('nonsense', '', 'invalid-name', 0);
  await check('nobody.add', '', 'unknown-server', 0, 'Available servers: demo, shop');
  await check('demo.ad', '', 'unknown-tool', 0, 'add');
});

test('arguments that do not fit are not sent', async () => {
  await check('demo.add', 'a: 1', 'invalid-arguments', 0, '"b"');
  await check('shop.charge', '{"bytes": "many"}', 'invalid-arguments', 0);
  assert.equal(runs(), 0);
});

test('an error of the protocol is shown', async () => {
  await check('shop.charge', 'then: refuse', 'rpc-error', 1, 'not today');
});

test('a tool that may have run is not run again', async () => {
  await check('shop.charge', 'then: die', 'outcome-unknown', 1);
  assert.equal(runs(), 1);
  await check('shop.charge', '', 'ok', 2, 'run 2'); // the next call finds the server gone, and opens a new session
});

test('a tool that changes nothing is run again once', async () => {
  await check('shop.look', 'then: die once', 'ok', 2, 'run 2');
  assert.equal(runs(), 2);
  await check('shop.look', 'then: die', 'server-unavailable', 2);
  assert.equal(runs(), 4);
});

test('no answer in time is never tried again', async () => {
  await check('shop.look', '', 'ok', 1); // start the server first, so that the limit measures only the call
  gate.millis = 2000;
  await check('shop.look', 'then: hang', 'timeout', 1);
  await check('shop.charge', 'then: hang', 'outcome-unknown', 1);
  assert.equal(runs(), 3);
});

test('a server that does not start costs the others nothing', async () => {
  servers.gone = new StdioServer(join(here, 'no-such-program'));
  gate = new Gate(logic, servers);
  gate.settings.bareNames = true; // a bare name asks all servers
  await check('add', 'a: 1, b: 2', 'ok', 1, '3');
  await check('gone.tool', '', 'server-unavailable', 0);
});

test('a person is asked where a rule wants it', async () => {
  gate.settings.policy.servers[1].ask = ['charge'];
  await check('shop.charge', '', 'declined', 0, 'could not ask its user');
  for (const [said, code, attempts] of [[false, 'declined', 0], [true, 'ok', 1]]) {
    gate.approve = async (question) => {
      assert.equal(question.tool.tool, 'charge');
      return said;
    };
    await check('shop.charge', '', code, attempts);
  }
  assert.equal(runs(), 1);
});

test('an approval that is not `true` or `false`, or that fails, lets nothing run and says why', async () => {
  const said = [];
  gate = new Gate(logic, servers, { log: (line) => said.push(line) });
  gate.settings.policy.servers[1].ask = ['charge'];
  const fails = () => { throw new Error('no chat'); };
  for (const [approve, words] of [
    [() => 'no', 'must be true, false or undefined, not "no"'],
    [async () => ({ approved: false }), 'not a record {approved}'],
    [() => 1, 'not 1'],
    [() => null, 'not null'],
    [fails, 'no chat'],
    [async () => fails(), 'no chat'],
    [() => Promise.reject('no chat'), 'no chat'],
    [true, 'not a function'],
  ]) {
    gate.approve = approve;
    const result = await check('shop.charge', '', 'not-allowed', 0);
    for (const text of [result.text, said.pop()]) assert.ok(text.includes('approve failed') && text.includes(words), text);
  }
  gate.approve = () => undefined;
  await check('shop.charge', '', 'declined', 0, 'could not ask its user');
  assert.deepEqual([runs(), said], [0, []]);
});

test('options that do not exist, or have values of another type, are refused', () => {
  const made = (options) => () => new Gate(logic, servers, options);
  for (const [wrong, words] of [
    [made({ setting: {} }), /options has no field setting; there are settings, approve, millis, log/],
    [made(null), /options must be a record, not null/],
    [made({ approve: true }), /approve must be a function, not true/],
    [made({ log: false }), /log must be a function, not false/],
    ...[0, -1, NaN, Infinity, '5'].map((millis) => [made({ millis }), /millis must be a positive number, not /]),
    [made({ settings: Promise.resolve({}) }), /settings must be a record, not a promise: is there an `await` missing\?/],
    [made({ settings: new Map() }), /settings must be a record, not a Map/],
    [made({ settings: [] }), /settings must be a record, not a list/],
    [made({ settings: null }), /settings must be a record, not null/],
    [made({ settings: { policy: new Map([['readOnly', true]]) } }), /settings.policy must be a record, not a Map/],
    [made({ settings: { policy: Promise.resolve({}) } }), /settings.policy must be a record, not a promise/],
    [() => new Gate(logic), /servers must be a record, not undefined/],
    [() => new Gate(logic, new Map(Object.entries(servers))), /servers must be a record, not a Map/],
  ]) assert.throws(wrong, (error) => error instanceof TypeError && words.test(error.message));
});

test('rules see what happened before', async () => {
  const limit = { calls: 2, perMs: 60_000n, by: 'principal' };
  gate.settings.rules.lists = [[
    { name: 'after', tools: ['shop.charge'], condition: '"seen" in labels', effect: { tag: 'deny' } },
    { name: 'budget', tools: ['shop.look'], effect: { tag: 'deny' }, limit },
  ]];
  gate.settings.rules.results = [{ tools: 'shop.look', labels: ['seen'], trusted: false, trustedFields: [] }];
  await check('shop.charge', '', 'ok', 1);
  await check('shop.look', '', 'ok', 1);
  await check('shop.charge', '', 'not-allowed', 0, 'rule "after"');
  await check('shop.look', '', 'ok', 1);
  await check('shop.look', '', 'not-allowed', 0, 'more than 2 calls in 1 minute; try again in');
});

test('tools are found and called through the tools of the gate', async () => {
  gate.settings.search = { aboveTools: 0, aboveTokens: 0n, always: [] };
  await check('find_tools', 'query: charge', 'ok', 0, '"name":"charge"');
  await check('call_tool', '{"name": "shop.charge", "arguments": {}}', 'ok', 1);
});

test('calls are read from a text', async () => {
  const text = 'I look first.\nAction: shop.look\nAction Input: {}\n';
  const [read] = logic.readCalls(text);
  assert.deepEqual([read.name, read.arguments, read.form], ['shop.look', '{}', 'react']);
  await check(read.name, read.arguments, 'ok', 1);
});

test('a setting that there is not, or that comes too late, is refused', async () => {
  const { policy } = gate.settings;
  const set = (record, field, value) => () => { record[field] = value; };
  for (const [change, words] of [
    [set(policy, 'read_only', true), /settings.policy has no field read_only; there are .*readOnly/],
    [set(policy.servers[1], 'aks', ['charge']), /policy.servers\[1\] has no field aks/],
    [set(policy, 'readOnly', 'yes'), /readOnly must be a boolean, not "yes"/],
    [set(gate.settings, 'maxResultBytes', 100), /maxResultBytes must be a bigint, not 100/],
    [set(gate.settings, 'style', { tag: 'Dot' }), /a record whose tag is one of .*, not "Dot"/],
    [set(policy, 'destructive', 'deny!'), /must be one of allow, ask, deny, not "deny!"/],
    [set(policy.servers[1], 'ask', 'charge'), /must be a list/],
    [set(policy, 'servers', [{ id: 'shop', aks: [] }]), /has no field aks/],
    [set(gate.settings, 'masks', { groups: ['all'] }), /masks.patterns must be a list/],
    [set(gate, 'settings', {}), /settings/],
    [() => policy.servers[1].ask.push(5), /ask\[0\] must be a string/],
    [() => gate.settings.serverSettings.push({ server: 'shop', mask: {} }), /has no field mask;/],
    [() => policy.readonly, /has no field readonly/],
    [() => { delete policy.readOnly; }, /cannot be taken away/],
  ]) assert.throws(change, words);
  gate.settings.masks.custom.push({ pattern: 'run', replacement: '***' });
  policy.readOnly = true;
  await check('shop.charge', '', 'not-allowed', 0);
  await check('shop.look', '', 'ok', 1, '*** 1');
  assert.throws(set(policy, 'readOnly', false), /fixed by the first call/);
  assert.throws(() => policy.servers[1].ask.push('look'), /fixed by the first call/);
});

test('a long text is kept whole and cut', async () => {
  Object.assign(gate.settings, { spill: true, maxResultBytes: 100n });
  const { text } = await check('shop.look', 'bytes: 5000', 'ok', 1, 'TRUNCATED');
  const kept = text.match(/\S*result-[^\s\].]*/)[0];
  assert.equal(readFileSync(kept, 'utf8'), 'x'.repeat(5000));
  rmSync(dirname(kept), { recursive: true });
});

test('a call that is given up ends, and its server is told', async () => {
  await check('shop.look', '', 'ok', 1);
  const { request } = servers.shop;
  const giveUp = new AbortController();
  servers.shop.request = function (method, params, signal) {
    const answer = request.call(this, method, params, signal);
    if (method === 'tools/call') giveUp.abort();
    return answer;
  };
  const { code } = await gate.call('shop.look', 'then: hang', giveUp);
  assert.equal(code, 'cancelled');
  servers.shop.request = request;
  await check('shop.look', '', 'ok', 1);
});

test('the tools are listed of all servers that come up', async () => {
  servers.gone = new StdioServer(join(here, 'no-such-program'));
  const said = [];
  gate = new Gate(logic, servers, { settings: { policy: { readOnly: true } }, log: (line) => said.push(line) });
  const names = (await gate.tools()).map(({ name }) => name);
  assert.ok(names.includes('shop__look') && names.includes('demo__add'), String(names));
  assert.ok(!names.includes('shop__charge'), String(names));
  assert.deepEqual(said, ['toolgate: server "gone" is left out: connect']);
});

test('settings of the constructor are merged into the defaults and checked', async () => {
  const settings = { policy: { readOnly: true }, masks: { custom: [{ pattern: 'run', replacement: '***' }] } };
  gate = new Gate(logic, servers, { settings });
  assert.equal(gate.settings.checkArguments, true);
  await check('shop.charge', '', 'not-allowed', 0);
  await check('shop.look', '', 'ok', 1, '*** 1');
  for (const wrong of [{ policy: { readonly: true } }, { maks: {} }, { masks: { groups: 'basic' } }, { style: { tag: 'Dot' } }]) {
    assert.throws(() => new Gate(logic, servers, { settings: wrong }), TypeError);
  }
});

test('settings that name a server of which the gate knows nothing fail that server alone', async () => {
  const settings = logic.defaultSettings(['demo', 'shop', 'other']);
  gate = new Gate(logic, servers, { settings });
  await check('other.tool', '', 'server-unavailable', 0);
  await check('demo.add', { a: 1, b: 2 }, 'ok', 1, '3');
});

test('settings that the component refuses are an error at each call', async () => {
  gate = new Gate(logic, servers, { settings: { masks: { groups: ['nonsense'] } } });
  for (const _ of [1, 2]) await assert.rejects(gate.call('demo.add', ''), /nonsense/);
});

test('calls run side by side', async () => {
  const calls = [['demo.sleep', 'seconds: 0.2'], ['shop.look', ''], ['demo.add', 'a: 1, b: 1']];
  const results = await Promise.all(calls.map((call) => gate.call(...call)));
  assert.deepEqual(results.map(({ code }) => code), ['ok', 'ok', 'ok']);
  assert.equal(gate.executions.size, 0);
});

test('a call goes on on a new instance where one breaks off', async () => {
  await check('demo.add', 'a: 1, b: 1', 'ok', 1);
  const first = gate.instance;
  afterAnswers(servers.shop, () => tire(first));
  await check('shop.charge', '', 'ok', 1, 'run 1');
  assert.notEqual(gate.instance, first);
  assert.equal(runs(), 1);
});

test('a call that breaks two instances off ends alone', async () => {
  afterAnswers(servers.shop, tireAll);
  await check('shop.charge', '', 'internal', 1, 'no result');
  assert.equal(runs(), 1);
  delete logic.instance;
  await check('demo.add', 'a: 1, b: 2', 'ok', 1, '3');
});

test('a broken component does not hide that a tool may have run', async () => {
  afterAnswers(servers.shop, () => {
    tireAll();
    throw new Failed('closed', undefined, true);
  });
  await check('shop.look', '', 'outcome-unknown', 1, 'may have run');
  assert.equal(runs(), 1);
});

test('an instance has so much memory and no more', () => {
  const text = 'x'.repeat(257 << 20);
  const instance = logic.instance();
  instance.millis = 60_000; // so that the time limit is not what ends it
  assert.throws(
    () => instance.ask(({ content }) => content.truncate(text, 10n, 'it is long')),
    (error) => error instanceof Broken && error.cause instanceof WebAssembly.RuntimeError,
  );
});

/** A server of a host: its tools, and how it answers a request. */
function own(tools, answer) {
  const requests = [];
  const request = async (method, params) => {
    requests.push(params);
    return answer(requests.length);
  };
  return { requests, open: async () => {}, tools: async () => tools, request, close: async () => {} };
}

const ANSWER = '{"content":[{"type":"text","text":"done"}]}';

test('what a transport throws without a phase was sent, so a writing tool does not run twice', async () => {
  const failures = [
    new Error('socket hang up'),
    new TypeError('x is not a function'),
    'a text',
    undefined,
    null,
    Object.assign(new Error('another copy of the library'), { kind: 'connect', detail: 'x', sent: false }),
    new Broken('of another instance'),
    new Failed('connect', 'reset'),
    new Failed('closed'),
    new Failed('exited', 1),
    new Failed('http', { status: 503, session: true, challenge: false }),
    new Failed('http', { status: 404, session: true, challenge: false }),
    new Failed('http', { status: 429, session: false, challenge: false, retryAfterMs: 1 }),
    new Failed('http', { status: 401, session: false, challenge: true }),
    new Failed('http', 404),
    new Failed('timeout', 5),
    new Failed('protocol'),
    new Failed('protocol', 'x', null),
    new Failed('nonsense', { so: 'what' }),
    new Failed(),
  ];
  for (const thrown of failures) {
    const server = own([{ name: 'write' }], () => { throw thrown; });
    gate = new Gate(logic, { own: server }, { log: () => {} });
    const { code } = await gate.call('own.write', '');
    assert.deepEqual([code, server.requests.length], ['outcome-unknown', 1], String(thrown));
  }
  for (const thrown of [new Failed('connect', 'refused', false), new Failed('http', { status: 404, session: true }, false)]) {
    const server = own([{ name: 'write' }], (times) => { if (times > 1) return ANSWER; throw thrown; });
    gate = new Gate(logic, { own: server }, { log: () => {} });
    const { code, attempts } = await gate.call('own.write', '');
    assert.deepEqual([code, attempts], ['ok', 2], String(thrown));
  }
});

test('tools and results are taken as MCP has them', async () => {
  const inputSchema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'], additionalProperties: false };
  const whole = {
    name: 'look', title: 'Look', description: 'Looks', inputSchema, outputSchema: {}, icons: [], execution: {}, _meta: {},
    annotations: { title: 'Look', readOnlyHint: true, destructiveHint: null },
  };
  for (const tool of [
    whole,
    { name: 'look', inputSchema, annotations: { readOnly: true } },
    { name: 'look', inputSchema: JSON.stringify(inputSchema), description: null, annotations: { readOnlyHint: true } },
  ]) {
    for (const answer of [ANSWER, JSON.parse(ANSWER)]) {
      const server = own([tool], () => answer);
      gate = new Gate(logic, { own: server }, { settings: { policy: { readOnly: true } }, log: () => {} });
      await check('own.look', { n: '5' }, 'ok', 1, 'done');
      assert.equal(server.requests[0], '{"name":"look","arguments":{"n":5}}');
      await check('own.look', '', 'invalid-arguments', 0, '"n"');
    }
  }
  const bare = own([{ name: 'look' }], () => ANSWER);
  gate = new Gate(logic, { own: bare }, { settings: { policy: { readOnly: true } }, log: () => {} });
  await check('own.look', '', 'not-allowed', 0); // it does not say that it only reads
});

test('a tool with what MCP does not have fails its server in words', async () => {
  for (const [tools, words] of [
    [[{ name: 'a', inputschema: {} }], 'tools[0] has no field inputschema; there are name, title'],
    [[{ name: 'a', annotations: { readonlyHint: true } }], 'tools[0].annotations has no field readonlyHint'],
    [[{ name: 'a', annotations: { readOnlyHint: 'yes' } }], 'readOnlyHint must be a boolean, not "yes"'],
    [[{ name: 'a', annotations: { readOnlyHint: true, readOnly: false } }], 'has both readOnlyHint and readOnly'],
    [[{ name: 'a' }, { description: 'x' }], 'tools[1].name must be a string, not undefined'],
    [[{ name: 'a', inputSchema: [] }], 'inputSchema must be a record, not a list'],
    [[{ name: 'a', inputSchema: { n: 1n } }], 'BigInt'],
    [{ tools: [] }, 'the tools must be a list'],
    [[null], 'tools[0] must be a record, not null'],
  ]) {
    const server = own(tools, () => ANSWER);
    gate = new Gate(logic, { own: server }, { log: () => {} });
    const result = await gate.call('own.a', '');
    assert.deepEqual([result.code, result.attempts], ['rpc-error', 0], result.text);
    assert.ok(result.text.includes(words), result.text);
    assert.deepEqual(await gate.tools(), []);
  }
});

test('no exception leaves a call', async () => {
  const servers = {
    none: {},
    open: { ...own([], () => ANSWER), open: () => { throw new Error('at once'); } },
    tools: { ...own([], () => ANSWER), tools: async () => undefined },
    own: own([{ name: 'write' }], (times) => [5, undefined, [], null, { n: 1n }][times - 1]),
  };
  gate = new Gate(logic, servers, { log: () => { throw new Error('the log is full'); } });
  const circular = {};
  circular.self = circular;
  for (const [name, text, code] of [
    ['none.a', '', 'rpc-error'],
    ['open.a', '', 'rpc-error'],
    ['tools.a', '', 'rpc-error'],
    ...[1, 2, 3, 4, 5].map(() => ['own.write', '', 'outcome-unknown']),
    [undefined, '', 'invalid-name'],
    [{ name: 'x' }, '', 'invalid-name'],
    [Symbol('x'), '', 'invalid-name'],
    ['own.write', circular, 'invalid-arguments'],
    ['own.write', { n: 1n }, 'invalid-arguments'],
    ['own.write', () => {}, 'invalid-arguments'],
  ]) {
    const result = await gate.call(name, text, null);
    assert.deepEqual([result.code, result.isError], [code, true], result.text);
  }
});

test('a call that a text only mentions is not read unless it is asked for', () => {
  const tools = [{ name: 'shop.look', inputSchema: { properties: { id: {} } } }];
  const text = 'Do NOT call shop.look(id=1).\nshop.look(id=2)';
  assert.deepEqual(logic.readCalls(text, tools).map((call) => [call.arguments, call.standing]), [['{"id":2}', 'own-line']]);
  const all = logic.readCalls(text, tools, { loose: true });
  assert.deepEqual(all.map((call) => call.standing), ['inline', 'own-line']);
  assert.throws(() => logic.readCalls(text, tools, { lose: true }), TypeError);
});

test('a directive of a later version is a failure', async () => {
  const { tag, val } = await gate.carryOut({ tag: 'dance', val: 3 }, performance.now() + 1000);
  assert.deepEqual([tag, val.failure.tag], ['failed', 'protocol']);
});
