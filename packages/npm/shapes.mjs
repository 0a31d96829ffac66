/** Reads the types of settings from the TypeScript declarations that jco makes of the WIT. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns a type and all that it consists of: records as their fields, variants as their cases, enums as their texts. */
export function shapesOf(folder, file, type) {
  const interfaces = new Map();
  const shapes = {};
  const homes = {};

  const load = (file) => {
    if (!interfaces.has(file)) interfaces.set(file, readInterface(readFileSync(join(folder, file), 'utf8')));
    return interfaces.get(file);
  };
  const add = (file, type) => {
    const item = type.match(/^Array<(.*)>$/)?.[1];
    if (item) return add(file, item);
    if (['boolean', 'string', 'bigint', 'number'].includes(type)) return;
    const there = load(file).imported[type];
    if (there) return add(there.file, there.name);
    if (homes[type]) {
      if (homes[type] !== file) throw new Error(`two types are named ${type}: of ${homes[type]} and ${file}`);
      return;
    }
    const shape = load(file).own[type];
    if (!shape) throw new Error(`${file} has no type ${type} that is a record, a variant or an enum`);
    homes[type] = file;
    shapes[type] = shape;
    const parts = Object.values(shape.record ?? shape.variant ?? {});
    for (const part of parts) if (part) add(file, part.replace('?', ''));
  };

  add(file, type);
  return shapes;
}

function readInterface(declarations) {
  const text = declarations.replaceAll(/\/\*[^]*?\*\//g, '');
  const own = {};
  const imported = {};
  for (const [, type, body] of text.matchAll(/export interface (\w+) \{([^}]*)\}/g)) {
    const fields = [...body.matchAll(/(\w+)(\??): ([^,\n]+)/g)];
    own[type] = { record: Object.fromEntries(fields.map(([, field, mark, part]) => [field, part + mark])) };
  }
  for (const [, type, union] of text.matchAll(/export type (\w+) = ('[^;]+');/g)) {
    own[type] = { texts: [...union.matchAll(/'([^']*)'/g)].map(([, text]) => text) };
  }
  for (const [, type, union] of text.matchAll(/export type (\w+) = (\w+(?: \| \w+)+);/g)) {
    const cases = union.split(' | ').map((name) => own[name].record);
    own[type] = { variant: Object.fromEntries(cases.map(({ tag, val }) => [tag.slice(1, -1), val ?? null])) };
  }
  for (const [, type, other, name] of text.matchAll(/export type (\w+) = import\('\.\/([\w-]+)\.js'\)\.(\w+);/g)) {
    imported[type] = { file: `${other}.d.ts`, name };
  }
  return { own, imported };
}
