// Runs a gateway with the server, and two clients over HTTP: node gateway.mjs supergateway|mcp-proxy legacy|modern COMMAND [ARG...]

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { checkProgress, run } from './steps.mjs';

const [name, era, ...server] = process.argv.slice(2);
const modern = era === 'modern';

const free = createServer().listen(0);
await once(free, 'listening');
const { port } = free.address();
free.close();
// The command is that of example/README.md, with this port and server.
const [, command] = readFileSync(new URL('README.md', import.meta.url), 'utf8').match(new RegExp(`^npx -y ${name} (.*)$`, 'm'));
const place = name === 'supergateway' ? server.map((word) => `'${word}'`).join(' ') : server;
const options = [...(name === 'mcp-proxy' ? ['--upstreamProtocol', era] : []),
  ...command.split(' ').flatMap((word) => ({ 8080: port, '/path/to/server': place })[word] ?? word)];
const bin = fileURLToPath(new URL(`node_modules/.bin/${name}`, import.meta.url));
const gateway = spawn(process.execPath, [bin, ...options], { stdio: ['pipe', 'pipe', 'pipe'] });
const exit = once(gateway, 'exit');
await new Promise((listening) => {
  for (const stream of [gateway.stdout, gateway.stderr]) {
    stream.on('data', (data) => {
      process.stderr.write(data);
      if (/(listening|starting server) on port/i.test(data)) listening();
    });
  }
  exit.then(listening);
});

const { Client, StreamableHTTPClientTransport } = await import(
  modern ? '@modelcontextprotocol/client' : '@modelcontextprotocol/sdk/client/index.js'
).then(async (library) => (modern ? library : { ...library, ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')) }));
const versionNegotiation = modern ? { mode: { pin: '2026-07-28' } } : undefined;
const clients = [1, 2].map((n) => new Client({ name: `interop-${n}`, version: '1.0.0' }, { versionNegotiation }));
const transports = clients.map(() => new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`)));
const both = (f) => Promise.all(clients.map(f));
const call = (client, params, options) => (modern ? client.callTool(params, options) : client.callTool(params, undefined, options));

await run({
  connect: () => both((client, i) => client.connect(transports[i])),
  lists: () => both(async (client) => {
    assert.ok((await client.listTools()).tools.some((t) => t.name === 'add'));
    assert.equal((await client.listResources()).resources[0].uri, 'test://static-text');
    assert.equal((await client.listPrompts()).prompts.length, 5);
  }),
  calls: () => both((client, i) => Promise.all(Array.from({ length: 10 }, async (_, n) => {
    const { structuredContent } = await call(client, { name: 'add', arguments: { a: 100 * i, b: n } });
    assert.deepEqual(structuredContent, { sum: 100 * i + n });
  }))),
  progress: () => both(async (client) => {
    const seen = [];
    await call(client, { name: 'test_tool_with_progress', arguments: {} }, { onprogress: (p) => seen.push(p.progress) });
    checkProgress(seen);
  }),
  resources: () => both(async (client) => {
    const { contents } = await client.readResource({ uri: 'test://template/42/data' });
    assert.equal(JSON.parse(contents[0].text).id, '42');
  }),
  prompts: () => both(async (client) => {
    const { messages } = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'x', arg2: 'y' } });
    assert.match(messages[0].content.text, /arg1='x', arg2='y'/);
  }),
  close: () => both(async (client, i) => {
    if (!modern) await transports[i].terminateSession();
    await client.close();
  }),
  async 'gateway ended'() {
    gateway.kill('SIGTERM');
    assert.deepEqual(await exit, [0, null]);
  }
});
