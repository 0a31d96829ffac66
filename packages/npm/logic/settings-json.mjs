/** Reads settings from the JSON that `toolgate settings` and records have. */

import { isRecord } from './checks.mjs';
import shapes from './component/shapes.mjs';
import { fit, listOf } from './settings.mjs';

// Members of the JSON whose names are not those of the WIT in snake case.
const NAMES = {
  'Settings.masks': 'masking',
  'ServerSettings.masks': 'masking',
  'SelectedServer.id': 'name',
  'Rule.condition': 'when',
  'Rule.effect': 'then',
};
const LARGEST = 2n ** 64n - 1n; // what a `u64` holds; `JSON.parse` rounds it up

export function settingsFromJson(json, defaults) {
  const given = typeof json === 'string' ? JSON.parse(json) : json;
  // Settings without rules do not mention them.
  const whole = isRecord(given) ? { rules: { lists: [], results: [], known: [] }, ...given } : given;
  return fit('Settings', read('Settings', whole, 'settings', defaults), 'settings');
}

/** Reads a value of a type of the WIT; with `defaults`, fields of records may be left out. */
function read(type, json, where, defaults) {
  const item = listOf(type);
  // A value of another kind stays as it is: `fit` refuses it.
  if (item) return Array.isArray(json) ? json.map((value, at) => read(item, value, `${where}[${at}]`, defaults && {})) : json;
  if (type === 'bigint' && typeof json === 'number') return json >= 2 ** 64 ? LARGEST : BigInt(json);
  const { record, variant } = shapes[type] ?? {};
  if (variant && typeof json === 'string') return { tag: json };
  if (!isRecord(json)) return json;
  if (variant) {
    const [[tag, value] = [], ...more] = Object.entries(json);
    if (tag === undefined) return json;
    if (more.length > 0 || !Object.hasOwn(variant, tag)) throw unknown(where, tag);
    return { tag, val: read(variant[tag], value, where, defaults && {}) };
  }
  return record ? readRecord(type, record, json, where, defaults) : json;
}

function readRecord(type, record, json, where, defaults) {
  const rest = { ...json };
  const take = (field) => {
    const name = NAMES[`${type}.${field}`] ?? field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const value = rest[name];
    delete rest[name];
    return value;
  };
  const fields = Object.entries(record).map(([field, fieldType]) => {
    // The JSON of a server's rules is flat.
    const value = type === 'ServerRules' && field === 'rules' ? { allow: take('allow'), deny: take('deny') } : take(field);
    if (value === undefined && defaults) return [field, defaults[field] ?? emptyOf(fieldType, `${where}.${field}`)];
    return [field, read(fieldType.replace('?', ''), value ?? undefined, `${where}.${field}`, defaults && (defaults[field] ?? {}))];
  });
  const [left] = Object.keys(rest);
  if (left !== undefined) throw unknown(where, left);
  return Object.fromEntries(fields);
}

/** Returns what a field has that is left out and has no default; `fit` refuses it if there is nothing empty of the type. */
function emptyOf(type, where) {
  if (type.endsWith('?')) return undefined;
  if (listOf(type)) return [];
  return type === 'boolean' ? false : read(type, shapes[type]?.record && {}, where, {});
}

function unknown(where, name) {
  return new TypeError(`${where} has "${name}", which this version of @toolgate/logic does not know: use the version of toolgate`);
}
