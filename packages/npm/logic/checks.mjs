/** Checks what callers give, so that a mistake is an error and not silently ignored. */

/** Tells whether a value is a plain object, which no list, `Map`, promise or instance of a class is. */
export function isRecord(value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null; // `Object.prototype` of any realm
}

/** Returns a record, or says what is there instead. */
export function asRecord(value, where) {
  if (!isRecord(value)) throw mismatch(where, 'a record', value);
  return value;
}

/** Returns options, or says which of them does not exist. */
export function asOptions(given, known) {
  for (const name of Object.keys(asRecord(given, 'options'))) checkField(known, name, 'options');
  return given;
}

/** Refuses a field that a record does not have. */
export function checkField(known, field, where) {
  if (!known.includes(field)) throw new TypeError(`${where} has no field ${field}; there are ${known.join(', ')}`);
}

/** Returns a number of milliseconds, or says why it cannot be one. */
export function asMillis(value, where) {
  if (!Number.isFinite(value) || value <= 0) throw mismatch(where, 'a positive number', value);
  return value;
}

/** Returns a function or `undefined`, or says what is there instead. */
export function asFunction(value, where) {
  if (value !== undefined && typeof value !== 'function') throw mismatch(where, 'a function', value);
  return value;
}

/** Makes the error for a value that is not what is wanted. */
export function mismatch(where, wanted, value) {
  return new TypeError(`${where} must be ${wanted}, not ${shown(value)}`);
}

/** Shows a value in a few words. */
export function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'a list';
  if (isRecord(value)) return `a record {${Object.keys(value).slice(0, 10).join(', ')}}`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (typeof value.then === 'function') return 'a promise: is there an `await` missing?';
  return `a ${value.constructor.name}`;
}
