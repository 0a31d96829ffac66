/** A server whose tools record each execution in a file, and then do what their arguments say. */

import { appendFileSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const log = process.argv[2];
const inputSchema = { type: 'object', properties: { then: { type: 'string' }, bytes: { type: 'integer' } } };
const tools = [
  { name: 'charge', inputSchema },
  { name: 'look', inputSchema, annotations: { readOnlyHint: true } },
];

function answer({ method, params }) {
  const { protocolVersion } = params;
  if (method === 'initialize') return { result: { protocolVersion, capabilities: { tools: {} } } };
  if (method === 'tools/list') {
    const at = Number(params.cursor ?? 0); // one page per tool
    return { result: { tools: [tools[at]], nextCursor: at + 1 < tools.length ? String(at + 1) : undefined } };
  }
  appendFileSync(log, 'run\n');
  const runs = readFileSync(log, 'utf8').trim().split('\n').length;
  const { then, bytes = 0 } = params.arguments;
  if (then === 'die' || (then === 'die once' && runs === 1)) process.exit(3);
  if (then === 'hang') return undefined;
  if (then === 'refuse') return { error: { code: -32000, message: 'not today' } };
  console.log('a stray line');
  return { result: { content: [{ type: 'text', text: 'x'.repeat(bytes) || `run ${runs}` }] } };
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const message = JSON.parse(line);
  const answered = message.id !== undefined && answer(message);
  if (answered) console.log(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...answered }));
});
