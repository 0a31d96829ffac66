/** Tests the questions that belong to no gate, and settings that come from a file. */

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Broken, Gate, Logic, Refused, settingsFromFile, settingsFromJson } from '@toolgate/logic';

const logic = await Logic.load();
const tool = (name, description) => ({ name, description, annotations: {} });
const offers = [{ server: 'bank', tools: [tool('pay', 'sends money'), tool('list', 'shows accounts')] }];

test('names, arguments, masks, filters and calls in a text', () => {
  assert.deepEqual(logic.splitName('bank__pay'), { server: 'bank', tool: 'pay' });
  assert.deepEqual(logic.splitName('mcp__bank__pay'), { server: 'bank', tool: 'pay' });
  assert.equal(logic.parseArguments('a: 1, b: 2').arguments, '{"a":1,"b":2}');
  const schema = { type: 'object', properties: { a: { type: 'string' } } };
  assert.equal(logic.parseArguments('a: 1', schema).arguments, '{"a":"1"}');
  assert.equal(logic.mask('mail me@example.com', { patterns: ['email'] }), logic.mask('mail me@example.com', { patterns: ['email'] }));
  assert.ok(!logic.mask('mail me@example.com', { patterns: ['email'] }).includes('me@'));
  assert.ok(!logic.maskJson({ mail: 'me@example.com' }, { patterns: ['email'] }).includes('me@'));
  assert.deepEqual(logic.filter({ deny: ['s*'] }, ['add', 'sleep']), ['add']);
  assert.deepEqual(logic.filter({ allow: [] }, ['add']), []);
  assert.deepEqual(logic.resolve('bank.pay', offers).tool, { server: 'bank', tool: 'pay' });
  assert.equal(logic.search('money', offers)[0].tool.tool, 'pay');
  assert.equal(logic.ask(({ naming }) => naming.normalize('a__b')), 'a.b');
});

test('a refusal has its case, and a misspelt mask or rule is no question', () => {
  assert.throws(() => logic.splitName('nonsense'), (error) => error instanceof Refused && error.payload.problem === 'invalid-name');
  assert.throws(() => logic.mask('', { groups: ['nonsense'] }), (error) => error.payload.tag === 'unknown-group');
  assert.throws(() => logic.mask('', { pattern: ['email'] }), /masks has no field pattern; there are groups/);
  assert.throws(() => logic.filter({ denied: ['s*'] }, []), /rules has no field denied/);
  for (const [wrong, words] of [
    [() => logic.mask('', null), /masks must be a record, not null/],
    [() => logic.mask('', new Map([['groups', ['all']]])), /masks must be a record, not a Map/],
    [() => logic.maskJson({}, ['email']), /masks must be a record, not a list/],
    [() => logic.filter(null, []), /rules must be a record, not null/],
    [() => logic.filter(new Map([['deny', ['s*']]]), []), /rules must be a record, not a Map/],
  ]) assert.throws(wrong, words);
});

test('without masks, all of them look at a text; masks that name nothing find nothing', () => {
  const text = 'mail me@example.com';
  assert.equal(logic.mask(text), 'mail [MASKED_EMAIL]');
  assert.equal(logic.mask(text, undefined), logic.mask(text, { groups: ['all'] }));
  assert.equal(logic.maskJson({ text }), '{"text":"mail [MASKED_EMAIL]"}');
  assert.equal(logic.mask(text, {}), text);
});

test('a refusal says in words what is wrong', () => {
  const refused = (words) => (error) => error instanceof Refused && error.name === 'Refused' && words.test(error.message);
  assert.throws(() => logic.mask('', { patterns: ['emial'] }), refused(/^unknown pattern "emial"; known: .*\bemail\b/));
  assert.throws(() => logic.mask('', { custom: [{ pattern: 'a(', replacement: '' }] }), refused(/^bad pattern "a\("; reason: /));
  assert.throws(() => logic.parseArguments(`${'['.repeat(5000)}`), refused(/^too deep: \d+$/));
  assert.throws(() => logic.splitName('nonsense'), refused(/^[^{]*nonsense/));
  const settings = { ...logic.defaultSettings([]), masks: { groups: ['nonsense'], patterns: [], custom: [] } };
  assert.throws(() => logic.ask(({ execution }) => new execution.Gate(settings)), refused(/^masks: unknown group "nonsense"; known: /));
});

test('an endless question ends, and the next one is answered', async () => {
  for (const millis of [0, -1, NaN, Infinity, '50']) await assert.rejects(Logic.load({ millis }), /millis must be a positive number, not/);
  await assert.rejects(Logic.load({ milis: 50 }), /options has no field milis; there are millis/);
  assert.equal((await Logic.load({ millis: 2 ** 40 + 0.5 })).parseArguments('a: 1').arguments, '{"a":1}');
  const hasty = await Logic.load({ millis: 50 });
  assert.throws(() => hasty.ask(() => { for (;;); }), Broken);
  assert.equal(hasty.parseArguments('a: 1').arguments, '{"a":1}');
});

// As `toolgate settings` prints them, with everything that has another name or form there.
const written = {
  policy: {
    servers: [{
      id: 'bank', allow: ['*'], deny: ['list'], ask: ['pay'], requires: [],
      tools: [{ tool: 'pay', annotations: { read_only: true }, requires: ['money'] }],
    }],
    selection: [{ name: 'bank', tools: [] }], choice: null, read_only: false, destructive: 'ask', capabilities: null,
  },
  style: { fitted: { target: 'openai', prefix: 'p' } },
  bare_names: false, describe_server: false, check_arguments: true, retry: 'safe',
  masking: { groups: ['basic'], patterns: [], custom: [{ pattern: 'a+', replacement: '[A]' }] },
  server_settings: [{
    server: 'bank', masking: { groups: [], patterns: [], custom: [] }, summarize_above_tokens: 5, structured_text: true,
  }],
  form: 'pass-through', max_result_bytes: 18446744073709551615, spill: false, summarize_above_tokens: null, ask_max_bytes: 7,
  rules: {
    lists: [[
      { name: 'r', tools: ['bank.*'], when: 'args.x == 1', then: { label: ['l'] }, limit: { calls: 1, per_ms: 2, by: 'everybody' } },
      { name: 's', tools: ['bank.pay'], then: 'deny', because: 'b' },
    ]],
    results: [{ tools: 'bank.list', labels: ['l'], trusted: true, trusted_fields: ['f'] }],
    known: ['@example.com'],
  },
  search: { above_tools: 60, above_tokens: 10000, always: [], style: null },
};

test('settings are read from the JSON that toolgate writes', () => {
  const settings = settingsFromJson(JSON.stringify(written));
  assert.deepEqual(settings.policy.servers[0].rules, { allow: ['*'], deny: ['list'] });
  assert.equal(settings.policy.servers[0].tools[0].annotations.readOnly, true);
  assert.deepEqual(settings.policy.selection, [{ id: 'bank', tools: [] }]);
  assert.deepEqual(settings.style, { tag: 'fitted', val: { target: 'openai', prefix: 'p' } });
  assert.equal(settings.maxResultBytes, 2n ** 64n - 1n);
  assert.equal(settings.summarizeAboveTokens, undefined);
  const [label, deny] = settings.rules.lists[0];
  assert.deepEqual([label.condition, label.effect, label.limit.perMs], ['args.x == 1', { tag: 'label', val: ['l'] }, 2n]);
  assert.deepEqual([deny.condition, deny.effect], [undefined, { tag: 'deny' }]);
  const { rules, search, ...older } = written;
  assert.deepEqual(settingsFromJson(older).rules, { lists: [], results: [], known: [] });
  new Gate(logic, { bank: {} }, { settings });
});

test('settings of which something is not known, missing or of another type are refused', () => {
  const changed = (change) => {
    const settings = structuredClone(written);
    change(settings);
    return () => settingsFromJson(settings);
  };
  for (const [wrong, words] of [
    [changed((it) => { it.policy.servers[0].denied = []; }), /servers\[0\] has "denied", which this version/],
    [changed((it) => { delete it.policy.servers[0].deny; }), /rules.deny must be a list/],
    [changed((it) => { it.rules.lists[0][1].then = 'drop'; }), /effect must be a record whose tag is one of deny/],
    [changed((it) => { it.style = { fitted: {}, dot: {} }; }), /style has "fitted"/],
    [changed((it) => { it.policy.destructive = 'refuse'; }), /one of allow, ask, deny/],
    [changed((it) => { it.spill = 'no'; }), /spill must be a boolean/],
  ]) assert.throws(wrong, words);
});

test('a part of the settings is enough if there are defaults for the rest', () => {
  const defaults = logic.defaultSettings(['bank', 'mail']);
  assert.deepEqual(settingsFromJson({}, defaults), defaults);
  assert.deepEqual(settingsFromJson(written, defaults), settingsFromJson(written));
  const rule = { name: 'r', tools: ['bank.*'], then: 'deny' };
  const servers = [{ id: 'bank', deny: ['list'], tools: [{ tool: 'pay', annotations: { read_only: true } }] }];
  const part = { policy: { servers, destructive: 'deny' }, rules: { lists: [[rule]], results: [{ tools: 'mail.*' }] }, spill: null };
  assert.throws(() => settingsFromJson(part, defaults), /spill must be a boolean/);
  const { policy, rules, retry } = settingsFromJson({ ...part, spill: true }, defaults);
  assert.deepEqual([policy.destructive, policy.readOnly, retry], ['deny', defaults.policy.readOnly, defaults.retry]);
  assert.deepEqual(policy.servers[0].rules, { allow: undefined, deny: ['list'] });
  assert.deepEqual([policy.servers[0].ask, policy.servers[0].tools[0].annotations.destructive], [[], undefined]);
  assert.deepEqual([rules.lists[0][0].condition, rules.known], [undefined, []]);
  assert.deepEqual(rules.results, [{ tools: 'mail.*', labels: [], trusted: false, trustedFields: [] }]);
  for (const [wrong, words] of [
    [{ polcy: {} }, /settings has "polcy"/],
    [{ policy: { servers: [{ deny: [] }] } }, /servers\[0\].id must be a string/],
    [{ policy: [] }, /policy must be a record/],
    [{ rules: { lists: [[{ ...rule, then: {} }]] } }, /effect must be a record whose tag/],
    [[], /settings must be a record/],
    [7, /settings must be a record/],
  ]) assert.throws(() => settingsFromJson(wrong, defaults), words);
});

test('the package says of which component it was made', async () => {
  const { default: made } = await import('@toolgate/logic/component.json', { with: { type: 'json' } });
  assert.match(made.sha256, /^[0-9a-f]{64}$/);
  const folder = new URL('.', import.meta.resolve('@toolgate/logic/component.json'));
  for (const [name, digest] of Object.entries(made.modules)) {
    assert.equal(createHash('sha256').update(readFileSync(new URL(name, folder))).digest('hex'), digest, name);
  }
  assert.ok(made.modules['logic.core.wasm']);
});

test('a file is read by toolgate, and what it says against it is the error', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolgate-logic-'));
  const program = (name, script) => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, name), 0o755);
    return { toolgate: join(folder, name) };
  };
  try {
    writeFileSync(join(folder, 'settings.json'), JSON.stringify(written));
    const reads = program('reads', `test "$*" = 'settings --config a.yaml' && cat '${folder}/settings.json'`);
    assert.deepEqual(await settingsFromFile('a.yaml', reads), settingsFromJson(written));
    const refuses = program('refuses', 'echo "error: a.yaml:1:1: no" >&2; exit 2');
    await assert.rejects(settingsFromFile('a.yaml', refuses), /refuses cannot read the settings of a.yaml: error: a.yaml:1:1: no/);
    await assert.rejects(settingsFromFile('a.yaml', { toolgate: join(folder, 'none') }), /there is no such program. Install it/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('toolgate is found where npm has installed it, or else in PATH, and never in the working directory', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'toolgate-logic-'));
  const besideLibrary = fileURLToPath(new URL('../node_modules', import.meta.url));
  const [cwd, { PATH, NODE_PATH }] = [process.cwd(), process.env];
  const prints = (what) => `#!${process.execPath}\nprocess.stdout.write(${JSON.stringify(JSON.stringify(what))});\n`;
  const install = (modules, what) => {
    mkdirSync(join(modules, 'toolgate/bin'), { recursive: true });
    writeFileSync(join(modules, 'toolgate/package.json'), '{"bin": {"toolgate": "bin/toolgate.js"}}');
    writeFileSync(join(modules, 'toolgate/bin/toolgate.js'), prints(what)); // not executable: Node.js runs it
  };
  const program = (place, what) => {
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, 'toolgate'), prints(what));
    chmodSync(join(place, 'toolgate'), 0o755);
  };
  try {
    const [work, bin] = [join(folder, 'work'), join(folder, 'bin')];
    // Whatever a folder that came with a download may have.
    program(work, { by: 'the working directory' });
    program(join(work, 'bin'), { by: 'the working directory' });
    install(join(work, 'node_modules'), { by: 'the working directory' });
    program(join(work, 'node_modules/.bin'), { by: 'the working directory' });
    process.chdir(work);
    process.env.NODE_PATH = `node_modules:${join(work, 'node_modules')}`;
    for (const path of ['', '.', ':', 'bin:.:./bin', `node_modules/.bin:${folder}/none`]) {
      process.env.PATH = path;
      if (existsSync(join(besideLibrary, 'toolgate'))) {
        await assert.rejects(settingsFromFile('a.yaml'), /toolgate\.js cannot read the settings of a.yaml/);
      } else {
        await assert.rejects(settingsFromFile('a.yaml'), /there is no program `toolgate` to read a.yaml: Install it/, path);
      }
      await assert.rejects(settingsFromFile('a.yaml', { toolgate: 'toolgate' }), /there is no program `toolgate` to read/, path);
    }
    program(bin, { by: 'PATH' });
    process.env.PATH = `.:${bin}`;
    await assert.rejects(settingsFromFile('a.yaml', { toolgate: 'toolgate' }), /settings has "by"/);
    await assert.rejects(settingsFromFile('a.yaml', { toolgate: join(bin, 'toolgate') }), /settings has "by"/);
    if (!existsSync(join(besideLibrary, 'toolgate'))) {
      await assert.rejects(settingsFromFile('a.yaml'), /settings has "by"/);
      install(besideLibrary, written);
      const reads = settingsFromFile('a.yaml').finally(() => rmSync(join(besideLibrary, 'toolgate'), { recursive: true }));
      assert.deepEqual(await reads, settingsFromJson(written));
    }
    await assert.rejects(settingsFromFile('a.yaml', { tolgate: 'x' }), /options has no field tolgate; there are toolgate/);
  } finally {
    process.chdir(cwd);
    process.env.PATH = PATH;
    if (NODE_PATH === undefined) delete process.env.NODE_PATH;
    else process.env.NODE_PATH = NODE_PATH;
    rmSync(folder, { recursive: true });
  }
});
