// Runs the Inspector's command line once for each request: node inspector.mjs tools|skills legacy|modern COMMAND [ARG...]

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { run } from './steps.mjs';

const [kind, era, ...server] = process.argv.slice(2);
const inspector = fileURLToPath(new URL('node_modules/.bin/mcp-inspector', import.meta.url));

async function inspect(method, ...options) {
  const args = ['--cli', '--format', 'json', '--protocol-era', era, ...server, '--method', method, ...options];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [inspector, ...args]);
  process.stderr.write(stderr);
  return options.includes('--verify') ? JSON.parse(stdout) : JSON.parse(stdout).result;
}

const skill = 'skill://review/SKILL.md';
/** Checks the report of --verify: the Inspector has read each file of the skill, and its digest and size are as listed. */
function checkReport({ uri, ok, outcome, conformance, frontmatter, files }) {
  assert.deepEqual({ uri, ok, outcome, conformance, frontmatter }, { uri: skill, ok: true, outcome: 'verified', conformance: [], frontmatter: [] });
  assert.deepEqual(files.map((f) => [f.uri, f.status]), [[skill, 'verified'], ['skill://review/references/errors.md', 'verified']]);
}

await run(kind === 'skills' ? {
  async 'skills/list'() {
    assert.deepEqual((await inspect('skills/list')).skills.map((s) => s.uri), [skill]);
  },
  async 'skills/list --verify'() {
    checkReport(await inspect('skills/list', '--verify', '--require-digests'));
  },
  async 'skills/get --verify'() {
    checkReport(await inspect('skills/get', '--uri', skill, '--verify', '--require-digests'));
  }
} : {
  async 'tools/list'() {
    const { tools } = await inspect('tools/list', '--strict'); // --strict also reports schemas that hosts refuse
    assert.ok(tools.some((t) => t.name === 'add'));
  },
  async 'tools/call'() {
    const { structuredContent } = await inspect('tools/call', '--tool-name', 'add', '--tool-arg', 'a=2', 'b=3');
    assert.deepEqual(structuredContent, { sum: 5 });
  },
  async 'tools/call of a tool that becomes a task in 2026-07-28'() {
    const { content } = await inspect('tools/call', '--tool-name', 'slow_compute', '--tool-arg', 'seconds=1.5');
    assert.equal(content[0].text, 'computed');
  },
  async 'resources/list'() {
    assert.equal((await inspect('resources/list')).resources[0].uri, 'test://static-text');
  },
  async 'resources/templates/list'() {
    assert.equal((await inspect('resources/templates/list')).resourceTemplates[0].uriTemplate, 'test://template/{id}/data');
  },
  async 'resources/read'() {
    assert.equal(JSON.parse((await inspect('resources/read', '--uri', 'test://template/42/data')).contents[0].text).id, '42');
  },
  async 'prompts/list'() {
    assert.equal((await inspect('prompts/list')).prompts.length, 5);
  },
  async 'prompts/get'() {
    const { messages } = await inspect('prompts/get', '--prompt-name', 'test_prompt_with_arguments', '--prompt-args', 'arg1=x', 'arg2=y');
    assert.match(messages[0].content.text, /arg1='x', arg2='y'/);
  }
});
