/** Tests the launcher: `LAUNCHER` is its file, `NODE` runs it, and `TOOLGATE` is the program that it starts. */

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

const { LAUNCHER, NODE, TOOLGATE } = process.env;
const limit = { timeout: 60_000 };
const home = mkdtempSync(join(tmpdir(), 'toolgate-launcher-'));
process.on('exit', () => rmSync(home, { recursive: true }));
const env = { ...process.env, HOME: home, XDG_RUNTIME_DIR: home };
delete env.NODE_TEST_CONTEXT;

const version = JSON.stringify({
  jsonrpc: '2.0', id: 1, method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '0' } },
});

/** Starts a gateway over the demo server by the launcher, and asks it `initialize`. */
async function serve() {
  const config = join(home, 'toolgate.yaml');
  writeFileSync(config, `servers: {demo: {command: ${JSON.stringify(TOOLGATE)}, args: [demo-server]}}\n`);
  const gateway = spawn(NODE, [LAUNCHER, 'serve', '--config', config], { stdio: ['pipe', 'pipe', 'pipe'], cwd: home, env });
  gateway.stderr.resume();
  gateway.stdin.on('error', () => {}); // the gateway may have ended
  gateway.stdin.write(`${version}\n`);
  const [line] = await once(createInterface({ input: gateway.stdout }), 'line');
  assert.equal(JSON.parse(line).result.serverInfo.name, 'toolgate');
  return gateway;
}

/** The processes that a process has started and that run. */
function children(pid) {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
}

/** All processes below one, and itself. */
function family(pid) {
  return [pid, ...children(pid).flatMap(family)];
}

function isAlive(pid) {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('output, errors and exit codes are those of the program', limit, () => {
  for (const args of [
    ['call', 'demo__add', 'a: 1, b: 2'], ['call', 'demo__nothing'], ['call', 'demo__fail', 'message: no'], ['--version'],
    ['nonsense'], ['call', 'demo__echo', 'text: "two  words; $HOME *"'],
  ]) {
    const given = { cwd: home, env, encoding: 'utf8' };
    const [direct, launched] = [spawnSync(TOOLGATE, args, given), spawnSync(NODE, [LAUNCHER, ...args], given)];
    assert.notEqual(direct.status, null);
    for (const key of ['status', 'signal', 'stdout', 'stderr']) assert.equal(launched[key], direct[key], `${key} of ${args}`);
  }
});

test('standard input arrives as it is', limit, () => {
  const input = `${JSON.stringify({ op: 'normalize', name: 'a__b' })}\n`.repeat(2000);
  const given = { cwd: home, env, encoding: 'utf8', input, maxBuffer: 64 << 20 };
  const direct = spawnSync(TOOLGATE, ['eval'], given);
  const launched = spawnSync(NODE, [LAUNCHER, 'eval'], given);
  assert.deepEqual([launched.status, launched.stdout], [direct.status, direct.stdout]);
  assert.ok(direct.stdout.split('\n').length > 2000, direct.stdout.slice(0, 200));
});

test('the end of standard input ends both', limit, async () => {
  const gateway = await serve();
  gateway.stdin.end();
  const [code, signal] = await once(gateway, 'close');
  assert.deepEqual([code, signal], [0, null]);
});

test('a signal to the launcher ends both, with the exit code of the program', limit, async () => {
  for (const signal of ['SIGTERM', 'SIGINT']) {
    const direct = spawn(TOOLGATE, ['demo-server'], { stdio: ['pipe', 'pipe', 'ignore'], cwd: home, env });
    direct.stdin.write(`${version}\n`);
    await once(direct.stdout, 'data');
    direct.kill(signal);
    const [directCode, directSignal] = await once(direct, 'close');
    const launched = spawn(NODE, [LAUNCHER, 'demo-server'], { stdio: ['pipe', 'pipe', 'ignore'], cwd: home, env });
    launched.stdin.write(`${version}\n`);
    await once(launched.stdout, 'data');
    launched.kill(signal);
    assert.deepEqual(await once(launched, 'close'), [directCode, directSignal], signal);
    const gateway = await serve();
    const all = family(gateway.pid);
    gateway.kill(signal);
    await once(gateway, 'close');
    assert.deepEqual(all.filter(isAlive), [], signal);
  }
});

test('a program that a signal ends makes the launcher end by it', limit, async () => {
  for (const signal of ['SIGUSR1', 'SIGUSR2']) {
    const gateway = await serve();
    gateway.kill(signal);
    assert.deepEqual(await once(gateway, 'close'), [null, signal]);
  }
  const gateway = await serve();
  const program = family(gateway.pid).find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes('serve') && !isNode(pid));
  process.kill(program, 'SIGKILL');
  assert.deepEqual(await once(gateway, 'close'), [null, 'SIGKILL']);
});

test('a launcher that is killed leaves nothing behind, even while its client keeps the input open', limit, async () => {
  const gateway = await serve();
  const all = family(gateway.pid);
  gateway.kill('SIGKILL');
  // The output is closed when the last process that has it is gone.
  await once(gateway, 'close');
  const deadline = Date.now() + 20_000; // the guard and the watchdog of the servers have no output to wait for
  while (all.some(isAlive) && Date.now() < deadline) await new Promise(setImmediate);
  assert.deepEqual(all.filter(isAlive), []);
});

test('a package that is missing is named, with the command that installs it', limit, () => {
  const folder = join(home, 'node_modules/toolgate');
  mkdirSync(join(folder, 'bin'), { recursive: true });
  cpSync(LAUNCHER, join(folder, 'bin/toolgate.js'));
  cpSync(join(dirname(LAUNCHER), '../package.json'), join(folder, 'package.json'));
  const run = (...flags) => spawnSync(NODE, [...flags, join(folder, 'bin/toolgate.js')], { encoding: 'utf8', env });
  const { status, stderr } = run();
  assert.equal(status, 70);
  assert.match(stderr, /^error: the package @toolgate\/\S+ is not installed.*Install version \d\S+ of both again, with --include=optional/);
  // Nor is it taken from the working directory, whatever the environment says.
  const work = join(home, 'work');
  const planted = join(work, 'node_modules', `@toolgate/${process.platform}-${process.arch}`, 'bin');
  mkdirSync(planted, { recursive: true });
  writeFileSync(join(planted, 'toolgate'), '#!/bin/sh\necho planted\n', { mode: 0o755 });
  const misled = { encoding: 'utf8', cwd: work, env: { ...env, NODE_PATH: 'node_modules', PATH: `.:${env.PATH}` } };
  const found = spawnSync(NODE, [join(folder, 'bin/toolgate.js'), '--version'], misled);
  assert.deepEqual([found.status, found.stdout], [70, '']);
  const other = join(home, 'other.cjs');
  writeFileSync(other, "Object.defineProperty(process, 'platform', { value: 'beos' });\n");
  assert.match(run('--require', other).stderr, /^error: there is no binary for beos-\w+, only for linux-x64, /);
});

function isNode(pid) {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0] === NODE;
}
