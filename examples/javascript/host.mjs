/** A host of the toolgate component: shows how a call is decided, and makes it. README.md says how to run it. */

import { Failed, Gate, Logic, Refused } from '@toolgate/logic';
import { StdioServer } from '@toolgate/logic/stdio';

const [name, text, command, ...args] = process.argv.slice(2);
if (command === undefined) {
  console.error('usage: node host.mjs NAME ARGUMENTS COMMAND [ARG…]');
  process.exit(2);
}
const logic = await Logic.load();
const server = new StdioServer(command, args);
try {
  await server.open();
  const tools = await server.tools(AbortSignal.timeout(30_000));

  const kept = logic.filter({ deny: ['s*'] }, tools.map((tool) => tool.name));
  console.log('all but s*: ', kept.join(', '));

  const { tool } = logic.resolve(name, [{ server: 'demo', tools }]);
  console.log('the name:   ', `tool '${tool.tool}' of server '${tool.server}'`);

  const parsed = logic.parseArguments(text);
  console.log('the text:   ', `${parsed.arguments}, read as ${parsed.stage}`);

  const result = await new Gate(logic, { demo: server }).call(name, text);
  console.log('the call:   ', `${result.code}, sent ${result.attempts} time(s)\n${result.text}`);
} catch (error) {
  if (!(error instanceof Refused || error instanceof Failed)) throw error;
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
} finally {
  await server.close();
}
