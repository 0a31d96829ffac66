/** A host of the toolgate component: shows how a call is decided, and makes it. README.md says how to run it. */

import { Component, Refused } from './component.mjs';
import { Gate } from './gate.mjs';
import { Failed, Server } from './mcp-stdio.mjs';

const [name, text, ...command] = process.argv.slice(2);
if (command.length === 0) {
  console.error('usage: node host.mjs NAME ARGUMENTS COMMAND [ARG…]');
  process.exit(2);
}
const component = new Component();
const logic = component.instance();
const server = new Server(...command);
try {
  const signal = AbortSignal.timeout(30_000);
  await server.open(signal);
  const tools = await server.tools(signal);

  const names = tools.map((tool) => tool.name);
  const kept = logic.ask(({ filtering }) => filtering.filter({ deny: ['s*'] }, names));
  console.log('all but s*: ', kept.join(', '));

  const offers = [{ server: 'demo', tools }];
  const { tool } = logic.ask(({ catalog }) => new catalog.Catalog(offers, false).resolve(name));
  console.log('the name:   ', `tool '${tool.tool}' of server '${tool.server}'`);

  const parsed = logic.ask((logic) => logic.arguments.parse(text));
  console.log('the text:   ', `${parsed.arguments}, read as ${parsed.stage}`);

  const result = await new Gate(component, { demo: server }).call(name, text);
  console.log('the call:   ', `${result.code}, sent ${result.attempts} time(s)\n${result.text}`);
} catch (error) {
  if (!(error instanceof Refused || error instanceof Failed)) throw error;
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
} finally {
  await server.close();
}
