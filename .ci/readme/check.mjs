#!/usr/bin/env node
// Checks README.md and example/README.md: the length of the README, JSON, links inside the
// repository, names of the API, checksums, places of commands. It writes their Go code into a module:
//
//   node .ci/readme/check.mjs OUT && (cd OUT && gofmt -d . && go vet ./... && go test ./...)
//
// The blocks of the README, and those of each section of the guides, are one package. What they use
// and do not show is in helpers/. Tests run together with client_test.go of example/notes. The section
// on cobra is compiled with .ci/cobra, as a module of its own: OUT/commands-as-tools, which the step cobra tests.

import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, '../..');
const out = process.argv[2];
if (!out) throw new Error('usage: check.mjs OUT');

const maxWords = 1400; // of the README
const places = ['clone', 'module', 'hosts', 'interop']; // as in commands in .ci/run
const packages = ['bytes', 'cmp', 'context', 'crypto/sha256', 'encoding/json', 'errors', 'fmt', 'io', 'io/fs', 'log', 'log/slog', 'maps', 'net', 'net/http', 'os', 'os/exec',
  'path/filepath', 'slices', 'strconv', 'strings', 'sync', 'testing', 'testing/synctest', 'time', 'unicode/utf8', 'example.com/mcp', 'github.com/spf13/cobra', 'github.com/spf13/pflag'];

let failed = 0;
function fail(message) {
  console.log(message);
  failed++;
}

const read = (name) => readFileSync(join(root, name), 'utf8');

/** Returns the fenced blocks of a text: language, code, line, section, and the last line before the block that is not blank. */
function blocks(text) {
  const found = [];
  let block, section = '', last = '';
  text.split('\n').forEach((line, i) => {
    const fence = line.match(/^```(\w*)$/);
    if (fence && block) {
      found.push(block);
      block = undefined;
    } else if (fence) {
      block = { language: fence[1], code: '', line: i + 1, section, last };
    } else if (block) {
      block.code += `${line}\n`;
      return;
    } else if (line.startsWith('## ')) {
      section = slug(line);
    }
    if (line.trim()) last = line;
  });
  return found;
}

/** Returns the anchor of a heading. */
function slug(heading) {
  return heading.replace(/^#+ /, '').trim().toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-');
}

const prose = (text) => text.replace(/^```[^]*?^```$/gm, '');
const anchors = (text) => prose(text).split('\n').filter((line) => /^#+ /.test(line)).map(slug);

function checkLinks(name, text) {
  const targets = [...prose(text).matchAll(/\]\(([^)\s]+)\)|src="([^"]+)"/g)].map((m) => m[1] ?? m[2]);
  for (const target of targets) {
    if (/^https?:/.test(target)) continue;
    const [file, anchor] = target.split('#');
    const path = file ? join(dirname(name), file) : name;
    if (!existsSync(join(root, path))) fail(`${name}: the link ${target} leads nowhere`);
    else if (anchor && !anchors(read(path)).includes(anchor)) fail(`${name}: ${path} has no section #${anchor}`);
  }
}

const source = ['mcp.go', 'session.go', 'cancel.go'].map(read).join('\n');
const declared = new Set([...source.matchAll(/^(?:func (?:\([^)]*\) )?|type |var |const |\t)([A-Z]\w*(?:, [A-Z]\w*)*)/gm)].flatMap((m) => m[1].split(', ')));
const examples = new Set([...read('example_test.go').matchAll(/^func (Example\w*)/gm)].map((m) => m[1]));
const types = [...source.matchAll(/^type ([A-Z]\w*) struct/gm)].map((m) => m[1]);

function checkNames(name, text) {
  const used = new RegExp(`(?<![\\w.])(?:mcp|${types.join('|')})\\.([A-Z]\\w*)`, 'g');
  for (const [whole, member] of text.matchAll(used)) if (!declared.has(member)) fail(`${name}: there is no ${whole}`);
  for (const [example] of prose(text).matchAll(/\bExample_?[A-Z_]\w*|\bExample_\w+/g)) if (!examples.has(example)) fail(`${name}: there is no ${example}`);
}

function writeGo(folder, texts) {
  mkdirSync(join(out, folder), { recursive: true });
  if (folder === 'commands-as-tools') copyModule(join(root, '.ci/cobra'), join(out, folder));
  const helper = join(here, 'helpers', `${folder}.go`);
  if (existsSync(helper)) copyFileSync(helper, join(out, folder, 'helpers.go'));
  if (folder === 'serve-over-http') for (const file of ['http.go', 'message.go']) writeFileSync(join(out, folder, file), read(`example/http/${file}`).replace('package main', 'package docs'));
  const [code, tests] = [[], []];
  for (const text of texts) (text.includes('*testing.T)') ? tests : code).push(text);
  writeFile(folder, 'code.go', code);
  if (folder === 'verify-a-copy') writeCopy(join(out, folder, 'internal/mcp'));
  if (tests.length === 0) return;
  if (folder === 'test') copyFileSync(join(root, 'example/README.md'), join(out, folder, 'README.md')); // has the table of tools
  writeFile(folder, 'code_test.go', tests);
  writeFileSync(join(out, folder, 'client_test.go'), read('example/notes/client_test.go').replace('package main', 'package docs'));
}

/** Writes a copy of the library, and its checksums. */
function writeCopy(to) {
  mkdirSync(to, { recursive: true });
  for (const file of ['mcp.go', 'session.go', 'cancel.go']) copyFileSync(join(root, file), join(to, file));
  writeFileSync(join(to, 'SHA256SUMS'), execFileSync(join(root, '.ci/sums')));
}

/** Copies a module that requires other modules. With its own go.mod it is not a part of the module in OUT. */
function copyModule(from, to) {
  for (const file of readdirSync(from)) copyFileSync(join(from, file), join(to, file));
  writeFileSync(join(to, 'go.mod'), readFileSync(join(from, 'go.mod'), 'utf8').replace('=> ../..', `=> ${root}`));
  writeFileSync(join(to, 'client_test.go'), read('example/notes/client_test.go').replace('package main', 'package docs'));
}

function writeFile(folder, file, texts) {
  if (texts.length === 0) return;
  const code = texts.join('\n');
  const bare = code.replace(/"(?:[^"\\\n]|\\.)*"|`[^`]*`|\/\/.*/g, '""');
  const imports = packages.filter((path) => new RegExp(`\\b${path.split('/').pop()}\\.[A-Z]`).test(bare));
  writeFileSync(join(out, folder, file), `package docs\n\n${imports.map((path) => `import "${path}"\n`).join('')}\n${code}`);
}

mkdirSync(out, { recursive: true });
const version = '1.26'; // log/slog.NewMultiHandler
writeFileSync(join(out, 'go.mod'), `module docs\n\ngo ${version}\n\nrequire example.com/mcp v0.0.0\n\nreplace example.com/mcp => ${root}\n`);

const programs = new Map(); // the Go code, by package
for (const name of ['README.md', 'example/README.md']) {
  const text = read(name);
  checkLinks(name, text);
  checkNames(name, text);
  for (const [sum] of text.matchAll(/\b[0-9a-f]{64}\b/g)) if (!read('CHANGES.md').includes(sum)) fail(`${name}: ${sum} is not in CHANGES.md`);
  for (const { language, code, line, section, last } of blocks(text)) {
    const at = `${name}:${line}`;
    const marker = last.match(/^<!-- \.ci\/run: (\w+) -->$/);
    switch (language) {
      case 'sh':
        if (!places.includes(marker?.[1])) fail(`${at}: these commands are not marked with a place; see commands in .ci/run`);
        break;
      case 'json':
        try {
          JSON.parse(code);
        } catch (e) {
          fail(`${at}: ${e.message}`);
        }
        break;
      case 'go': {
        if (/^package main$/m.test(code)) break; // the step copying builds the program
        const folder = name === 'README.md' ? 'readme' : section;
        programs.set(folder, [...(programs.get(folder) ?? []), code]);
        break;
      }
      case 'nginx':
        break;
      default:
        fail(`${at}: a block of an unknown language, ${language || 'none'}`);
    }
  }
}
for (const [folder, texts] of programs) writeGo(folder, texts);
for (const name of ['CHANGES.md', '.ci/README.md']) checkLinks(name, read(name));

const words = read('README.md').split(/\s+/).filter(Boolean).length;
console.log(`README.md: ${words} words, at most ${maxWords}; Go code in ${programs.size} packages`);
if (words > maxWords) fail(`README.md is too long by ${words - maxWords} words`);
process.exit(failed ? 1 : 0);
