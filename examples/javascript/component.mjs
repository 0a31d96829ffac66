/** The component in its sandbox: nothing is linked to it, and every question is bounded in time and memory. */

import { readFileSync } from 'node:fs';
import v8 from 'node:v8';
import vm from 'node:vm';

const MILLIS = 5000; // of one question
const MEMORY_PAGES = 4096; // of one instance: 256 MiB

// V8 reads this when a memory is made.
v8.setFlagsFromString(`--wasm-max-mem-pages=${MEMORY_PAGES}`);
const { instantiate } = await import('./logic/logic.js');

/** A question was refused: the bad case of a `result`. */
export class Refused extends Error {}

/** An instance broke off: a trap, or a limit that was reached. */
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

/** One instance; `Broken` is its end. */
class Instance {
  constructor(component) {
    this.millis = component.millis;
    this.exports = instantiate((name) => component.module(name), nothing);
  }

  /** What a question comes to, as in `ask((logic) => logic.naming.normalize('a__b'))`. */
  ask(question) {
    room.question = () => question(this.exports);
    try {
      return put.runInContext(room, { timeout: this.millis });
    } catch (error) {
      if (error.payload !== undefined) throw new Refused(error.payload.message ?? error.payload.tag);
      // A TypeError is about what was passed in: the caller's fault.
      throw error instanceof TypeError ? error : new Broken(error.message, { cause: error });
    }
  }
}

// A script is the one thing in Node whose run has a limit, whatever it calls.
const room = vm.createContext({});
const put = new vm.Script('question()');

// The few imports are of WASI: resources as empty classes, and functions that are called only to say why it panics.
const unlinked = (name) => () => {
  throw new Error(`the component called ${name}`);
};
const empty = new Proxy({}, { get: (_, name) => (/^[A-Z]/.test(name) ? class {} : unlinked(name)) });
const nothing = new Proxy({}, { get: () => empty });
