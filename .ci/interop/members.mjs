// Sends the same requests in each revision that begins with initialize, as lines of JSON, and
// compares the results: node members.mjs COMMAND [ARG...]

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { run } from './steps.mjs';

const [command, ...args] = process.argv.slice(2);
const requests = [
  ['tools/list'],
  ['tools/call', { name: 'weather', arguments: { city: 'Rome' }, _meta: { progressToken: 'p' } }],
  ['tools/call', { name: 'note' }],
  ['resources/list'],
  ['resources/templates/list'],
  ['resources/read', { uri: 'test://note' }],
  ['prompts/list'],
  ['prompts/get', { name: 'forecast', arguments: { city: 'Rome' } }]
];

/** Runs a session and returns the results in the order of the requests: serverInfo, the notifications, and those of requests. */
async function session(protocolVersion) {
  const server = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const exit = once(server, 'exit');
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const send = (message) => server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const notifications = [];
  async function request(id, method, params) {
    send({ id, method, params });
    for (;;) {
      const { value, done } = await lines.next();
      assert.ok(!done, `${method}: the server ended`);
      const message = JSON.parse(value);
      if (!message.method) {
        assert.equal(message.id, id, value);
        assert.ok(message.result, value);
        return message.result;
      }
      notifications.push(message);
    }
  }
  const opened = await request(0, 'initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'interop-members', version: '1.0.0' } });
  assert.equal(opened.protocolVersion, protocolVersion);
  send({ method: 'notifications/initialized' });
  const results = [];
  for (const [i, [method, params]] of requests.entries()) results.push(await request(i + 1, method, params));
  server.stdin.end();
  assert.deepEqual(await exit, [0, null]);
  return [opened.serverInfo, notifications, ...results];
}

const sessions = {};
const sessionOf = (revision) => async () => {
  sessions[revision] = await session(revision);
};
const [newest, ...older] = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];

await run({
  ...Object.fromEntries([newest, ...older].map((revision) => [`session of ${revision}`, sessionOf(revision)])),
  [`members in ${newest}`]() {
    const [info, [{ params: progress }], { tools }, called, noted, { resources }, { resourceTemplates }, read, { prompts }, got] = sessions[newest];
    const has = (object, ...members) => members.forEach((member) => assert.ok(object[member], `${member} is missing in ${JSON.stringify(object)}`));
    has(info, 'title', 'icons', 'websiteUrl');
    has(progress, 'message');
    has(tools[0], 'title', 'icons', 'annotations', 'outputSchema', '_meta');
    has(called, 'structuredContent');
    assert.deepEqual(JSON.parse(called.content[0].text), called.structuredContent);
    has(noted, '_meta');
    for (const item of [resources[0], resourceTemplates[0]]) has(item, 'title', 'icons', 'annotations', '_meta');
    has(read.contents[0], '_meta');
    has(prompts[0], 'title', 'icons', '_meta');
    has(prompts[0].arguments[0], 'title');
    for (const content of [noted.content[0], got.messages[0].content]) {
      has(content, '_meta');
      has(content.annotations, 'lastModified');
    }
  },

  // All revisions receive the members of the newest one. Clients ignore members that they do not
  // know: oldest.mjs and oldest.py show it for the oldest clients.
  ...Object.fromEntries(older.map((revision) => [`members in ${revision}`, () => assert.deepEqual(sessions[revision], sessions[newest])]))
});
