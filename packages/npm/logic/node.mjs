/** The library in Node.js: a question has a time limit, and settings come from a file that toolgate reads. */

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import vm from 'node:vm';

import { asOptions } from './checks.mjs';
import { urls } from './component/modules.mjs';
import { Logic as Shared, onceCompiled } from './logic.mjs';
import { settingsFromJson } from './settings-json.mjs';

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
  const [program, ...first] = toolgate === undefined ? findCommand() : [toolgate];
  const args = [...first, 'settings', '--config', path];
  const { stdout } = await promisify(execFile)(program, args, { maxBuffer: 64 << 20 }).catch((error) => {
    const why = error.code === 'ENOENT'
      ? 'there is no such program. Install it, or give its path: { toolgate: PATH }'
      : error.stderr?.trim() || error.message;
    throw new Error(`${[program, ...first].at(-1)} cannot read the settings of ${path}: ${why}`, { cause: error });
  });
  return settingsFromJson(stdout);
}

/** Returns how toolgate is run: by its package, which is seldom in `PATH`, or else from `PATH`. */
function findCommand() {
  for (const place of [join(process.cwd(), 'here.js'), import.meta.url]) {
    try {
      const require = createRequire(place);
      const manifest = 'toolgate/package.json';
      return [process.execPath, join(dirname(require.resolve(manifest)), require(manifest).bin.toolgate)];
    } catch {
      // It is not installed there.
    }
  }
  return ['toolgate'];
}

export { Failed, Gate } from './gate.mjs';
export { Broken, Refused } from './logic.mjs';
export { settingsFromJson };
