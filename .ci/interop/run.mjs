#!/usr/bin/env node
// Runs real clients against a real server. Each client starts example/everything as a child
// process, uses every feature that its library supports, and closes the connection in its own way.
// The oldest clients, and one that writes its JSON itself, start members/ instead. They check that
// members of later revisions are sent to all clients, and that the oldest clients accept them.
//
//   node run.mjs [--cache DIR] [--only PATTERN] [--http] [--skills SERVER] EVERYTHING
//
// EVERYTHING is the built server. The clients are installed into DIR, or into a
// temporary directory. --only takes a pattern that the client's line must match.
// --skills names a server with the extension for skills, which the Inspector verifies.
// With --http, EVERYTHING speaks HTTP, without sessions: it is run with -http ADDRESS,
// and prints its URL, which each client gets in place of a command. In older revisions
// the steps that need a session are left out. The gateways, which start their server, and
// the oldest clients, which know only stdio, are left out too.
// The exit status is 1 if anything failed. Clients in Java, Python and Rust are
// skipped, and the table says so, if their tools are not installed.
//
// A client is a program in its own language. Its arguments are the command of the
// server, and it writes a line for each step: "ok STEP", "FAILED STEP: WHY" or,
// if the library does not support the step, "not STEP: WHY". From the records of
// go/wrap, this program checks that each server exited with status 0 without being
// killed, that each request got one response, that the progress of a request increased, and
// that calls became tasks over stdio for clients that support tasks, and never otherwise.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startHTTP } from '../conformance/http.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const { values: options, positionals } = parseArgs({
  options: { cache: { type: 'string' }, only: { type: 'string', default: '' }, http: { type: 'boolean' }, skills: { type: 'string' } }, allowPositionals: true
});
if (positionals.length !== 1) throw new Error('usage: run.mjs [--cache DIR] [--only PATTERN] [--http] [--skills SERVER] EVERYTHING');
const everything = realpathSync(positionals[0]);
if (options.cache) mkdirSync(options.cache, { recursive: true });
const work = options.cache ? realpathSync(options.cache) : mkdtempSync(join(tmpdir(), 'interop-'));
const path = (...parts) => join(work, ...parts);
cpSync(here, work, { recursive: true });
cpSync(join(here, '../../example/README.md'), path('README.md')); // gateway.mjs runs its commands
rmSync(path('seen'), { recursive: true, force: true });

const read = (...parts) => readFileSync(path(...parts), 'utf8');
const npm = (name) => JSON.parse(read('package.json')).dependencies[name];

const members = path('bin', 'members');
const pip = (n, name = 'mcp') => read(`requirements-${n}.txt`).match(`\n${name}==(.*)`)[1];
const go = (module) => read('go', 'go.mod').match(`${module} v(.*)`)[1];
const node = (...args) => [process.execPath, ...args];
const [legacy, modern] = ['2025-11-25', '2026-07-28'];
const clients = [
  { needs: 'npm', name: '@modelcontextprotocol/sdk', version: npm('@modelcontextprotocol/sdk'), argv: node('ts.mjs', 'v1') },
  ...['legacy', 'auto', 'modern'].map((mode) => (
    { needs: 'npm', name: '@modelcontextprotocol/client', version: npm('@modelcontextprotocol/client'), mode, argv: node('ts.mjs', mode) }
  )),
  ...['legacy', 'modern'].map((mode) => (
    { needs: 'npm', name: '@modelcontextprotocol/inspector', version: npm('@modelcontextprotocol/inspector'), mode, tasks: mode === 'modern', argv: node('inspector.mjs', 'tools', mode) }
  )),
  ...(options.skills ? ['legacy', 'modern'] : []).map((mode) => (
    { needs: 'npm', name: '@modelcontextprotocol/inspector', version: npm('@modelcontextprotocol/inspector'), mode, server: realpathSync(options.skills), argv: node('inspector.mjs', 'skills', mode) }
  )),
  ...['supergateway', 'mcp-proxy'].flatMap((name) => ['legacy', 'modern'].map((mode) => (
    { needs: 'npm', name, version: npm(name), mode, argv: node('gateway.mjs', name, mode) }
  ))),
  { needs: 'python1', name: 'mcp (Python)', version: pip(1), argv: [path('python1', 'bin', 'python'), 'client.py', 'v1'] },
  ...['legacy', 'auto', 'modern'].map((mode) => (
    { needs: 'python2', name: 'mcp (Python)', version: pip(2), mode, argv: [path('python2', 'bin', 'python'), 'client.py', mode] }
  )),
  ...['legacy', 'auto'].map((mode) => (
    { needs: 'pythontasks', name: 'fastmcp-tasks (Python)', version: pip('tasks', 'fastmcp-tasks'), mode, tasks: mode === 'auto',
      argv: [path('pythontasks', 'bin', 'python'), 'tasks.py', mode] }
  )),
  ...['modelcontextprotocol/go-sdk', 'mark3labs/mcp-go'].flatMap((name) => [legacy, modern].map((version) => (
    { needs: 'go', name: `github.com/${name}`, version: go(name), argv: [path('bin', name.split('/')[1]), version] }
  ))),
  { needs: 'java', name: 'io.modelcontextprotocol.sdk:mcp (Java)', version: read('java', 'pom.xml').match(/<artifactId>mcp<.*\s*<version>(.*)</)[1],
    argv: ['java', '-cp', `@${path('java', 'classes')}`, path('java', 'Interop.java')] },
  ...['legacy', 'auto', 'modern'].map((mode) => (
    { needs: 'rust', name: 'rmcp (Rust)', version: read('rust', 'Cargo.toml').match(/rmcp.*"=(.*?)"/)[1], mode, argv: [path('target', 'debug', 'interop'), mode] }
  )),
  { needs: 'npm', name: '@modelcontextprotocol/sdk', version: npm('sdk-1.0.4').split('@').pop(), server: members, argv: node('oldest.mjs') },
  { needs: 'pythonoldest', name: 'mcp (Python)', version: pip('oldest'), server: members, argv: [path('pythonoldest', 'bin', 'python'), 'oldest.py'] },
  { needs: 'go', name: 'lines of JSON', version: '-', server: members, argv: node('members.mjs') }
];

/** Runs a program and returns how it ended. If dir is given, the output is written to files in it. */
async function run(argv, { dir, env, cwd = work, seconds = 600 } = {}) {
  const log = (name) => (dir ? openSync(join(dir, name), 'w') : 'pipe');
  const child = spawn(argv[0], argv.slice(1), { cwd, env: { ...process.env, ...env }, stdio: ['ignore', log('stdout'), log('stderr')] });
  let text = '';
  child.stdout?.on('data', (data) => (text += data));
  child.stderr?.on('data', (data) => (text += data));
  const timer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000);
  const [code, signal] = await once(child, 'close').finally(() => clearTimeout(timer));
  return { ended: signal ?? `status ${code}`, ok: code === 0, text };
}

async function must(argv) {
  const { ok, text } = await run(argv);
  if (!ok) throw new Error(`${argv.join(' ')}: ${text.slice(-2000)}`);
}

/** Runs commands in order, unless the cache has their results for the same lock file. */
async function install(name, lock, ...commands) {
  const stamp = path(`installed-${name}`);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === read(lock)) return;
  for (const argv of commands) await must(argv);
  writeFileSync(stamp, read(lock));
}

/** Returns a function that creates a virtual environment, if Python is installed. */
const python = (n) => async () => {
  need('python3');
  const [env, list] = [`python${n}`, `requirements-${n}.txt`];
  await install(env, list, ['python3', '-m', 'venv', env],
    [path(env, 'bin', 'python'), '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps', '--no-compile', '-r', list]);
};

const found = (program) => process.env.PATH.split(delimiter).some((dir) => existsSync(join(dir, program)));
function need(program) {
  if (!found(program)) throw Object.assign(new Error(`${program} is not installed`), { absent: true });
}

const installers = {
  go: async () => {
    await must(['go', 'build', '-C', 'go', '-o', path('bin') + '/', './...']);
    await must(['go', 'build', '-C', join(here, 'members'), '-o', members, '.']); // its go.mod refers to the library of this tree
  },
  java: async () => {
    ['java', 'mvn'].forEach(need);
    await install('java', 'java/pom.xml', ['mvn', '-q', '-B', '-f', 'java/pom.xml', `-Dmaven.repo.local=${path('java', 'm2')}`,
      'dependency:build-classpath', `-Dmdep.outputFile=${path('java', 'classes')}`]);
  },
  npm: () => install('npm', 'package-lock.json', ['npm', 'ci', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']),
  python1: python(1),
  python2: python(2),
  pythonoldest: python('oldest'),
  pythontasks: python('tasks'),
  rust: async () => {
    need('cargo');
    await must(['cargo', 'build', '--quiet', '--manifest-path', 'rust/Cargo.toml', '--target-dir', 'target']);
  }
};

/** Waits up to ten seconds for all servers to exit, and returns their records. */
async function ends(dir) {
  const records = () => readdirSync(dir).filter((f) => f.endsWith('.end')).map((f) => JSON.parse(readFileSync(join(dir, f), 'utf8')));
  const watcher = watch(dir);
  const late = AbortSignal.timeout(10_000);
  while (records().some((r) => !r.end) && !late.aborted) await once(watcher, 'change', { signal: late }).catch(() => {});
  watcher.close();
  return records();
}

/**
 * Returns the revisions and the numbers of cancellations and tasks in the servers' traces, the requests
 * without exactly one response, and the progress notifications that did not increase.
 */
function wire(dir) {
  const [eras, wrong, back] = [new Set(), [], []];
  let cancels = 0;
  let tasks = 0;
  let ended = 0;
  const written = (f) => statSync(join(dir, f)).mtimeMs;
  for (const file of readdirSync(dir).filter((f) => f.endsWith('.trace')).sort((a, b) => written(a) - written(b))) {
    const text = readFileSync(join(dir, file), 'utf8');
    // Over HTTP each request has its own trace, and a client cancels a request by closing its
    // connection. The last ones may have ended only because the client has exited, so they do not count.
    if (text.includes('"text":"context canceled"')) ended++;
    else if (options.http) [cancels, ended] = [cancels + ended, 0];
    const open = new Map();
    const progress = new Map(); // the last progress of each token
    // The trace is empty if the client ended the server before the first message.
    for (const line of text.split('\n').filter(Boolean)) {
      const [, way, json] = line.match(/^\S+ \S+ (in|out) +(.*)$/);
      const { id, method, params, result } = JSON.parse(json);
      const key = JSON.stringify(id);
      const version = way === 'in' ? params?._meta?.['io.modelcontextprotocol/protocolVersion'] : result?.protocolVersion;
      if (version) eras.add(version);
      if (result?.resultType === 'task') tasks++;
      if (way === 'in' && method === 'notifications/cancelled') {
        open.delete(JSON.stringify(params.requestId));
        cancels++;
      }
      if (way === 'in') progress.delete(JSON.stringify(params?._meta?.progressToken)); // a request may reuse the token of an earlier one
      if (way === 'out' && method === 'notifications/progress') {
        const token = JSON.stringify(params.progressToken);
        if (params.progress <= progress.get(token)) back.push(`${file}: ${json}`);
        progress.set(token, params.progress);
      }
      if (way === 'in' && method && id !== undefined) open.set(key, method === 'tools/call' ? params.name : method);
      if (way === 'out' && !method && !open.delete(key)) wrong.push(`${file}: response without a request: ${json}`);
    }
    // A subscription, and the call of the step "close at work", last until the client closes the
    // connection. If the client no longer reads then, their responses cannot be sent.
    for (const [id, name] of open) if (!['subscriptions/listen', 'slow'].includes(name)) wrong.push(`${file}: ${name}, id ${id}, has no response`);
  }
  return { eras: [...eras].join(', ') || '-', cancels, tasks, wrong, back };
}

const isOlder = (client) => (client.mode ? client.mode === 'legacy' : !client.argv.includes(modern));
const needSession = ['subscribe', 'logging', 'elicitation', 'sampling', 'roots', 'changes'];

/** Runs one client, prints its lines, and returns its row of the table. */
async function visit(client, number) {
  const label = `${client.name} ${client.version} ${client.mode ?? ''}`.trim();
  const dir = path('seen', String(number));
  mkdirSync(dir, { recursive: true });
  const began = Date.now();
  const http = options.http && (await startHTTP([everything], openSync(join(dir, 'server'), 'w'), { MCP_TRACES: dir }));
  const server = http ? [http.url] : [path('bin', 'wrap'), dir, client.server ?? everything];
  const env = http && isOlder(client) ? { LEFT_OUT: needSession.join(' '), WHY: 'needs a session' } : {};
  const { ended, ok } = await run([...client.argv, ...server], { dir, env, seconds: 180 });
  const seconds = ((Date.now() - began) / 1000).toFixed(1);

  const lines = readFileSync(join(dir, 'stdout'), 'utf8').split('\n').filter((l) => /^(ok|not|FAILED) /.test(l));
  const check = (good, step, why) => lines.push(good ? `ok ${step}` : `FAILED ${step}: ${why}`);
  check(ok, 'client ended', ended);
  const servers = http ? [await http.close().then(() => ({ end: 'exit status 0' }), (e) => ({ end: e.message }))] : await ends(dir);
  for (const { pid, end } of servers) {
    if (end) continue;
    try {
      process.kill(pid, 'SIGKILL');
    } catch {} // the server has just ended
  }
  const bad = servers.filter((s) => s.end !== 'exit status 0');
  check(servers.length > 0 && bad.length === 0, 'server ended', JSON.stringify(bad));
  const { eras, cancels, tasks, wrong, back } = wire(dir);
  if (lines.includes('ok cancel') && !(http && isOlder(client))) check(cancels > 0, 'cancel reaches the server', 'no request was cancelled');
  check(wrong.length === 0, 'one response each', wrong.join('; '));
  const hasTasks = Boolean(client.tasks && !http);
  check((tasks > 0) === hasTasks, 'tasks only if supported', `${tasks} calls became tasks`);
  check(back.length === 0, 'progress increases', back.join('; '));

  for (const line of lines) console.log(`${label}: ${line}`);
  const said = (word) => lines.filter((l) => l.startsWith(word)).map((l) => l.slice(word.length + 1));
  if (said('FAILED').length > 0) console.log(`${label}: its stderr:\n${readFileSync(join(dir, 'stderr'), 'utf8').slice(-4000)}`);
  const exercised = [said('ok').join(', '), ...said('not').map((l) => `not ${l}`), ...said('FAILED').map((l) => `**FAILED** ${l}`)];
  // The numbers of servers by exit status and by the signals that they received.
  const ways = servers.map((s) => [s.end ?? 'killed', ...(s.signals ?? [])].join(', '));
  const ending = [...new Set(ways)].map((way) => `${ways.filter((w) => w === way).length} × ${way}`);
  return {
    failed: said('FAILED').length > 0,
    cells: [client.name, client.version, [client.mode, eras].filter(Boolean).join(': '), exercised.join('; '),
      ending.join('; '), `${seconds} s`]
  };
}

const chosen = clients.filter((c) => !options.http || (!c.server && !c.argv.includes('gateway.mjs'))).filter((c) => `${c.name} ${c.version} ${c.mode ?? ''}`.match(options.only));
const needed = new Set(['go', ...chosen.map((c) => c.needs)]);
const installed = Object.fromEntries([...needed].map((n) => [n, installers[n]().catch((e) => e)]));
const rows = [];
try {
  const wrapped = await installed.go;
  if (wrapped) throw wrapped;
  for (const [number, client] of chosen.entries()) {
    const problem = await installed[client.needs];
    if (!problem) {
      rows.push(await visit(client, number));
      continue;
    }
    const why = problem.absent ? `NOT CHECKED: ${problem.message}` : `**FAILED** ${problem.message}`;
    console.log(`${client.name} ${client.version}: ${why}`);
    rows.push({ failed: !problem.absent, absent: problem.absent, cells: [client.name, client.version, client.mode ?? '-', why.split('\n')[0], '', ''] });
  }
} finally {
  await Promise.all(Object.values(installed));
  if (!options.cache) rmSync(work, { recursive: true, force: true });
}
console.log('');
for (const cells of [['client', 'version', 'era', 'exercised', 'servers ended', 'time'], Array(6).fill('---'), ...rows.map((r) => r.cells)]) {
  console.log(`| ${cells.map((c) => c.replaceAll('|', '\\|')).join(' | ')} |`);
}
const failed = rows.filter((r) => r.failed).length;
const absent = rows.filter((r) => r.absent).length;
console.log(`\n${rows.length - failed - absent} of ${rows.length} clients passed, ${absent} not checked`);
process.exit(failed > 0 || absent === rows.length ? 1 : 0);
