#!/usr/bin/env node
// Uses the web page of the MCP Inspector in headless Chromium, as a person would, with
// example/everything and example/notes.
//
//   node run.mjs [--cache DIR] [--picture FILE] SERVERS
//
// SERVERS is a directory with the two built programs. The Inspector and playwright-core are
// installed into DIR, or into a temporary directory. Chromium must be in PATH. With --picture,
// the dialog in which notes asks its question is written to FILE, as a PNG of at most 80 KB.
//
// Each server is visited twice, in a browser context of its own: with revision 2025-11-25 of the
// protocol (legacy), where a question is a request of the server, and with 2026-07-28 (modern),
// where it is a result. A visit also fails if the server ends before the page disconnects, or
// does not end with status 0 then. All waits are for elements of the page, files and processes.
// They have a time limit, after which the visit fails and the text of the page is printed.
//
// The exit status is 1 if anything failed. If Chromium is not installed, or the packages cannot
// be downloaded, the program prints NOT CHECKED and exits with status 0.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, statSync, watch, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify, stripVTControlCharacters } from 'node:util';

const limit = 60_000; // of one wait, in milliseconds
const pictureBytes = 80 * 1024;

const { values: options, positionals } = parseArgs({
  options: { cache: { type: 'string' }, picture: { type: 'string' } }, allowPositionals: true
});
if (positionals.length !== 1) throw new Error('usage: run.mjs [--cache DIR] [--picture FILE] SERVERS');
const servers = realpathSync(positionals[0]);
const picture = options.picture && resolve(options.picture);

const here = dirname(fileURLToPath(import.meta.url));
const run = promisify(execFile);
const work = mkdtempSync(join(tmpdir(), 'inspector-'));
const installed = resolve(options.cache ?? join(work, 'packages'));
let npm, inspector; // the processes, if they were started

// process.exit also runs the exit handler of playwright-core, which kills Chromium.
process.on('exit', () => {
  npm?.kill('SIGKILL');
  if (inspector?.pid) kill(-inspector.pid, 'SIGKILL');
  rmSync(work, { recursive: true, force: true });
});
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(130));

/** Sends a signal to a process, or to a group if pid is negative, and reports whether it exists. */
function kill(pid, signal) {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

function notChecked(why) {
  console.log(`NOT CHECKED: ${why}`);
  process.exit();
}

/** Installs the packages of the lock file. */
async function install() {
  mkdirSync(installed, { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(here, file), join(installed, file));
  try {
    const done = run('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'], { cwd: installed });
    npm = done.child;
    await done;
  } catch (e) {
    if (/EUSAGE|EINTEGRITY|EJSONPARSE/.test(e.stderr)) throw e; // package.json and the lock file do not fit
    notChecked(`the npm packages cannot be installed: ${e.stderr || e.message}`);
  }
}

/** Returns a port that is free now. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/**
 * Starts the Inspector and returns the URL of its page. The Inspector does not accept port 0. If
 * another process takes the free port before the Inspector does, another port is tried.
 */
async function startInspector(config) {
  const bin = join(installed, 'node_modules/.bin/mcp-inspector');
  for (let attempt = 1; ; attempt++) {
    const env = {
      ...process.env, HOME: work, HOST: '127.0.0.1', CLIENT_PORT: String(await freePort()), MCP_SANDBOX_PORT: '0', MCP_APP_ORIGIN_PORT: '0',
      MCP_AUTO_OPEN_ENABLED: 'false', MCP_INSPECTOR_SECRET_STORE: 'memory'
    };
    // The servers will be in the process group of the Inspector, so the exit handler kills them too.
    inspector = spawn(process.execPath, [bin, '--web', '--config', config], { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    inspector.stderr.on('data', (data) => (text += data));
    const url = await new Promise((resolve) => {
      createInterface(inspector.stdout).on('line', (line) => {
        text += `${line}\n`;
        const [found] = line.match(/http:\S+TOKEN=\S+/) ?? [];
        if (found) resolve(found);
      });
      inspector.on('exit', () => resolve());
    });
    if (url) return url;
    if (!/in use/i.test(text) || attempt === 5) throw new Error(`the Inspector does not start: ${text}`);
  }
}

/** Stops the Inspector, and fails if a process of its group is left. */
async function stopInspector() {
  const exit = once(inspector, 'exit', { signal: AbortSignal.timeout(limit) });
  inspector.kill();
  await exit;
  assert.equal(kill(-inspector.pid, 0), false, 'a process that the Inspector started is left');
}

/** Waits until a file exists in the work directory, and returns its contents. */
async function contents(name) {
  const path = join(work, name);
  const watcher = watch(work);
  try {
    while (!existsSync(path)) await once(watcher, 'change');
    return readFileSync(path, 'utf8').trim();
  } finally {
    watcher.close();
  }
}

/** Returns the value of the promise, or throws an error with the message after the time limit. */
async function within(promise, message) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(message)), limit)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** What a person does with the page. */
class Person {
  constructor(page) {
    this.page = page;
    this.header = page.getByRole('banner').first();
    this.main = page.getByRole('main');
    this.dialog = page.getByRole('dialog', { name: 'Elicitation Request' });
  }

  async sees(text) {
    await this.main.getByText(text).first().waitFor();
  }

  async tab(name) {
    await this.header.getByText(name, { exact: true }).click();
  }

  switch(name, checked) {
    return this.main.getByRole('switch', { name: `Connect or disconnect "${name}"`, exact: true, checked });
  }

  async connect(name, version) {
    await this.switch(name, false).click({ force: true }); // another element of the switch lies above this one
    await this.sees(`MCP ${version}`);
    // If the sidebar is closed, its contents move to tabs. The log level can be set only there.
    await this.page.getByRole('button', { name: 'Close monitoring sidebar' }).click();
  }

  async disconnect(name) {
    await this.page.getByRole('button', { name: 'Disconnect from server' }).click();
    await this.switch(name, false).waitFor();
  }

  tool(name) {
    return this.main.getByRole('button', { name: new RegExp(`(^| )${name}$`) });
  }

  async lists(...tools) {
    await this.tab('Tools');
    for (const name of tools) await this.tool(name).waitFor();
    const heading = await this.main.getByRole('heading', { name: /^Tools \(\d+\)$/ }).textContent();
    assert.ok(heading.match(/\d+/)[0] >= tools.length, heading);
  }

  async execute(name, args = {}) {
    await this.tab('Tools');
    await this.tool(name).click();
    for (const [field, value] of Object.entries(args)) await this.main.getByRole('textbox', { name: field, exact: true }).fill(value);
    await this.main.getByRole('button', { name: 'Execute Tool' }).click();
  }

  /** Waits for the result of the tool that was executed, closes it, and reports whether it was an error. */
  async result(text) {
    await this.main.getByRole('heading', { name: 'Results' }).waitFor();
    if (text) await this.sees(text);
    const failed = await this.main.getByRole('alert', { name: 'Tool Error' }).isVisible();
    await this.main.getByRole('button', { name: 'Close results' }).click();
    return failed;
  }

  async gets(text) {
    assert.equal(await this.result(text), false, 'the tool failed');
  }

  async answers(question, { tick, before = async () => {} }) {
    await this.dialog.getByText(question).waitFor();
    const box = this.dialog.getByRole('checkbox');
    assert.equal(await box.isChecked(), false, 'the box must not be ticked at first');
    await before();
    if (tick) await box.check();
    await this.dialog.getByRole('button', { name: 'Submit' }).click();
    await this.dialog.waitFor({ state: 'hidden' });
  }

  async reads(resource, text) {
    await this.tab('Resources');
    await this.main.getByRole('region', { name: /^URIs/ }).getByRole('button', { name: resource, exact: true }).click();
    await this.sees(text);
  }

  /** Writes a picture of the dialog. The page behind it is hidden. */
  async draws(file) {
    await this.dialog.getByRole('heading').click({ trial: true }); // waits until the dialog no longer moves
    const { x, y, width, height } = await this.dialog.boundingBox();
    const margin = 16;
    const clip = { x: x - margin, y: y - margin, width: width + 2 * margin, height: height + 2 * margin };
    const style = '.mantine-Modal-overlay { background: #dee2e6; backdrop-filter: none }';
    await this.page.screenshot({ path: file, clip, style, animations: 'disabled' });
    const { size } = statSync(file);
    console.log(`picture: ${size} bytes`);
    assert.ok(size <= pictureBytes, `the picture has more than ${pictureBytes} bytes`);
  }
}

async function useEverything(person, step, { modern }) {
  await step('tools are listed', () => person.lists('test_simple_text', 'add', 'slow'));
  await step('a tool without arguments', async () => {
    await person.execute('test_simple_text');
    await person.gets('This is a simple text response for testing.');
  });
  await step('a tool with arguments', async () => {
    await person.execute('add', { a: '2', b: '3' });
    await person.gets(/"sum":\s*5/);
  });
  // The Inspector may drop progress that it reads together with the result. This tool sends
  // progress first and then takes a minute, so it is cancelled.
  await step('progress', async () => {
    const shown = person.page.getByRole('alert').filter({ hasText: 'begun' }).waitFor();
    await Promise.all([shown, person.execute('slow')]);
    const cancelled = person.page.getByRole('alert').filter({ hasText: 'cancelled' }).waitFor();
    await Promise.all([cancelled, person.main.getByRole('button', { name: 'Cancel', exact: true }).click()]);
  });
  await step('a log message', async () => {
    if (!modern) { // in a modern session, the Inspector requests logs with each call
      await person.tab('Logs');
      await person.main.getByRole('button', { name: 'Set', exact: true }).click();
    }
    await person.execute('test_tool_with_logging');
    await person.gets('logged');
    await person.tab('Logs');
    await person.sees('Tool processing data');
  });
  await step('a resource', () => person.reads('static-text', 'This is the content of the static text resource.'));
}

async function useNotes(person, step, { modern, env }) {
  const notes = async (...args) => (await run(join(servers, 'notes'), args, { env: { ...process.env, ...env } })).stdout;
  const kept = async (text) => (await notes('list')).includes(text);
  const [asked, other] = ['Buy milk and bread', 'Call Ann on Friday'];
  const id = (await notes('add', asked)).split(' ')[0];
  await notes('add', other);
  const question = /Delete .*Buy milk and bread/;
  const draw = () => (picture && !modern ? person.draws(picture) : undefined);

  await step('tools are listed', async () => {
    await person.lists('list_notes', 'search_notes', 'add_note', 'delete_note');
    await person.execute('search_notes', { text: 'milk' });
    await person.gets(asked);
  });
  await step('a question, the box not ticked', async () => {
    await person.execute('delete_note', { id });
    await person.answers(question, { tick: false, before: draw });
    await person.result();
    assert.ok(await kept(asked), 'the note must be kept');
    await person.reads('notes', asked);
  });
  await step('a question, the box ticked', async () => {
    await person.execute('delete_note', { id });
    await person.answers(question, { tick: true });
    await person.gets('Deleted');
    assert.ok(!(await kept(asked)), 'the note must be deleted');
    assert.ok(await kept(other), 'the other note must be kept');
  });
  await step('a resource', async () => {
    await person.reads('notes', other);
    await person.main.getByRole('button', { name: 'Refresh' }).click(); // the page shows what it read before
    await person.main.getByText(asked).waitFor({ state: 'detached' });
    await person.sees(other);
  });
}

/** Visits one server and fails if anything is not as it should be. */
async function visit(browser, url, { name, end, version, modern, env, use }) {
  const began = Date.now();
  const context = await browser.newContext({ deviceScaleFactor: picture ? 2 : 1 });
  const page = await context.newPage();
  page.setDefaultTimeout(limit);
  const stderr = join(work, `${end}.stderr`);
  const errors = [];
  page.on('pageerror', (e) => errors.push(e.message));
  let current;
  const step = async (what, does) => {
    current = what;
    await does();
  };
  const ended = contents(end);
  let leaving = false;
  const early = ended.then((how) => {
    if (!leaving) throw new Error(`the server ended early, with ${how}`);
    return new Promise(() => {});
  });
  const person = new Person(page);
  const steps = async () => {
    await step('the page is loaded', () => page.goto(url));
    await step('connect', () => person.connect(name, version));
    await use(person, step, { modern, env });
    leaving = true;
    await step('disconnect', () => person.disconnect(name));
    await step('the server ends', async () => assert.equal(await within(ended, 'the server is left'), 'status 0'));
  };
  try {
    await Promise.race([steps(), early]);
    console.log(`ok ${name}, ${((Date.now() - began) / 1000).toFixed(1)} s`);
  } catch (e) {
    console.log(`FAILED ${name}: ${current}: ${stripVTControlCharacters(e.stack)}`);
    for (const error of errors) console.log(`error in the page: ${error}`);
    console.log(`stderr of the server:\n${existsSync(stderr) ? readFileSync(stderr, 'utf8') : 'not started'}`);
    console.log(`the page shows:\n${await page.locator('body').innerText({ timeout: 5000 }).catch(String)}`);
    process.exitCode = 1;
  } finally {
    await context.close();
  }
}

const chromium = process.env.PATH.split(delimiter).map((dir) => join(dir, 'chromium')).find((file) => existsSync(file));
if (!chromium) notChecked('chromium is not installed');
// .ci/interop checks the command line of the same version.
const pinned = (dir) => JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8')).dependencies['@modelcontextprotocol/inspector'];
assert.equal(pinned(here), pinned(join(here, '../interop')), 'inspector/package.json and interop/package.json must have the same Inspector');
await install();

// Runs a server with the Inspector's own pipes, and records how it ended.
const wrapper = 'trap "signal=yes" TERM; end=$1; shift; "$@" 2>"$end.stderr"; echo "status $?${signal:+, after SIGTERM}" >"$end~"; mv "$end~" "$end"';
const visits = ['legacy', 'modern'].flatMap((era) => [['everything', useEverything], ['notes', useNotes, 'mcp']].map(([program, use, ...args]) => {
  const modern = era === 'modern';
  const end = `${program}-${era}.end`;
  const env = { NOTES_FILE: join(work, `notes-${era}.jsonl`) };
  return {
    name: modern ? `${program}-modern` : program, end, version: modern ? '2026-07-28' : '2025-11-25', modern, env, use,
    config: { command: 'sh', args: ['-c', wrapper, 'sh', join(work, end), join(servers, program), ...args], env, protocolEra: era }
  };
}));
const config = join(work, 'servers.json');
writeFileSync(config, JSON.stringify({ mcpServers: Object.fromEntries(visits.map((v) => [v.name, v.config])) }));

const playwright = createRequire(join(installed, 'package.json'))('playwright-core');
const [url, browser] = await Promise.all([
  within(startInspector(config), 'the Inspector does not start'),
  playwright.chromium.launch({
    executablePath: chromium, env: { ...process.env, HOME: work, TMPDIR: work }, handleSIGHUP: false, handleSIGINT: false, handleSIGTERM: false,
    // The page requests fonts from the internet. Chromium may reach only the Inspector.
    args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1']
  })
]);
for (const v of visits) await visit(browser, url, v);
await browser.close();
if (!process.exitCode) await stopInspector();
process.exit();
