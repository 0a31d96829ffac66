/** Types of the MCP client for subprocesses. */

import type { Server, Tool } from './index.mjs';

/** A server that is a subprocess; it is started by the first call that needs it, and again after it ended. */
export class StdioServer implements Server {
  constructor(command: string, args?: string[], options?: {
    /** The working directory. */
    cwd?: string,
    /** Variables in addition to those of this process. */
    env?: Record<string, string>,
  });
  open(): Promise<void>;
  tools(signal: AbortSignal): Promise<Tool[]>;
  request(method: string, params: string, signal: AbortSignal): Promise<string>;
  /** Closes the input of the server, on which it ends, and kills it if it does not. */
  close(): Promise<void>;
}
