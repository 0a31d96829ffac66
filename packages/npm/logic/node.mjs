/** The library in Node.js: a question has a time limit, and settings come from a file that toolgate reads. */

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import vm from 'node:vm';

import { urls } from './component/modules.mjs';
import { Logic as Shared, onceCompiled } from './logic.mjs';
import { settingsFromJson } from './settings-json.mjs';

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
    return script.runInContext(context, { timeout: millis });
  } finally {
    context.question = outer;
  }
}

async function keep(text) {
  const file = join(await mkdtemp(join(tmpdir(), 'result-')), 'text');
  await writeFile(file, text, { mode: 0o600 });
  return file;
}

export async function settingsFromFile(path, { toolgate = 'toolgate' } = {}) {
  const args = ['settings', '--config', path];
  const { stdout } = await promisify(execFile)(toolgate, args, { maxBuffer: 64 << 20 }).catch((error) => {
    const why = error.code === 'ENOENT'
      ? 'there is no such program. Install it (npm install toolgate), or give its path: { toolgate: PATH }'
      : error.stderr?.trim() || error.message;
    throw new Error(`${toolgate} cannot read the settings of ${path}: ${why}`, { cause: error });
  });
  return settingsFromJson(stdout);
}

export { Failed, Gate } from './gate.mjs';
export { Broken, Refused } from './logic.mjs';
export { settingsFromJson };
