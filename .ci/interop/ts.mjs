// The TypeScript clients: node ts.mjs v1|legacy|auto|modern COMMAND [ARG...], or a URL in place of COMMAND
//
// v1 uses @modelcontextprotocol/sdk. The other modes use @modelcontextprotocol/client
// and are the value of its option versionNegotiation.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { checkProgress, run } from './steps.mjs';

const [flavour, command, ...args] = process.argv.slice(2);
const http = command.startsWith('http:');
const modern = flavour === 'auto' || flavour === 'modern';
const info = { name: `interop-${flavour}`, version: '1.0.0' };
const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: { listChanged: true } };

/** Returns a client of either library, and functions that hide the differences of their APIs. */
async function open() {
  if (flavour === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    const schemas = Object.values(types).filter((t) => t?.shape?.method?.value);
    const named = (method) => schemas.find((t) => t.shape.method.value === method);
    const client = new Client(info, { capabilities });
    return {
      client,
      transport: http ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport({ command, args }),
      answer: (method, handler) => client.setRequestHandler(named(method), handler),
      onNotification: (method, handler) => client.setNotificationHandler(named(method), handler),
      call: (params, options) => client.callTool(params, undefined, options)
    };
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
  const mode = flavour === 'modern' ? { pin: '2026-07-28' } : flavour;
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  return {
    client,
    transport: http ? new StreamableHTTPClientTransport(new URL(command)) : new StdioClientTransport({ command, args }),
    answer: (method, handler) => client.setRequestHandler(method, handler),
    onNotification: (method, handler) => client.setNotificationHandler(method, handler),
    call: (params, options) => client.callTool(params, options)
  };
}

const { client, transport, answer, onNotification, call } = await open();
const received = [];
const bell = new EventEmitter();
for (const method of ['message', 'resources/updated', 'tools/list_changed', 'prompts/list_changed']) {
  onNotification(`notifications/${method}`, ({ params }) => {
    received.push({ method, params });
    bell.emit('received');
  });
}

/** Waits for n notifications of a method and returns them. Discards all others. */
async function news(method, n = 1) {
  const signal = AbortSignal.timeout(20_000);
  while (received.filter((h) => h.method === method).length < n) {
    await once(bell, 'received', { signal }).catch(() => assert.fail(`no ${method} in 20 s: ${JSON.stringify(received)}`));
  }
  return received.splice(0).filter((h) => h.method === method).map((h) => h.params);
}

// The user fills in exactly the fields of a form, or declines.
const answers = { username: 'ann', email: 'ann@example.com', name: 'Ann', color: 'blue', context: 'home', ok: true };
let action = 'accept';
let asked;
answer('elicitation/create', ({ params }) => {
  asked = params;
  if (params.mode === 'url' || action !== 'accept') return { action };
  return { action, content: Object.fromEntries(Object.keys(params.requestedSchema.properties).map((k) => [k, answers[k]])) };
});
answer('sampling/createMessage', ({ params }) => ({
  model: 'parrot', role: 'assistant', stopReason: 'endTurn',
  content: { type: 'text', text: `${[params.messages[0].content].flat()[0].text} indeed` }
}));
answer('roots/list', () => ({ roots: [{ uri: 'file:///srv/ann', name: 'ann' }] }));

const tool = (name, args = {}, options) => call({ name, arguments: args }, options);
async function text(name, args, options) {
  const result = await tool(name, args, options);
  assert.equal(result.content[0].type, 'text');
  return result.content[0].text;
}
const types = async (name) => (await tool(name)).content.map((c) => c.type).join();
const fails = (promise, pattern) => assert.rejects(promise, (e) => pattern.test(String(e)) || assert.fail(e));
const names = (list, key = 'name') => list.map((item) => item[key]);

await run({
  async connect() {
    await client.connect(transport);
    assert.equal(client.getServerVersion().name, 'everything');
    assert.match(client.getInstructions(), /one of everything/);
    if (flavour !== 'v1') assert.equal(client.getNegotiatedProtocolVersion(), modern ? '2026-07-28' : '2025-11-25');
  },
  async lists() {
    const { tools } = await client.listTools();
    assert.equal(tools.find((t) => t.name === 'add').outputSchema.properties.sum.type, 'integer');
    assert.ok(names((await client.listResources()).resources, 'uri').includes('test://static-text'));
    assert.deepEqual(names((await client.listResourceTemplates()).resourceTemplates, 'uriTemplate'), ['test://template/{id}/data']);
    assert.ok(names((await client.listPrompts()).prompts).includes('test_simple_prompt'));
  },
  async call() {
    assert.match(await text('test_simple_text'), /^This is a simple text/);
    assert.equal(await types('test_image_content'), 'image');
    assert.equal(await types('test_audio_content'), 'audio');
    assert.equal(await types('test_embedded_resource'), 'resource');
    assert.equal(await types('test_multiple_content_types'), 'text,image,resource');
  },
  async errors() {
    assert.equal((await tool('test_error_handling')).isError, true);
    assert.equal((await tool('slow', { seconds: 'many' })).isError, true);
    await fails(tool('no_such_tool'), /no_such_tool/);
    await fails(client.readResource({ uri: 'test://nothing' }), /not found/i);
  },
  async structured() {
    assert.deepEqual((await tool('add', { a: 2, b: 3 })).structuredContent, { sum: 5 });
  },
  async progress() {
    const seen = [];
    assert.equal(await text('test_tool_with_progress', {}, { onprogress: (p) => seen.push(p.progress) }), 'done');
    checkProgress(seen);
  },
  async cancel() {
    const abort = new AbortController();
    await fails(tool('slow', {}, { signal: abort.signal, onprogress: () => abort.abort('enough') }), /enough/);
    await text('test_simple_text');
  },
  async timeout() {
    await fails(tool('slow', {}, { timeout: 100 }), /timed out/i);
  },
  async resources() {
    const read = async (uri) => (await client.readResource({ uri })).contents[0];
    assert.match((await read('test://static-text')).text, /static text resource/);
    assert.match((await read('test://static-binary')).blob, /^iVBORw0KGgo/);
    assert.equal(JSON.parse((await read('test://template/42/data')).text).id, '42');
  },
  async subscribe() {
    const uri = 'test://watched-resource';
    const subscription = modern ? await client.listen({ resourceSubscriptions: [uri] }) : await client.subscribeResource({ uri });
    await tool('touch_watched_resource');
    assert.equal((await news('resources/updated'))[0].uri, uri);
    if (modern) await subscription.close();
    else await client.unsubscribeResource({ uri });
    await tool('touch_watched_resource');
    await text('test_simple_text');
    assert.deepEqual(received, []);
  },
  async prompts() {
    const { messages } = await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'x', arg2: 'y' } });
    assert.match(messages[0].content.text, /arg1='x', arg2='y'/);
    assert.equal((await client.getPrompt({ name: 'test_prompt_with_image' })).messages[0].content.type, 'image');
    await fails(client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'x' } }), /arg2/);
  },
  async completion() {
    const complete = async (ref, name) => (await client.complete({ ref, argument: { name, value: 'v' } })).completion.values;
    assert.deepEqual(await complete({ type: 'ref/prompt', name: 'test_prompt_with_arguments' }, 'arg1'), ['v1', 'v2']);
    assert.deepEqual(await complete({ type: 'ref/resource', uri: 'test://template/{id}/data' }, 'id'), ['v1', 'v2', 'v3']);
  },
  async logging() {
    const _meta = modern ? { 'io.modelcontextprotocol/logLevel': 'info' } : undefined;
    if (!modern) await client.setLoggingLevel('info');
    await call({ name: 'test_tool_with_logging', arguments: {}, _meta });
    const logs = await news('message', 3);
    assert.deepEqual(names(logs, 'level'), ['info', 'info', 'info']);
    assert.equal(logs[0].logger, 'everything');
  },
  async elicitation() {
    assert.match(await text('test_elicitation', { message: 'Who?' }), /action=accept, .*ann@example\.com/);
    assert.equal(asked.message, 'Who?');
    assert.equal(await text('test_url_elicitation'), 'on the way');
    assert.equal(asked.url, 'https://example.com/login');
    assert.equal(await text('test_input_required_result_multi_round'), 'Ann likes blue');
    const prompt = await client.getPrompt({ name: 'test_input_required_result_prompt' });
    assert.match(prompt.messages[0].content.text, /context: home/);
    action = 'decline';
    assert.match(await text('test_elicitation', { message: 'Who?' }), /action=decline/);
    action = 'accept';
  },
  async sampling() {
    assert.equal(await text('test_sampling', { prompt: 'Fine' }), 'LLM response: Fine indeed');
  },
  async roots() {
    assert.match(await text('roots'), /file:\/\/\/srv\/ann/);
    assert.match(await text('test_input_required_result_multiple_inputs'), /Ann, 1 roots$/);
    if (!modern) await client.sendRootsListChanged();
  },
  async changes() {
    const subscription = modern && (await client.listen({ toolsListChanged: true, promptsListChanged: true }));
    await tool('test_trigger_tool_change');
    await news('tools/list_changed');
    await tool('test_trigger_prompt_change');
    await news('prompts/list_changed');
    if (modern) await subscription.close();
  },
  async together() {
    const sums = await Promise.all(Array.from({ length: 100 }, (_, i) => tool('add', { a: i, b: 1 })));
    assert.deepEqual(sums.map((r) => r.structuredContent.sum), Array.from({ length: 100 }, (_, i) => i + 1));
  },
  async 'close at work'() {
    let closed;
    await tool('slow', {}, { onprogress: () => (closed = client.close()) }).catch(() => {}); // succeeds if the response is read before the client closes
    await closed;
  }
});
