/** Settings that accept only what the WIT defines, so that a misspelt rule is not silently ignored. */

import { readFileSync } from 'node:fs';

const folder = new URL('./logic/interfaces/', import.meta.url);
const interfaces = new Map();

/** Reads the types of a WIT interface from jco's TypeScript declarations: records are interfaces, enums are unions. */
function typesOf(file) {
  if (interfaces.has(file)) return interfaces.get(file);
  const text = readFileSync(new URL(file, folder), 'utf8').replaceAll(/\/\*[^]*?\*\//g, '');
  const types = new Map();
  interfaces.set(file, types);
  for (const [, name, body] of text.matchAll(/export interface (\w+) \{([^}]*)\}/g)) {
    const fields = [...body.matchAll(/(\w+)(\??): ([^,\n]+)/g)];
    types.set(name, { file, fields: new Map(fields.map(([, field, mark, type]) => [field, { type, optional: mark === '?' }])) });
  }
  for (const [, name, union] of text.matchAll(/export type (\w+) = ('[^;]+');/g)) {
    types.set(name, { file, texts: [...union.matchAll(/'([^']*)'/g)].map(([, text]) => text) });
  }
  for (const [, name, other, there] of text.matchAll(/export type (\w+) = import\('\.\/([\w-]+)\.js'\)\.(\w+);/g)) {
    types.set(name, typesOf(`${other}.d.ts`).get(there));
  }
  return types;
}

/** A copy of the settings that accepts only fields of the WIT, with values of their types. */
export class Settings {
  #fixed = false;

  constructor(given) {
    this.values = this.#fit('toolgate-logic-execution.d.ts', 'Settings', given, 'settings');
  }

  /** Refuses changes from now on, because they would have no effect. */
  fix() {
    this.#fixed = true;
    return this.values;
  }

  #fit(file, type, value, where) {
    const wrong = (wanted) => new TypeError(`${where} must be ${wanted}, not a value of type ${typeof value}`);
    const element = type.match(/^Array<(.*)>$/)?.[1];
    if (element) {
      if (!Array.isArray(value)) throw wrong('a list');
      return this.#guard(value.map((item, at) => this.#fit(file, element, item, `${where}[${at}]`)), (key, item) =>
        /^\d+$/.test(key) ? this.#fit(file, element, item, `${where}[${key}]`) : item);
    }
    if (['boolean', 'string', 'bigint', 'number'].includes(type)) {
      if (typeof value !== type) throw wrong(`a ${type}`);
      return value;
    }
    const { file: home, fields, texts } = typesOf(file).get(type) ?? {};
    if (texts && !texts.includes(value)) throw wrong(`one of ${texts.join(', ')}`);
    if (!fields) return value;
    if (typeof value !== 'object' || value === null) throw wrong('a record');
    const known = (field) => {
      if (!fields.has(field)) throw new TypeError(`${where} has no field ${field}; there are ${[...fields.keys()].join(', ')}`);
      return fields.get(field);
    };
    const member = (field, value) => {
      const { type, optional } = known(field);
      return optional && value === undefined ? undefined : this.#fit(home, type, value, `${where}.${field}`);
    };
    Object.keys(value).forEach(known);
    const record = Object.fromEntries([...fields.keys()].map((field) => [field, member(field, value[field])]));
    return this.#guard(record, member, (field) => field in Object.prototype || field === 'toJSON' || known(field));
  }

  #guard(target, fit, check = () => {}) {
    const change = () => {
      if (this.#fixed) throw new TypeError('the settings were fixed by the first call: make another gate');
    };
    return new Proxy(target, {
      get(target, key) {
        if (typeof key === 'string') check(key);
        return target[key];
      },
      set(target, key, value) {
        change();
        target[key] = typeof key === 'string' ? fit(key, value) : value;
        return true;
      },
      defineProperty() {
        throw new TypeError('settings are set by assignment');
      },
      deleteProperty(target, key) {
        change();
        if (!Array.isArray(target)) throw new TypeError('settings cannot be taken away; give them another value');
        return delete target[key];
      },
    });
  }
}
