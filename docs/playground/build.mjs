/** Puts the page together with the component: `node docs/playground/build.mjs PACKAGE.tgz DIR`.

`packages/npm/pack.mjs --components DIR --out DIR` makes the package `toolgate-logic-VERSION.tgz`. Any server of static files can serve
the folder, under any path. */

import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const THEME = fileURLToPath(new URL('../../host/src/theme.css', import.meta.url));
const PAGE = ['index.html', 'icon.svg', 'playground.css', 'page.js', 'answers.js', 'elements.js', 'examples.js', 'questions.js', 'tools.js', 'worker.js'];
// Of the package, what a browser needs.
const LOGIC = /^(LICENSE|(checks|logic|settings|settings-json)\.mjs|component\/[^/]+\.(m?js|json|wasm))$/;

const [archive, folder] = process.argv.slice(2);
if (!archive || !folder) {
  console.error('usage: node docs/playground/build.mjs PACKAGE.tgz DIR');
  process.exit(2);
}
const out = resolve(folder);
const work = mkdtempSync(join(tmpdir(), 'toolgate-playground-'));
try {
  execFileSync('tar', ['-xzf', resolve(archive), '-C', work]);
  const unpacked = join(work, 'package');
  if (!existsSync(join(unpacked, 'component/component.json'))) {
    console.error(`error: ${archive} is not the package of packages/npm/logic`);
    process.exitCode = 2;
  } else {
    rmSync(join(out, 'logic'), { recursive: true, force: true });
    mkdirSync(join(out, 'logic/component'), { recursive: true });
    for (const name of PAGE) cpSync(join(HERE, name), join(out, name));
    cpSync(THEME, join(out, 'theme.css'));
    for (const name of readdirSync(unpacked, { recursive: true })) if (LOGIC.test(name)) copy(join(unpacked, name), join(out, 'logic', name));
    console.log(`${join(out, 'index.html')} is ready to be served`);
  }
} finally {
  rmSync(work, { recursive: true });
}

/** Copies a file; modules get the ending `.js`, since not every server knows the type of `.mjs`. */
function copy(from, to) {
  if (!from.endsWith('.mjs')) cpSync(from, to);
  else writeFileSync(to.replace(/\.mjs$/, '.js'), readFileSync(from, 'utf8').replaceAll(/(from '\.[^']*)\.mjs'/g, "$1.js'"));
}
