/** The component in its sandbox: it has no imports, and every question has a time limit and a memory limit. */

import { readFileSync } from 'node:fs';
import v8 from 'node:v8';
import vm from 'node:vm';

const MILLIS = 5000; // for one question
const MEMORY_PAGES = 4096; // for one instance: 256 MiB

// V8 reads this when it creates a memory.
v8.setFlagsFromString(`--wasm-max-mem-pages=${MEMORY_PAGES}`);
const { instantiate } = await import('./logic/logic.js');

/** The error case of a `result`. */
export class Refused extends Error {}

/** An instance trapped or reached a limit. */
export class Broken extends Error {}

/** The compiled component, from which instances are made. */
export class Component {
  millis = MILLIS;
  #modules = new Map();

  instance() {
    return new Instance(this);
  }

  module(name) {
    if (!this.#modules.has(name)) {
      const file = new URL(`./logic/${name}`, import.meta.url);
      this.#modules.set(name, new WebAssembly.Module(readFileSync(file)));
    }
    return this.#modules.get(name);
  }
}

/** One instance; after `Broken` it cannot be used again. */
class Instance {
  constructor(component) {
    this.millis = component.millis;
    this.exports = instantiate((name) => component.module(name), nothing);
  }

  /** Asks a question, such as `ask((logic) => logic.naming.normalize('a__b'))`, and returns the answer. */
  ask(question) {
    room.question = () => question(this.exports);
    try {
      return put.runInContext(room, { timeout: this.millis });
    } catch (error) {
      if (error.payload !== undefined) throw new Refused(error.payload.message ?? error.payload.tag);
      // A TypeError is about the arguments: the caller's mistake.
      throw error instanceof TypeError ? error : new Broken(error.message, { cause: error });
    }
  }
}

// In Node, only a script has a time limit that also covers what it calls.
const room = vm.createContext({});
const put = new vm.Script('question()');

// The few imports are from WASI: resources become empty classes, and functions are called only to report a panic.
const unlinked = (name) => () => {
  throw new Error(`the component called ${name}`);
};
const empty = new Proxy({}, { get: (_, name) => (/^[A-Z]/.test(name) ? class {} : unlinked(name)) });
const nothing = new Proxy({}, { get: () => empty });
