// The oldest TypeScript client: node oldest.mjs COMMAND [ARG...]

import assert from 'node:assert/strict';
import { Client } from 'sdk-1.0.4/client/index.js';
import { StdioClientTransport } from 'sdk-1.0.4/client/stdio.js';
import { ProgressNotificationSchema } from 'sdk-1.0.4/types.js';
import { run } from './steps.mjs';

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'interop-oldest', version: '1.0.0' }, { capabilities: {} });
const [progress, errors] = [[], []];
client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => void progress.push(params.progress));
client.onerror = (e) => errors.push(e);
let listed, called;

await run({
  async connect() {
    await client.connect(new StdioClientTransport({ command, args }));
    assert.equal(client.getServerVersion().name, 'members');
  },
  async lists() {
    ({ tools: listed } = await client.listTools());
    assert.deepEqual(listed.map((t) => t.name), ['weather', 'note']);
    assert.deepEqual((await client.listResources()).resources.map((r) => r.uri), ['test://note']);
    assert.deepEqual((await client.listResourceTemplates()).resourceTemplates.map((t) => t.uriTemplate), ['test://notes/{id}']);
    assert.deepEqual((await client.listPrompts()).prompts.map((p) => p.name), ['forecast']);
  },
  async call() {
    called = await client.callTool({ name: 'weather', arguments: { city: 'Rome' }, _meta: { progressToken: 'p' } });
    assert.deepEqual(JSON.parse(called.content[0].text), { city: 'Rome', celsius: 21 });
    assert.equal((await client.callTool({ name: 'note' })).content[0].text, 'a note');
    assert.deepEqual(progress, [1]);
  },
  async resources() {
    assert.equal((await client.readResource({ uri: 'test://notes/7' })).contents[0].text, 'a note');
  },
  async prompts() {
    const { messages } = await client.getPrompt({ name: 'forecast', arguments: { city: 'Rome' } });
    assert.equal(messages[0].content.text, 'Will it rain in Rome?');
  },
  'no errors': () => assert.deepEqual(errors, []),
  // The steps above prove something only if the client received members that it does not know.
  async members() {
    for (const member of ['title', 'icons', 'outputSchema', '_meta']) assert.ok(listed[0][member], member);
    assert.deepEqual(called.structuredContent, { city: 'Rome', celsius: 21 });
  },
  close: () => client.close()
});
