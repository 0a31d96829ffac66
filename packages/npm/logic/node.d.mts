/** Types of the library in Node.js. */

import type { Settings } from './index.mjs';

export * from './index.mjs';

/** Reads the settings of a configuration file of any form that toolgate reads; runs `toolgate settings --config FILE`. */
export function settingsFromFile(path: string, options?: {
  /** The program. Unless given, that of the npm package `toolgate` if it is installed here, or else `toolgate` in `PATH`. */
  toolgate?: string,
}): Promise<Settings>;
