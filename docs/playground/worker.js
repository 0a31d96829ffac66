/** Runs the component beside the page, so that the page can end a question that takes too long. */

import { urls } from './logic/component/modules.js';
import { Logic, onceCompiled } from './logic/logic.js';
import { about, questions } from './questions.js';

const loaded = {}; // the digest of each module, of the bytes that are compiled

const compile = onceCompiled(urls, async (url) => {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} cannot be loaded: HTTP status ${response.status}`);
  const bytes = await response.arrayBuffer();
  loaded[url.pathname.split('/').at(-1)] = await digestOf(bytes);
  return WebAssembly.compile(bytes);
});

try {
  const logic = new Logic({ modules: await compile(), run: (question) => question() });
  self.onmessage = ({ data: { id, part, fields } }) => {
    try {
      self.postMessage({ id, answer: questions[part](logic, new URLSearchParams(fields)) });
    } catch (error) {
      self.postMessage({ id, problem: error.message });
    }
  };
  self.postMessage({ ready: { ...about(logic), loaded } });
} catch (error) {
  self.postMessage({ failed: error.message });
}

/** Returns the SHA-256 digest in hexadecimal, or nothing where browsers do not compute it: pages without HTTPS. */
async function digestOf(bytes) {
  if (!self.crypto?.subtle) return undefined;
  const digest = new Uint8Array(await self.crypto.subtle.digest('SHA-256', bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
