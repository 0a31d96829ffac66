/** An MCP client for a server that is a subprocess. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';

import { Failed } from './mcp.mjs';

const LINE_CHARACTERS = 64 << 20;
const LIST_PAGES = 100;
const START_MILLIS = 60_000; // `npx` and `uvx` may have to download the server first
const GRACE_MILLIS = 2000;
const { name, version } = JSON.parse(readFileSync(new URL('./package.json', import.meta.url), 'utf8'));
const HELLO = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name, version } };

/** A server process. Requests run concurrently, each limited by a signal. */
export class StdioServer {
  #command;
  #args;
  #options;
  #child = null;
  #opening = null;
  #waiting = new Map();
  #lastId = 0;

  constructor(command, args = [], { cwd, env } = {}) {
    this.#command = command;
    this.#args = args;
    this.#options = { cwd, env: env && { ...process.env, ...env } };
  }

  /** Starts the program and initializes the session, unless another call has just done so. */
  async open() {
    // The start has a time limit of its own: a call that is given up does not end it for the others.
    this.#opening ??= this.#child ? undefined : this.#start().finally(() => (this.#opening = null));
    await this.#opening;
  }

  async #start() {
    const child = spawn(this.#command, this.#args, { ...this.#options, stdio: ['pipe', 'pipe', 'inherit'] });
    child.on('error', () => {}); // `spawn` or `close` report it
    child.stdin.on('error', () => {}); // a broken pipe shows when the program ends
    await once(child, 'spawn').catch((error) => {
      throw new Failed('connect', error.message, false);
    });
    const lines = new StringDecoder('utf8');
    let rest = '';
    child.stdout.on('data', (bytes) => {
      const parts = lines.write(bytes).split('\n');
      parts[0] = rest + parts[0];
      rest = parts.pop();
      for (const line of parts) this.#take(child, line);
      if (rest.length > LINE_CHARACTERS) {
        this.#lost(child, new Failed('protocol', `a line of more than ${LINE_CHARACTERS} characters`, true));
        child.kill('SIGKILL');
      }
    });
    child.on('close', (code) => this.#lost(child, new Failed('exited', code ?? undefined, true)));
    this.#child = child;
    try {
      await this.request('initialize', JSON.stringify(HELLO), AbortSignal.timeout(START_MILLIS));
    } catch (error) {
      await this.close();
      throw error;
    }
    send(child, { method: 'notifications/initialized' });
  }

  /** Ends all requests: the program writes nothing more. */
  #lost(child, failed) {
    if (this.#child === child) this.#child = null;
    for (const waiter of this.#waiting.values()) if (waiter.child === child) waiter.reject(failed);
  }

  /** Closes the input, on which a server exits, and kills the program if it does not. */
  async close() {
    const child = this.#child;
    if (!child) return;
    this.#child = null;
    const closed = once(child, 'close');
    child.stdin.end();
    const timer = setTimeout(() => child.kill('SIGKILL'), GRACE_MILLIS);
    await closed.finally(() => clearTimeout(timer));
  }

  /** Sends a request and returns the `result` as text; nothing is parsed here, so no digit is lost. */
  async request(method, params, signal) {
    const child = this.#child;
    if (!child) throw new Failed('closed', undefined, false);
    const id = ++this.#lastId;
    const aborted = () => {
      send(child, { method: 'notifications/cancelled', params: { requestId: id } });
      this.#waiting.get(id).reject(new Failed('timeout', undefined, true));
    };
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.set(id, { child, resolve, reject });
        signal.addEventListener('abort', aborted, { once: true });
        child.stdin.write(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}\n`);
      });
    } finally {
      this.#waiting.delete(id);
      signal.removeEventListener('abort', aborted);
    }
  }

  #take(child, line) {
    const message = read(line);
    const { id, method, error } = message;
    if (method !== undefined) {
      const refusal = { error: { code: -32601, message: 'this client cannot do that' } };
      if (id !== undefined) send(child, { id, ...(method === 'ping' ? { result: {} } : refusal) });
      return;
    }
    const waiter = this.#waiting.get(id);
    if (Number.isSafeInteger(error?.code)) {
      waiter?.reject(new Failed('rpc', { code: BigInt(error.code), message: String(error.message ?? '') }, true));
    } else if ('result' in message) {
      waiter?.resolve(member(line, 'result'));
    } else {
      waiter?.reject(new Failed('protocol', 'an answer without a result', true));
    }
  }

  /** Returns all pages of `tools/list` as records of the WIT; entries without a name are skipped. */
  async tools(signal) {
    const tools = [];
    let cursor;
    for (let page = 0; page < LIST_PAGES; page++) {
      const result = JSON.parse(await this.request('tools/list', JSON.stringify({ cursor }), signal));
      if (!Array.isArray(result?.tools)) throw new Failed('protocol', 'an answer to tools/list without tools');
      tools.push(...result.tools.filter((tool) => typeof tool?.name === 'string').map(asTool));
      cursor = result.nextCursor ?? undefined;
      if (cursor === undefined) return tools;
    }
    throw new Failed('protocol', `tools/list has more than ${LIST_PAGES} pages`);
  }
}

/** Parses a message; returns an empty one if the program printed something else. */
function read(line) {
  try {
    const message = JSON.parse(line);
    return typeof message === 'object' && message !== null ? message : {};
  } catch {
    return {};
  }
}

function send(child, message) {
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

function asTool({ name, description, inputSchema, annotations }) {
  const hint = (key) => (typeof annotations?.[key] === 'boolean' ? annotations[key] : undefined);
  return {
    name,
    description: typeof description === 'string' ? description : undefined,
    inputSchema: inputSchema === undefined ? undefined : JSON.stringify(inputSchema),
    annotations: {
      readOnly: hint('readOnlyHint'),
      destructive: hint('destructiveHint'),
      idempotent: hint('idempotentHint'),
      openWorld: hint('openWorldHint'),
    },
  };
}

/** Returns the text of a member as written: `JSON.parse` would round large numbers. */
export function member(json, name) {
  let [depth, key, from] = [0];
  for (let at = 0; at < json.length; at++) {
    const mark = json[at];
    if (depth === 1 && from !== undefined && (mark === ',' || mark === '}')) return json.slice(from, at).trim();
    if (mark === '"') {
      const start = at;
      do at = json.indexOf('"', at + 1);
      while (isEscaped(json, at));
      key = json.slice(start, at + 1);
    } else if (mark === ':' && depth === 1 && from === undefined && JSON.parse(key) === name) from = at + 1;
    else if (mark === '{' || mark === '[') depth++;
    else if (mark === '}' || mark === ']') depth--;
  }
}

function isEscaped(json, at) {
  let from = at;
  while (json[from - 1] === '\\') from--;
  return (at - from) % 2 === 1;
}
