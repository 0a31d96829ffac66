/** Settings that accept only what the WIT defines, so that a misspelt rule is not silently ignored. */

import { asRecord, checkField, isRecord, mismatch } from './checks.mjs';
import shapes from './component/shapes.mjs';

/** A copy of the settings that accepts only fields of the WIT, with values of their types. */
export class Settings {
  #fixed = false;

  constructor(given) {
    this.values = this.#fit('Settings', given, 'settings');
  }

  /** Refuses changes from now on, because they would have no effect. */
  fix() {
    this.#fixed = true;
    return this.values;
  }

  /** Takes over the fields that are given; records are merged, lists and everything else are replaced. */
  merge(given, into = this.values) {
    const isMerged = (value) => isRecord(value) && !('tag' in value);
    for (const [field, value] of Object.entries(asRecord(given, 'settings'))) {
      if (isMerged(into[field]) && isMerged(value)) this.merge(value, into[field]);
      else into[field] = value;
    }
  }

  #fit(type, value, where) {
    return fit(type, value, where, (target, member, check) => this.#guard(target, member, check));
  }

  #guard(target, member, check) {
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
        target[key] = typeof key === 'string' ? member(key, value) : value;
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

/** Copies a value of a type of the WIT, or says what about it is wrong; lists and records go through `guard`. */
export function fit(type, value, where, guard = (target) => target) {
  const wrong = (wanted) => mismatch(where, wanted, value);
  const again = (type, value, where) => fit(type, value, where, guard);
  const item = listOf(type);
  if (item) {
    if (!Array.isArray(value)) throw wrong('a list');
    const member = (key, value) => (/^\d+$/.test(key) ? again(item, value, `${where}[${key}]`) : value);
    return guard(value.map((value, at) => member(String(at), value)), member, () => {});
  }
  const { record, variant, texts } = shapes[type] ?? {};
  if (texts) {
    if (!texts.includes(value)) throw wrong(`one of ${texts.join(', ')}`);
    return value;
  }
  if (!record && !variant) {
    if (typeof value !== type) throw wrong(`a ${type}`);
    return value;
  }
  asRecord(value, where);
  if (variant) {
    const tags = Object.keys(variant);
    if (!tags.includes(value.tag)) throw mismatch(where, `a record whose tag is one of ${tags.join(', ')}`, value.tag);
    return variant[value.tag] ? { tag: value.tag, val: again(variant[value.tag], value.val, `${where}.val`) } : { tag: value.tag };
  }
  const known = (field) => {
    checkField(Object.keys(record), field, where);
    return record[field];
  };
  const member = (field, value) => {
    const type = known(field);
    if (!type.endsWith('?')) return again(type, value, `${where}.${field}`);
    return value === undefined ? undefined : again(type.slice(0, -1), value, `${where}.${field}`);
  };
  Object.keys(value).forEach(known);
  const copy = Object.fromEntries(Object.keys(record).map((field) => [field, member(field, value[field])]));
  return guard(copy, member, (field) => field in Object.prototype || field === 'toJSON' || known(field));
}

/** Returns the type of the items if a type is a list. */
export function listOf(type) {
  return type.match(/^Array<(.*)>$/)?.[1];
}
