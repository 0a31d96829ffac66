/** A gate and its calls: the component decides, this module acts. */

import { asFunction, asMillis, asOptions, asRecord, mismatch } from './checks.mjs';
import { asJson, Broken, dispose, Refused } from './logic.mjs';
import { asFailed, asResult, asTools, Failed, failureOf, wordsOf } from './mcp.mjs';
import { Settings } from './settings.mjs';

const OPTIONS = ['settings', 'approve', 'millis', 'log'];
const LONGEST_MILLIS = 2 ** 31 - 1; // of a timer

// The journal contains everything that the instance was told, so that another can be brought to the same state.
/** One agent's view of its servers. */
export class Gate {
  #logic;
  #log;
  #settings;
  #journal = [];
  #lastId = 0;
  #seen = { labels: [], known: [] }; // what rules remember of the agent
  #counted = new Map();
  #offered = new Set();
  executions = new Map();
  instance = null;

  constructor(logic, servers, options = {}) {
    const { settings = {}, approve, millis = 60_000, log = console.warn } = asOptions(options, OPTIONS);
    this.servers = asRecord(servers, 'servers');
    this.approve = asFunction(approve, 'approve');
    this.millis = asMillis(millis, 'millis');
    this.#logic = logic;
    const say = asFunction(log, 'log');
    this.#log = (message) => {
      try {
        say(message);
      } catch {
        // What an operator does not hear ends no call.
      }
    };
    this.#settings = new Settings(logic.defaultSettings(Object.keys(servers)));
    this.#settings.merge(settings);
  }

  /** The settings of the WIT; change them before the first call. Unknown fields are refused. */
  get settings() {
    return this.#settings.values;
  }

  /** Runs the directive loop: the component says what to do, and this does it and reports, until the call is done. */
  async call(name, text = '', options = {}) {
    const id = String(++this.#lastId);
    const signal = options?.signal;
    const called = typeof name === 'string' ? name : wordsOf(name);
    const json = writtenAsJson(text);
    if (json === undefined) {
      const problem = `invalid arguments: they must be a text or JSON, not ${wordsOf(text)}`;
      return { code: 'invalid-arguments', text: problem, isError: true, attempts: 0 };
    }
    const until = performance.now() + this.millis;
    let [requests, event] = [0];
    const { labels } = this.#seen;
    try {
      let directive = this.#tell(id, () => this.#begin({ id, name: called, arguments: json }));
      while (directive.tag !== 'done') {
        if (directive.tag === 'request') requests++;
        const happened = (event = await this.carryOut(directive, until, signal));
        directive = this.#tell(id, () => this.executions.get(id).next(happened));
      }
      const result = directive.val;
      // After it wrote something to the server meanwhile, an agent may read its own words there.
      const written = `written:${result.tool?.server}`;
      if (labels.includes(written) || !this.#seen.labels.includes(written)) this.#learn(result.learned);
      return result;
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      // The same step crashed two instances: a bug in the component, which ends only this call.
      const unknown = requests > 0 && !['answered', 'condensed'].includes(event.tag);
      const [code, so] = unknown ? ['outcome-unknown', 'the tool may have run'] : ['internal', 'there is no result'];
      return { code, text: `the component crashed: ${so}`, isError: true, attempts: requests };
    } finally {
      this.#forget(id);
    }
  }

  /** Lists the tools that may be used, of all servers that come up; a server that does not is logged. */
  async tools() {
    const until = performance.now() + this.millis;
    await Promise.all(Object.keys(this.servers).filter((id) => !this.#offered.has(id)).map(async (id) => {
      const event = await this.carryOut({ tag: 'connect', val: [id] }, until);
      if (event.tag === 'failed') this.#log(`toolgate: server "${id}" is left out: ${event.val.failure.tag}`);
    }));
    const tools = this.#tell('tools', () => this.gate.tools(this.settings.style, this.#circumstances()));
    this.#forget('tools');
    return tools;
  }

  /** Sends one more step to the instance. If the instance traps, replays the journal on a new one, once. */
  #tell(call, step, again = true) {
    try {
      if (!this.instance) {
        const instance = this.#logic.instance();
        this.gate = instance.ask(({ execution }) => new execution.Gate(this.#settings.fix()));
        this.instance = instance;
        for (const told of this.#journal) this.instance.ask(told.step);
      }
      const answer = this.instance.ask(step);
      this.#journal.push({ call, step });
      return answer;
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      this.instance = null;
      if (!again) throw error;
      this.#log(`toolgate: a new instance takes over: ${error.message}`);
      return this.#tell(call, step, false);
    }
  }

  #begin(call) {
    const { execution, directive } = this.gate.begin(call);
    this.executions.set(call.id, execution);
    return directive;
  }

  /** Frees the state of a call; the tools that servers offered stay. */
  #forget(id) {
    this.#journal = this.#journal.filter(({ call }) => call !== id);
    const execution = this.executions.get(id);
    this.executions.delete(id);
    try {
      if (execution) this.instance?.ask(() => dispose(execution));
    } catch {
      this.instance = null;
    }
  }

  /** Carries out a directive within the time that the call has left, and returns the event. */
  async carryOut({ tag, val }, until, signal) {
    if (signal?.aborted) return { tag: 'cancelled' };
    const limit = new AbortController();
    let cancel, timer;
    const ended = new Promise((resolve, reject) => {
      const late = () => reject(new Failed('timeout', undefined, tag === 'request'));
      timer = setTimeout(late, Math.min(until - performance.now(), LONGEST_MILLIS));
      cancel = () => resolve({ tag: 'cancelled' });
      signal?.addEventListener?.('abort', cancel);
    });
    try {
      return await Promise.race([this.#act(tag, val, limit.signal), ended]);
    } catch (error) {
      // Those of servers are failures by now, so these are of the component.
      if (error instanceof Broken || error instanceof Refused) throw error;
      const failed = asFailed(error);
      const phase = tag === 'request' && failed.sent !== false ? 'sent' : 'not-sent';
      return { tag: 'failed', val: { failure: failureOf(failed), phase } };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener?.('abort', cancel);
      limit.abort(); // what still goes on is of no use
    }
  }

  async #act(what, given, signal) {
    switch (what) {
      case 'connect': {
        const outcomes = await Promise.allSettled(given.map((server) => this.#connect(server, signal)));
        const broken = outcomes.find(({ reason }) => reason instanceof Broken);
        if (broken) throw broken.reason;
        // If one server is up, it may be the one that the name means.
        if (outcomes.every(({ status }) => status === 'rejected')) throw outcomes[0].reason;
        return { tag: 'connected' };
      }
      case 'circumstances': { // this host has one agent, which runs it
        const { context, ...others } = this.#circumstances();
        return { tag: 'circumstances', val: { ...others, context: given ? context : { ...context, known: [] } } };
      }
      case 'count':
        return { tag: 'counted', val: given.map((rule) => this.#count(rule)) };
      case 'request': {
        this.#learn(given.learned);
        const { tool: { server, tool }, arguments: args } = given;
        const params = `{"name":${JSON.stringify(tool)},"arguments":${args}}`;
        const answer = await this.#serve(server, async (it) => asResult(await it.request('tools/call', params, signal)));
        return { tag: 'answered', val: answer };
      }
      case 'reconnect':
        await this.#serve(given, (it) => it.open(signal));
        return { tag: 'reconnected' };
      case 'wait': {
        const [min, max] = [Number(given.minMs), Number(given.maxMs)];
        await sleep(min + Math.random() * (max - min), signal);
        return { tag: 'waited' };
      }
      case 'ask':
        return this.#ask(given, signal);
      case 'condense': // keeps a long text if that is asked and possible; there is no summarizer
        return { tag: 'condensed', val: { kept: given.spill ? await this.#logic.keep(given.text) : undefined } };
      case 'reauthenticate':
        throw new Failed('needs-auth', 'this host has no authorization to give');
      default:
        throw new Failed('protocol', `this host does not know the directive ${what}`);
    }
  }

  /** Asks a person, whose `true` alone lets the call run. If `approve` fails, nothing is sent, and no server is to blame. */
  async #ask(question, signal) {
    try {
      const said = await this.approve?.(question, signal);
      if (said === undefined) return { tag: 'unasked' };
      if (typeof said !== 'boolean') throw mismatch('its answer', 'true, false or undefined', said);
      return { tag: 'approved', val: said };
    } catch (error) {
      const problem = `approve failed: ${wordsOf(error)}`;
      this.#log(`toolgate: ${problem}`);
      throw new Failed('rules-unavailable', problem);
    }
  }

  /** Says who calls, when, and what the agent has seen. */
  #circumstances() {
    const caller = { principal: 'local', groups: [], admin: true, client: '' };
    return { caller, nowMs: BigInt(Date.now()), context: this.#seen };
  }

  /** Remembers what the agent has seen; of the values that it knows, those that it used last. */
  #learn(learned) {
    if (!learned) return;
    const isNew = (value) => !learned.known.some((other) => String(other) === String(value));
    this.#seen = {
      labels: [...new Set([...this.#seen.labels, ...learned.labels])],
      known: [...this.#seen.known.filter(isNew), ...learned.known].slice(-2048),
    };
  }

  /** Counts a call for a rule with a limit, in a time that begins with the first call. */
  #count(rule) {
    const { limit } = this.settings.rules.lists.flat().find(({ name }) => name === rule);
    const now = performance.now();
    let { ends, calls } = this.#counted.get(rule) ?? { ends: 0, calls: 0 };
    if (ends <= now) [ends, calls] = [now + Number(limit.perMs), 0];
    this.#counted.set(rule, { ends, calls: ++calls });
    return { calls, endsInMs: BigInt(Math.round(ends - now)) };
  }

  async #connect(id, signal) {
    const tools = await this.#serve(id, async (it) => {
      await it.open(signal);
      return asTools(await it.tools(signal));
    });
    this.#tell(undefined, () => this.gate.offer(id, tools));
    this.#offered.add(id);
  }

  /** Asks a server, which is not ours: whatever it throws is a failure. */
  async #serve(id, ask) {
    if (!Object.hasOwn(this.servers, id)) throw new Failed('connect', `the gate was made without the server "${id}"`, false);
    try {
      return await ask(this.servers[id]);
    } catch (error) {
      throw asFailed(error);
    }
  }
}

/** Returns arguments as a text, or `undefined` if they cannot be written as JSON. */
function writtenAsJson(text) {
  try {
    return asJson(text);
  } catch {
    return undefined;
  }
}

export { Failed };

/** Waits for some milliseconds, or until the signal ends the wait. */
function sleep(millis, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, millis);
    signal.addEventListener('abort', () => resolve(clearTimeout(timer)), { once: true });
  });
}
