/** The library in Node.js: a question has a time limit, and settings come from a file that toolgate reads. */

import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import vm from 'node:vm';

import { asOptions } from './checks.mjs';
import { urls } from './component/modules.mjs';
import { Logic as Shared, onceCompiled } from './logic.mjs';
import { settingsFromJson } from './settings-json.mjs';

const INSTALL = 'Install it, or give its path: { toolgate: PATH }';
const LONGEST_MILLIS = 2 ** 31 - 1; // of a script
const compile = onceCompiled(urls, async (url) => WebAssembly.compile(await readFile(url)));

export class Logic extends Shared {
  static async load(options) {
    return new Logic({ modules: await compile(), run, keep }, options);
  }
}

// Only a script has a time limit that also covers what it calls, WebAssembly included.
const context = vm.createContext({});
const script = new vm.Script('question()');

function run(question, millis) {
  const outer = context.question;
  context.question = question;
  try {
    return script.runInContext(context, { timeout: Math.min(Math.ceil(millis), LONGEST_MILLIS) });
  } finally {
    context.question = outer;
  }
}

async function keep(text) {
  const file = join(await mkdtemp(join(tmpdir(), 'result-')), 'text');
  await writeFile(file, text, { mode: 0o600 });
  return file;
}

export async function settingsFromFile(path, options = {}) {
  const { toolgate } = asOptions(options, ['toolgate']);
  const command = findCommand(toolgate);
  if (command === undefined) {
    throw new Error(`there is no program \`${toolgate ?? 'toolgate'}\` to read ${path}: ${INSTALL}`);
  }
  const [program, ...first] = command;
  const args = [...first, 'settings', '--config', path];
  const { stdout } = await promisify(execFile)(program, args, { maxBuffer: 64 << 20 }).catch((error) => {
    const why = error.code === 'ENOENT' ? `there is no such program. ${INSTALL}` : error.stderr?.trim() || error.message;
    throw new Error(`${command.at(-1)} cannot read the settings of ${path}: ${why}`, { cause: error });
  });
  return settingsFromJson(stdout);
}

/** Returns how toolgate is run: the program that was named, or the package beside this one, or what `PATH` has. */
function findCommand(named) {
  if (named !== undefined) {
    if (basename(named) !== named) return [named];
    const program = inPath(named);
    return program && [program];
  }
  const script = installedScript();
  if (script !== undefined) return [process.execPath, script];
  const program = inPath('toolgate');
  return program && [program];
}

/** Returns the script of the package `toolgate` in a `node_modules` that this library is in. */
function installedScript() {
  // `require.resolve` would also ask NODE_PATH, which may name folders relative to the working directory.
  let folder = dirname(fileURLToPath(import.meta.url));
  while (dirname(folder) !== folder) {
    folder = dirname(folder);
    const manifest = join(folder, 'toolgate/package.json');
    if (basename(folder) === 'node_modules' && existsSync(manifest)) {
      return join(dirname(manifest), JSON.parse(readFileSync(manifest, 'utf8')).bin.toolgate);
    }
  }
  return undefined;
}

/** Returns a program in `PATH`, by its whole path. Relative entries are left out: they mean the working directory. */
function inPath(name) {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder, name);
    if (isAbsolute(folder) && isExecutable(file)) return file;
  }
  return undefined;
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

export { Failed, Gate } from './gate.mjs';
export { Broken, Refused } from './logic.mjs';
export { settingsFromJson };
