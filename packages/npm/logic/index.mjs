/** The library in a browser, or anywhere else with `fetch`: a question runs without a time limit. */

import { urls } from './component/modules.mjs';
import { Logic as Shared, onceCompiled } from './logic.mjs';

const compile = onceCompiled(urls, async (url) => {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: HTTP status ${response.status}`);
  return WebAssembly.compile(await response.arrayBuffer());
});

export class Logic extends Shared {
  static async load(options) {
    return new Logic({ modules: await compile(), run: (question) => question() }, options);
  }
}

export { Failed, Gate } from './gate.mjs';
export { Broken, Refused } from './logic.mjs';
export { settingsFromJson } from './settings-json.mjs';
