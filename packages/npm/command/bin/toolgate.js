#!/usr/bin/env node
'use strict';
// Runs the binary of this platform in the place of this process, or as its child where Node cannot replace itself.

const { accessSync, constants, existsSync, realpathSync } = require('node:fs');
const { basename, dirname, join } = require('node:path');

const platform = `${process.platform}-${process.arch}`;
const program = find();
const args = process.argv.slice(2);

if (process.execve) process.execve(program, [program, ...args], process.env);
else runAsChild();

/** Returns the path of the binary, or says what to do if it is not there. */
function find() {
  const name = `@toolgate/${platform}`;
  const { version, optionalDependencies } = require('../package.json');
  const file = installed(`${name}/bin/toolgate`);
  try {
    accessSync(file ?? '', constants.X_OK);
    return file;
  } catch (error) {
    const mend = !(name in optionalDependencies)
      ? `there is no binary for ${platform}, only for ${Object.keys(optionalDependencies).map((name) => name.slice(10)).join(', ')}`
      : file === undefined
        ? `the package ${name} is not installed. npm leaves it out with --omit=optional or --no-optional, and if ` +
          `node_modules comes from another system. Install version ${version} of both again, with --include=optional`
        : `${error.path} cannot be executed (${error.code}). Delete node_modules and install toolgate again`;
    console.error(`error: ${mend}`);
    process.exit(70);
  }
}

/** Returns a file of a package that is installed with this one: in it, or in a `node_modules` that this one is in. */
function installed(file) {
  if (process.versions.pnp) return resolved(file); // Yarn has no node_modules
  // `require.resolve` would also ask NODE_PATH, which may name folders relative to the working directory.
  let folder = dirname(realpathSync(__dirname));
  const nested = join(folder, 'node_modules', file);
  if (existsSync(nested)) return nested;
  while (dirname(folder) !== folder) {
    folder = dirname(folder);
    if (basename(folder) === 'node_modules' && existsSync(join(folder, file))) return join(folder, file);
  }
  return undefined;
}

function resolved(file) {
  try {
    return require.resolve(file);
  } catch {
    return undefined;
  }
}

/** Runs the binary as a child that gets this process's signals and streams, ends as it ends, and does not outlive it. */
function runAsChild() {
  const { spawn } = require('node:child_process');
  const { isatty } = require('node:tty');
  const child = spawn(program, args, { stdio: 'inherit' });
  child.on('error', (error) => {
    console.error(`error: ${program} does not start: ${error.message}`);
    process.exit(70);
  });
  // If this process is killed, the pipe closes and the shell ends the child.
  const guard = child.pid && spawn('/bin/sh', ['-c', 'read -r _; kill -TERM "$1"', 'sh', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  guard?.on('error', () => {}); // without a shell, the child ends when its standard input does
  const onTerminal = [0, 1, 2].some(isatty);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2']) {
    process.on(signal, () => {
      // A terminal sends these to the child too, and a second one would cut short how the child ends.
      if (!(onTerminal && (signal === 'SIGINT' || signal === 'SIGQUIT'))) child.kill(signal);
    });
  }
  child.on('exit', (code, signal) => {
    guard?.kill('SIGKILL');
    if (!signal) process.exit(code);
    process.removeAllListeners(signal);
    process.exitCode = 128 + require('node:os').constants.signals[signal];
    process.kill(process.pid, signal);
  });
}
