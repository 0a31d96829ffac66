/** A gate and its calls: the component decides, this module acts. */

import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { Broken } from './component.mjs';
import { Failed } from './mcp-stdio.mjs';
import { Settings } from './settings.mjs';

// The journal contains everything that the instance was told, so that another can be brought to the same state.
/** One agent's view of its servers. */
export class Gate {
  #component;
  #settings;
  #journal = [];
  #lastId = 0;
  #seen = { labels: [], known: [] }; // what rules remember of the agent
  #counted = new Map();
  executions = new Map();
  instance = null;

  constructor(component, servers, { approve, millis = 60_000 } = {}) {
    Object.assign(this, { servers, approve, millis });
    this.#component = component;
    const defaults = component.instance().ask(({ execution }) => execution.defaultSettings(Object.keys(servers)));
    this.#settings = new Settings(defaults);
  }

  /** The settings of the WIT; change them before the first call. Unknown fields are refused. */
  get settings() {
    return this.#settings.values;
  }

  /** Runs the directive loop: the component says what to do, and this does it and reports, until the call is done. */
  async call(name, text = '') {
    const id = String(++this.#lastId);
    const until = performance.now() + this.millis;
    let [requests, event] = [0];
    try {
      let directive = this.#tell(id, () => this.#begin({ id, name, arguments: text }));
      while (directive.tag !== 'done') {
        if (directive.tag === 'request') requests++;
        const happened = (event = await this.carryOut(directive, until));
        directive = this.#tell(id, () => this.executions.get(id).next(happened));
      }
      const result = directive.val;
      // After it wrote something to a server, an agent may read its own words there.
      if (!this.#seen.labels.includes(`written:${result.tool?.server}`)) this.#learn(result.learned);
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

  /** Sends one more step to the instance. If the instance traps, replays the journal on a new one, once. */
  #tell(call, step, again = true) {
    try {
      if (!this.instance) {
        this.instance = this.#component.instance();
        this.gate = this.instance.ask(({ execution }) => new execution.Gate(this.#settings.fix()));
        for (const told of this.#journal) this.instance.ask(told.step);
      }
      const answer = this.instance.ask(step);
      this.#journal.push({ call, step });
      return answer;
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      this.instance = null;
      if (!again) throw error;
      console.error(`a new instance takes over: ${error.message}`);
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
      if (execution) this.instance?.ask(() => execution[Symbol.dispose]());
    } catch {
      this.instance = null;
    }
  }

  /** Carries out a directive within the time that the call has left, and returns the event. */
  async carryOut({ tag, val }, until) {
    const limit = new AbortController();
    const late = new Promise((_, reject) => {
      limit.signal.onabort = () => reject(new Failed('timeout', undefined, tag === 'request'));
    });
    const timer = setTimeout(() => limit.abort(), until - performance.now());
    try {
      return await Promise.race([this.#act(tag, val, limit.signal), late]);
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      const phase = error.sent ? 'sent' : 'not-sent';
      return { tag: 'failed', val: { failure: { tag: error.kind, val: error.detail }, phase } };
    } finally {
      clearTimeout(timer);
    }
  }

  async #act(what, given, signal) {
    switch (what) {
      case 'connect': {
        const outcomes = await Promise.allSettled(given.map((server) => this.#connect(server, signal)));
        // If one server is up, it may be the one that the name means.
        if (outcomes.every(({ status }) => status === 'rejected')) throw outcomes[0].reason;
        return { tag: 'connected' };
      }
      case 'circumstances': { // this host has one agent, which runs it
        const caller = { principal: 'local', groups: [], admin: true, client: '' };
        const context = { labels: this.#seen.labels, known: given ? this.#seen.known : [] };
        return { tag: 'circumstances', val: { caller, nowMs: BigInt(Date.now()), context } };
      }
      case 'count':
        return { tag: 'counted', val: given.map((rule) => this.#count(rule)) };
      case 'request': {
        this.#learn(given.learned);
        const { tool: { server, tool }, arguments: args } = given;
        const params = `{"name":${JSON.stringify(tool)},"arguments":${args}}`;
        return { tag: 'answered', val: await this.servers[server].request('tools/call', params, signal) };
      }
      case 'reconnect':
        await this.servers[given].open(signal);
        return { tag: 'reconnected' };
      case 'wait': {
        const [min, max] = [Number(given.minMs), Number(given.maxMs)];
        await sleep(min + Math.random() * (max - min), undefined, { signal });
        return { tag: 'waited' };
      }
      case 'ask': {
        const said = await this.approve?.(given);
        return said === undefined ? { tag: 'unasked' } : { tag: 'approved', val: said };
      }
      case 'condense': // saves a long text to a file if requested; this host has no summarizer
        return { tag: 'condensed', val: { kept: given.spill ? await keep(given.text) : undefined } };
      case 'reauthenticate':
        throw new Failed('needs-auth', 'this host has no authorization to give');
      default:
        throw new Failed('protocol', `this host does not know the directive ${what}`);
    }
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

  async #connect(server, signal) {
    await this.servers[server].open(signal);
    const tools = await this.servers[server].tools(signal);
    this.#tell(undefined, () => this.gate.offer(server, tools));
  }
}

async function keep(text) {
  const file = join(await mkdtemp(join(tmpdir(), 'result-')), 'text');
  await writeFile(file, text, { mode: 0o600 });
  return file;
}
