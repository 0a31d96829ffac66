/** What the servers of a host give, as MCP has it or as the WIT has it, in the form of the WIT. */

import { asRecord, checkField, isRecord, mismatch, shown } from './checks.mjs';

const TOOL = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations', 'icons', 'execution', '_meta'];
const HINTS = {
  readOnlyHint: 'readOnly',
  destructiveHint: 'destructive',
  idempotentHint: 'idempotent',
  openWorldHint: 'openWorld',
};
const ANNOTATIONS = ['title', ...Object.keys(HINTS), ...Object.values(HINTS)];
const WITHOUT_DETAIL = ['cancelled', 'timeout', 'closed', 'restart-in-progress'];
const WITH_TEXT = ['connect', 'protocol', 'queue-full', 'needs-auth', 'restart-failed', 'rules-unavailable'];
const LARGEST_CODE = 2n ** 63n; // of a JSON-RPC error
const LARGEST_MILLIS = 2n ** 64n;

/** A failure, in the terms of the WIT. Only `sent: false` says that the server cannot have acted on the request. */
export class Failed extends Error {
  constructor(kind, detail, sent = true) {
    super(typeof detail === 'string' ? `${kind}: ${detail}` : String(kind));
    Object.assign(this, { kind, detail, sent });
  }

  get name() {
    return 'Failed';
  }
}

/** Returns what a server threw as a failure: whatever else it is, nobody knows how far its request got. */
export function asFailed(thrown) {
  if (thrown instanceof Failed) return thrown;
  return new Failed('protocol', `the transport failed: ${wordsOf(thrown)}`);
}

/** Returns the failure as the component takes it. */
export function failureOf({ kind, detail }) {
  if (WITHOUT_DETAIL.includes(kind)) return { tag: kind };
  if (WITH_TEXT.includes(kind)) {
    const reason = typeof detail === 'string' ? detail : wordsOf(detail);
    return { tag: kind, val: detail === undefined ? 'no reason given' : reason };
  }
  if (kind === 'exited') return { tag: kind, val: Number.isInteger(detail) && detail === (detail | 0) ? detail : undefined };
  if (kind === 'http' && isRecord(detail) && Number.isInteger(detail.status) && detail.status >= 0 && detail.status < 2 ** 16) {
    const { status, session, challenge, retryAfterMs } = detail;
    const after = wholeNumber(retryAfterMs);
    const isTime = after !== undefined && after >= 0n && after < LARGEST_MILLIS;
    return { tag: kind, val: { status, session: session === true, challenge: challenge === true, retryAfterMs: isTime ? after : undefined } };
  }
  if (kind === 'rpc' && isRecord(detail)) {
    const code = wholeNumber(detail.code);
    if (code !== undefined && code >= -LARGEST_CODE && code < LARGEST_CODE) {
      return { tag: kind, val: { code, message: String(detail.message ?? '') } };
    }
  }
  return { tag: 'protocol', val: `the transport reported no failure of the WIT: ${shown(kind)} with ${shown(detail)}` };
}

/** Returns the `result` of a response as a JSON text. */
export function asResult(result) {
  const json = isRecord(result) ? JSON.stringify(result) : result;
  if (typeof json !== 'string') throw mismatch('the result', 'a JSON text or a record', result);
  return json;
}

/** Returns tools as the component takes them. */
export function asTools(listed) {
  if (!Array.isArray(listed)) throw mismatch('the tools', 'a list', listed);
  return listed.map((tool, at) => asTool(tool, `tools[${at}]`));
}

function asTool(tool, where) {
  for (const member of Object.keys(asRecord(tool, where))) checkField(TOOL, member, where);
  const { name, description, inputSchema, annotations } = tool;
  if (typeof name !== 'string') throw mismatch(`${where}.name`, 'a string', name);
  return {
    name,
    description: optional(description, 'string', `${where}.description`),
    inputSchema: asSchema(inputSchema, `${where}.inputSchema`),
    annotations: asAnnotations(annotations ?? {}, `${where}.annotations`),
  };
}

function asSchema(schema, where) {
  if (schema === undefined || schema === null || typeof schema === 'string') return schema ?? undefined;
  if (typeof schema !== 'boolean') asRecord(schema, where);
  return JSON.stringify(schema);
}

function asAnnotations(given, where) {
  for (const member of Object.keys(asRecord(given, where))) checkField(ANNOTATIONS, member, where);
  return Object.fromEntries(Object.entries(HINTS).map(([hint, field]) => {
    const [one, other] = [given[hint], given[field]].map((value, at) => optional(value, 'boolean', `${where}.${[hint, field][at]}`));
    if (one !== undefined && other !== undefined) throw new TypeError(`${where} has both ${hint} and ${field}`);
    return [field, one ?? other];
  }));
}

function optional(value, type, where) {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== type) throw mismatch(where, `a ${type}`, value);
  return value;
}

/** Returns a whole number as a bigint, or `undefined` for anything else. */
function wholeNumber(value) {
  if (Number.isSafeInteger(value)) return BigInt(value);
  return typeof value === 'bigint' ? value : undefined;
}

/** Says in a few words what was thrown, which can be anything. */
export function wordsOf(thrown) {
  try {
    return typeof thrown?.message === 'string' ? thrown.message : shown(thrown);
  } catch {
    return 'something that cannot be shown';
  }
}
