/** Types of the library; those of the component's interfaces are under `component/`, made from its WIT. */

import type { Root } from './component/logic.js';
import type { Parsed } from './component/interfaces/toolgate-logic-arguments.js';
import type { ExposedTool, Offered, Route } from './component/interfaces/toolgate-logic-catalog.js';
import type { Code, Question, Settings, ToolResult } from './component/interfaces/toolgate-logic-execution.js';
import type { Rules } from './component/interfaces/toolgate-logic-filtering.js';
import type { Masks } from './component/interfaces/toolgate-logic-masking.js';
import type { ReadCall } from './component/interfaces/toolgate-logic-reading.js';
import type { SearchHit } from './component/interfaces/toolgate-logic-search.js';
import type { Failure, Tool, ToolRef } from './component/interfaces/toolgate-logic-types.js';

export type { Code, ExposedTool, Failure, Masks, Offered, Parsed, Question, ReadCall, Route, Rules, SearchHit, Settings, Tool, ToolRef, ToolResult };

/** All interfaces of the component, such as `naming` and `recovery`. */
export type Interfaces = Root;

/** A JSON text, or a value to be written as one. */
export type JsonOrValue = string | object;

/** A record of which some fields are given; lists are replaced as a whole. */
export type Partly<T> = T extends readonly unknown[] | { tag: string } ? T : T extends object ? { [K in keyof T]?: Partly<T[K]> } : T;

/** What the load of the component can be given. */
export interface LoadOptions {
  /** The time limit of one question in milliseconds, 5000 unless given; it holds in Node.js only. */
  millis?: number;
}

/** The component: questions to it, and gates that are made of it. */
export class Logic {
  private constructor();
  /** Loads and compiles the component; a second load takes what the first has compiled. */
  static load(options?: LoadOptions): Promise<Logic>;
  /** The time limit of one question in milliseconds. */
  millis: number;
  /** Asks any question: `logic.ask(({ naming }) => naming.normalize('a__b'))`. */
  ask<T>(question: (interfaces: Interfaces) => T): T;
  /** Splits `server.tool`, `server__tool` or `mcp__server__tool` without knowing the servers. */
  splitName(name: string): ToolRef;
  /** Reads what a model wrote as arguments; `arguments` of the answer is a JSON text, so that no digit is lost. */
  parseArguments(text: string, schema?: JsonOrValue): Parsed;
  /** Finds the calls in the text of a model that has no tool calls of its own: those that stand for themselves, or with
   *  `loose` also those that the text only mentions or quotes, as `standing` of each says. */
  readCalls(text: string, tools?: { name: string, inputSchema?: JsonOrValue }[], options?: { loose?: boolean }): ReadCall[];
  /** Replaces what the masks find in a text: all built-in masks unless some are given.
   *  Masks that name nothing, as `{}`, find nothing. */
  mask(text: string, masks?: Partial<Masks>): string;
  /** Replaces what the masks find in JSON, as `mask` does; the answer is a JSON text again. */
  maskJson(json: JsonOrValue, masks?: Partial<Masks>): string;
  /** Returns the names that the rules let through. */
  filter(rules: Partial<Rules>, names: string[]): string[];
  /** Finds the one tool that a name means. */
  resolve(name: string, offers: Offered[], options?: { bareNames?: boolean }): Route;
  /** Finds the tools that fit a query, the best first. */
  search(query: string, offers: Offered[], limit?: number): SearchHit[];
  /** Returns the default settings of a gate with these servers. */
  defaultSettings(servers: string[]): Settings;
}

/** A tool as `tools/list` of MCP has it, or with the names of the WIT in its annotations. */
export interface ListedTool {
  name: string;
  title?: string | null;
  description?: string | null;
  /** The schema of its arguments, or that as JSON. */
  inputSchema?: string | object | boolean | null;
  outputSchema?: unknown;
  annotations?: ListedAnnotations | null;
  icons?: unknown;
  execution?: unknown;
  _meta?: unknown;
}

/** The annotations of a tool: those of MCP, or each by its name in the WIT. */
export interface ListedAnnotations {
  title?: string | null;
  readOnlyHint?: boolean | null;
  destructiveHint?: boolean | null;
  idempotentHint?: boolean | null;
  openWorldHint?: boolean | null;
  readOnly?: boolean | null;
  destructive?: boolean | null;
  idempotent?: boolean | null;
  openWorld?: boolean | null;
}

/** A connection to a server, which your host brings; `@toolgate/logic/stdio` has one for subprocesses. Whatever it throws
 *  is a failure: one that is no `Failed` means that nobody knows whether the tool ran. */
export interface Server {
  /** Opens a session if there is none; throws `Failed` if that is not possible. */
  open(signal: AbortSignal): Promise<void>;
  /** Returns what the server lists as its tools; a tool with a member that does not exist fails the server. */
  tools(signal: AbortSignal): Promise<ListedTool[]>;
  /** Sends a request with these parameters as JSON, and returns the member `result`, or throws `Failed`. Return it as the
   *  text that the server wrote, so that no digit is lost, or else as a record. */
  request(method: string, params: string, signal: AbortSignal): Promise<string | object>;
}

/** What a gate can be given. */
export interface GateOptions {
  /** Settings that differ from the default ones. */
  settings?: Partly<Settings>;
  /** Asks a person whether a call may run: only `true` lets it. Without it, such a call is declined; if it fails, it is not allowed. */
  approve?: (question: Question, signal: AbortSignal) => boolean | undefined | Promise<boolean | undefined>;
  /** The time limit of a call in milliseconds, 60000 unless given. */
  millis?: number;
  /** Takes what an operator may want to know; `console.warn` unless given. */
  log?: (message: string) => void;
}

/** The result of a call; after a crash of the component it has no more than these members. */
export type CallResult = Pick<ToolResult, 'code' | 'text' | 'isError' | 'attempts'> & Partial<ToolResult>;

/** One agent's view of its servers. */
export class Gate {
  constructor(logic: Logic, servers: Record<string, Server>, options?: GateOptions);
  /** The settings; they can be changed until the first `call` or `tools`. */
  readonly settings: Settings;
  /** The time limit of a call in milliseconds. */
  millis: number;
  /** Asks a person whether a call may run. */
  approve?: GateOptions['approve'];
  /** Calls a tool by its name and arguments as the model wrote them; a call that fails is a result with a code. */
  call(name: string, text?: JsonOrValue, options?: { signal?: AbortSignal }): Promise<CallResult>;
  /** Connects the servers that have not listed their tools yet, and lists the tools that may be used; a server that fails is logged. */
  tools(): Promise<ExposedTool[]>;
}

/** A failure of a server, in the terms of the WIT. */
export class Failed<Kind extends Failure['tag'] = Failure['tag']> extends Error {
  /** Say `sent: false` only if the server cannot have acted on the request: no whole request reached it, or it turned the
   *  request away (HTTP 401, 403 with a challenge, 429, and 400 or 404 to a request with a session). Without it, the
   *  server may have acted: a tool that is neither read-only nor idempotent is never sent again. */
  constructor(kind: Kind, detail?: Detail<Kind>, sent?: boolean);
  readonly kind: Kind;
  readonly detail: Detail<Kind>;
  readonly sent: boolean;
}
type Detail<Kind> = Extract<Failure, { tag: Kind }> extends { val: infer T } ? T : undefined;

/** The component refused a question, such as one with a mask that does not exist. */
export class Refused extends Error {
  /** The error case of the function in the WIT; `message` says it in words. */
  readonly payload: unknown;
}

/** The component crashed or reached a limit while it answered; the next question goes to a new instance. */
export class Broken extends Error {}

/** Reads settings from the JSON that `toolgate settings` prints; unknown fields are refused. With `defaults`, such as
 *  `logic.defaultSettings(servers)`, the JSON may leave fields out: they have their defaults, or within lists are empty. */
export function settingsFromJson(json: JsonOrValue, defaults?: Settings): Settings;
