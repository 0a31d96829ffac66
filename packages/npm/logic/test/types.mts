/** Uses the library as a program in TypeScript does; it is only compiled. */

import { Failed, Gate, Logic, settingsFromFile, type Server, type Settings } from '@toolgate/logic';
import { StdioServer } from '@toolgate/logic/stdio';

const logic = await Logic.load({ millis: 100 });
const text: string = logic.parseArguments('a: 1', { type: 'object' }).arguments;
const stage: 'json' | string = logic.parseArguments('a: 1').stage;
const masked: string = logic.mask(text, { groups: ['basic'] });
const maskedByAll: string = logic.mask(text) + logic.maskJson({ text });
const normal: string = logic.ask(({ naming }) => naming.normalize(stage + masked + maskedByAll));
const settings: Settings = await settingsFromFile('toolgate.yaml', { toolgate: normal });

class Own implements Server {
  async open(_: AbortSignal) {}
  async tools(_: AbortSignal) {
    return [{ name: 'add', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }, { name: 'sub' }];
  }
  async request(method: string): Promise<string | object> {
    if (method === 'tools/call') return { content: [] };
    throw new Failed('rpc', { code: -32000n, message: 'no' });
  }
}
const mentioned = logic.readCalls(text, [], { loose: true }).filter((call) => call.standing === 'inline');
console.log(mentioned.length);

const gate = new Gate(logic, { own: new Own(), demo: new StdioServer('toolgate', ['demo-server']) }, {
  settings: { policy: { readOnly: true }, maxResultBytes: 100n },
  approve: async ({ tool }) => tool.tool === 'add',
});
gate.settings.policy.destructive = 'ask';
const { code, text: answer } = await gate.call('demo__add', { a: 1, b: 2 }, { signal: AbortSignal.timeout(1000) });
if (code === 'outcome-unknown') console.log(answer, (await gate.tools())[0]?.name);
new Gate(logic, {}, { settings });

// @ts-expect-error: there is no such field
gate.settings.policy.readonly = true;
// @ts-expect-error: there is no such setting
new Gate(logic, {}, { settings: { polcy: {} } });
// @ts-expect-error: this value is not among those that there are
gate.settings.policy.destructive = 'refuse';
// @ts-expect-error: a result has no such code
if (code === 'fine') console.log();
// @ts-expect-error: an instance is loaded
new Logic();
