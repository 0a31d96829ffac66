/** Types of the library in Node.js. */

import type { Settings } from './index.mjs';

export * from './index.mjs';

/** Reads the settings of a configuration file of any form that toolgate reads; runs `toolgate settings --config FILE`. */
export function settingsFromFile(path: string, options?: {
  /**
   * The program: a path, or a name in `PATH`. Unless given, that of the npm package `toolgate` beside this library, or
   * else `toolgate` in `PATH`. Relative entries of `PATH` do not count.
   */
  toolgate?: string,
}): Promise<Settings>;
