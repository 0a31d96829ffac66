/** Makes the npm packages: `node packages/npm/pack.mjs --out DIR [--components DIR] [--binary FILE]… [--extras DIR] [--tools DIR]`.

    --components DIR   DIR/logic.wasm becomes @toolgate/logic, with the WIT of this tree
    --binary FILE      becomes the package of its platform, such as @toolgate/linux-x64; may be repeated
    --extras DIR       completions and man pages, as they are below /usr/share; they become share/ of the package toolgate
    --tools DIR        where jco is, or will be installed; without it, the folder of this file

With a binary or extras, the package toolgate is made too. The same inputs make the same bytes. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { shapesOf } from './shapes.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MEMORY_PAGES = 4096; // of one instance: 256 MiB
// The machine's number in the header of an executable, by its format.
const PLATFORMS = {
  '7f454c46': { at: 18, bytes: 2, 0x3e: 'linux-x64', 0xb7: 'linux-arm64' },
  cffaedfe: { at: 4, bytes: 4, 0x1000007: 'darwin-x64', 0x100000c: 'darwin-arm64' },
};

const { values: options } = parseArgs({
  options: {
    out: { type: 'string' },
    components: { type: 'string' },
    binary: { type: 'string', multiple: true, default: [] },
    extras: { type: 'string' },
    tools: { type: 'string', default: HERE },
  },
});
if (!options.out) fail('--out DIR is missing');

const workspace = readFileSync(join(ROOT, 'Cargo.toml'), 'utf8').split('[workspace.package]')[1];
const about = (key) => workspace.match(new RegExp(`^${key} = "(.*)"`, 'm'))[1];
const version = about('version');
const out = resolve(options.out);
const work = mkdtempSync(join(tmpdir(), 'toolgate-npm-'));
process.on('exit', () => rmSync(work, { recursive: true }));
mkdirSync(out, { recursive: true });
if (options.components) packLogic(resolve(options.components, 'logic.wasm'));
for (const binary of options.binary) packBinary(binary);
if (options.binary.length > 0 || options.extras) packCommand();

/** Transpiles the component, and makes the library of it. */
function packLogic(file) {
  if (!existsSync(file)) fail(`${file} is missing: toolgate component --out ${file}`);
  const folder = folderOf('logic', { description: 'The decisions of toolgate, for Node.js and browsers' });
  rmSync(join(folder, 'test'), { recursive: true });
  cpSync(join(ROOT, 'wit'), join(folder, 'wit'), { recursive: true });
  const transpiled = join(folder, 'component');
  const jco = join(tools(), 'node_modules/.bin/jco');
  const flags = ['--name', 'logic', '--instantiation', 'sync', '--no-wasi-shim', '--quiet'];
  execFileSync(process.execPath, [jco, 'transpile', file, '-o', transpiled, ...flags], { stdio: 'inherit' });
  const modules = readdirSync(transpiled).filter((name) => name.endsWith('.wasm'));
  const main = join(transpiled, 'logic.core.wasm');
  writeFileSync(main, withMemoryLimit(readFileSync(main)));
  // Bundlers find files by this expression.
  const urls = modules.map((name) => `  '${name}': new URL('./${name}', import.meta.url),\n`);
  writeFileSync(join(transpiled, 'modules.mjs'), `export const urls = {\n${urls.join('')}};\n`);
  // By this, a page can say which component it runs, and that its modules are those of this package.
  const digestOf = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');
  const digests = Object.fromEntries(modules.map((name) => [name, digestOf(join(transpiled, name))]));
  const component = { version, bytes: statSync(file).size, sha256: digestOf(file), modules: digests };
  writeFileSync(join(transpiled, 'component.json'), `${JSON.stringify(component, undefined, 2)}\n`);
  const shapes = shapesOf(join(transpiled, 'interfaces'), 'toolgate-logic-execution.d.ts', 'Settings');
  writeFileSync(join(transpiled, 'shapes.mjs'), `export default ${JSON.stringify(shapes, undefined, 1)};\n`);
  pack(folder);
}

/** Gives the memory of a core module a maximum, so that every engine bounds it. */
function withMemoryLimit(bytes) {
  const number = (at) => { // LEB128
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return [value, at];
    }
  };
  const encode = (value) => (value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...encode(Math.floor(value / 0x80))]);
  for (let at = 8; at < bytes.length; ) {
    const [size, start] = number(at + 1);
    if (bytes[at] === 5) { // the memory section: one memory, whose flags say that it has no maximum
      const [initial, end] = number(start + 2);
      if (bytes[start] !== 1 || bytes[start + 1] !== 0 || end !== start + size) fail('the component has other memories than expected');
      const memory = [1, 1, ...encode(initial), ...encode(MEMORY_PAGES)];
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([5, ...encode(memory.length), ...memory]), bytes.subarray(end)]);
    }
    at = start + size;
  }
  return fail('the component has no memory of its own');
}

/** Makes the package of one platform, which the header of the binary tells. */
function packBinary(binary) {
  const header = readFileSync(binary).subarray(0, 32);
  const { at, bytes, ...machines } = PLATFORMS[header.toString('hex', 0, 4)] ?? fail(`${binary} is no program for Linux or macOS`);
  const platform = machines[header.readUIntLE(at, bytes)] ?? fail(`${binary} is for a processor that has no package`);
  const folder = folderOf(platform, {
    name: `@toolgate/${platform}`,
    description: `The program of the package toolgate for ${platform}`,
    license: about('license'),
    files: ['bin'],
    os: [platform.split('-')[0]],
    cpu: [platform.split('-')[1]],
    preferUnplugged: true, // Yarn keeps other packages in archives, from which nothing can be executed
  });
  mkdirSync(join(folder, 'bin'));
  copyFileSync(binary, join(folder, 'bin/toolgate'));
  chmodSync(join(folder, 'bin/toolgate'), 0o755);
  writeFileSync(join(folder, 'README.md'), `The program of the npm package \`toolgate\` for ${platform}. Install it together with that package.\n`);
  pack(folder);
}

/** Makes the package with the command. */
function packCommand() {
  const manifest = readManifest('command');
  const optionalDependencies = Object.fromEntries(Object.keys(manifest.optionalDependencies).map((name) => [name, version]));
  const folder = folderOf('command', { description: about('description'), optionalDependencies, ...(options.extras && man()) });
  if (options.extras) cpSync(options.extras, join(folder, 'share'), { recursive: true });
  pack(folder);
}

/** The man pages among the extras, for the manifest: npm links those of a global package to where man finds them. */
function man() {
  const pages = readdirSync(join(options.extras, 'man/man1')).sort();
  return { man: pages.map((page) => `share/man/man1/${page}`) };
}

/** Makes the folder of a package: what the tree has of it, its manifest, and the licence. */
function folderOf(name, more) {
  const folder = join(work, name);
  const isInTree = existsSync(join(HERE, name));
  if (isInTree) cpSync(join(HERE, name), folder, { recursive: true });
  else mkdirSync(folder);
  copyFileSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
  const manifest = { ...(isInTree ? readManifest(name) : {}), version, keywords: ['mcp', 'agent', 'wasm', 'gateway'], ...more };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
  return folder;
}

function readManifest(name) {
  return JSON.parse(readFileSync(join(HERE, name, 'package.json'), 'utf8'));
}

/** Makes the archive of a package. */
function pack(folder) {
  const [made] = JSON.parse(execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', out], { cwd: folder }));
  console.log(`${join(out, made.filename)}: ${made.entryCount} files, ${Math.ceil(made.size / 1024)} KiB`);
}

/** Returns the folder with jco, after installing the version that `package.json` names if it is not there. */
function tools() {
  const folder = resolve(options.tools);
  const manifest = join(HERE, 'package.json');
  const stamp = join(folder, 'node_modules/package.json.done');
  if (!existsSync(stamp) || !readFileSync(stamp).equals(readFileSync(manifest))) {
    mkdirSync(folder, { recursive: true });
    if (folder !== resolve(HERE)) for (const name of ['package.json', '.npmrc']) copyFileSync(join(HERE, name), join(folder, name));
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'];
    execFileSync('npm', ['install', ...flags], { cwd: folder, stdio: 'inherit' });
    copyFileSync(manifest, stamp); // last, so that what was interrupted is done again
  }
  return folder;
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(2);
}
