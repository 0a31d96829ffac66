/** The component in its sandbox: it has no imports, and instances of it answer questions. */

import { asMillis, asOptions, asRecord, isRecord, mismatch } from './checks.mjs';
import { instantiate } from './component/logic.js';
import { fit } from './settings.mjs';

const MILLIS = 5000; // for one question
const ALL_MASKS = { groups: ['all'] };

/** The error case of a `result`; `payload` is the case. */
export class Refused extends Error {
  constructor(payload) {
    super(payload?.message ?? inWords(payload));
    this.payload = payload;
  }

  get name() {
    return 'Refused';
  }
}

/** An instance trapped or reached a limit. */
export class Broken extends Error {
  get name() {
    return 'Broken';
  }
}

/** The compiled component, from which instances are made, and one instance for questions that belong to no gate. */
export class Logic {
  #platform;
  #instance = null;
  #masker = null;

  /** The platform compiles the modules, runs questions, and keeps long texts: `node.mjs` and `index.mjs` have one each. */
  constructor(platform, options = {}) {
    const { millis = MILLIS } = asOptions(options, ['millis']);
    this.#platform = platform;
    this.millis = asMillis(millis, 'millis');
  }

  instance() {
    return new Instance(this.#platform, this.millis);
  }

  keep(text) {
    return this.#platform.keep?.(text);
  }

  ask(question) {
    this.#instance ??= this.instance();
    try {
      return this.#instance.ask(question);
    } catch (error) {
      if (error instanceof Broken) this.#instance = this.#masker = null;
      throw error;
    }
  }

  splitName(name) {
    return this.ask(({ naming }) => naming.split(name));
  }

  parseArguments(text, schema) {
    return this.ask((logic) => logic.arguments.parse(text, asJson(schema)));
  }

  readCalls(text, tools = [], options = {}) {
    const { loose = false } = asOptions(options, ['loose']);
    if (typeof loose !== 'boolean') throw mismatch('loose', 'a boolean', loose);
    const known = tools.map(({ name, inputSchema }) => ({ name, inputSchema: asJson(inputSchema) }));
    return this.ask(({ reading }) => reading.readCalls(text, known, loose));
  }

  mask(text, masks = ALL_MASKS) {
    return this.#withMasks(masks, (masker) => masker.mask(text));
  }

  maskJson(json, masks = ALL_MASKS) {
    return this.#withMasks(masks, (masker) => masker.maskJson(asJson(json)));
  }

  filter(rules, names) {
    const checked = fit('Rules', { deny: [], ...asRecord(rules, 'rules') }, 'rules');
    return this.ask(({ filtering }) => filtering.filter(checked, names));
  }

  resolve(name, offers, { bareNames = false } = {}) {
    return this.ask(({ catalog }) => {
      const table = new catalog.Catalog(offers, bareNames);
      try {
        return table.resolve(name);
      } finally {
        dispose(table);
      }
    });
  }

  search(query, offers, limit = 10) {
    return this.ask(({ search }) => search.find(offers, [query], limit))[0];
  }

  defaultSettings(servers) {
    return this.ask(({ execution }) => execution.defaultSettings(servers));
  }

  /** Compiles masks, unless the last question had the same. */
  #withMasks(masks, use) {
    const wanted = fit('Masks', { groups: [], patterns: [], custom: [], ...asRecord(masks, 'masks') }, 'masks');
    const key = JSON.stringify(wanted);
    return this.ask(({ masking }) => {
      if (this.#masker?.key !== key) {
        const masker = new masking.Masker(wanted);
        if (this.#masker) dispose(this.#masker.masker);
        this.#masker = { key, masker };
      }
      return use(this.#masker.masker);
    });
  }
}

/** One instance; after `Broken` it cannot be used again. */
class Instance {
  #run;

  constructor({ modules, run }, millis) {
    this.#run = run;
    this.millis = millis;
    this.exports = instantiate((name) => modules[name], nothing);
  }

  /** Asks a question, such as `ask((logic) => logic.naming.normalize('a__b'))`, and returns the answer. */
  ask(question) {
    try {
      return this.#run(() => question(this.exports), this.millis);
    } catch (error) {
      if (error.payload !== undefined) throw new Refused(error.payload);
      // A TypeError is about the arguments: the caller's mistake.
      throw error instanceof TypeError ? error : new Broken(error.message, { cause: error });
    }
  }
}

/** Writes the case of an error in words, such as `unknown pattern "emial"; known: …`. */
function inWords(error) {
  if (!isRecord(error)) return String(error);
  const { tag, val } = error;
  const words = tag.replaceAll('-', ' ');
  if (val === undefined) return words;
  if (!isRecord(val)) return `${words}: ${val}`;
  if (val.tag) return `${words}: ${inWords(val)}`;
  const parts = Object.entries(val).map(([field, value], at) => {
    if (at === 0 && typeof value === 'string') return `"${value}"`; // what it is about
    return `${field}: ${Array.isArray(value) ? value.join(', ') : value}`;
  });
  return `${words} ${parts.join('; ')}`;
}

/** Compiles the core modules of the component once, each by its URL. */
export function onceCompiled(urls, compile) {
  let compiled;
  const all = () => Promise.all(Object.entries(urls).map(async ([name, url]) => [name, await compile(url)]));
  return async () => {
    try {
      return Object.fromEntries(await (compiled ??= all()));
    } catch (error) {
      compiled = undefined; // the next attempt may succeed
      throw error;
    }
  };
}

/** Frees a resource of the component. */
export function dispose(resource) {
  resource[Symbol.dispose ?? Symbol.for('dispose')]();
}

/** A JSON text as it is, and any other value as JSON. */
export function asJson(value) {
  return value === undefined || typeof value === 'string' ? value : JSON.stringify(value);
}

// The few imports are from WASI: resources become empty classes, and functions are called only to report a panic.
const unlinked = (name) => () => {
  throw new Error(`the component called ${name}`);
};
const empty = new Proxy({}, { get: (_, name) => (/^[A-Z]/.test(name) ? class {} : unlinked(name)) });
const nothing = new Proxy({}, { get: () => empty });
