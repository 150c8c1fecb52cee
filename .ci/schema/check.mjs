#!/usr/bin/env node
// Validates every line that a server wrote against the official JSON schema of its revision.
//
//   node check.mjs [--min N] FILE...   reads traces in the form of MCP_TRACE
//   node check.mjs --self-test         checks that invalid messages are reported
//
// Fails if there is a violation, or if the messages use fewer than N definitions of the schemas.

import { readFileSync } from 'node:fs';
import { ALL, LEGACY, MODERN, problems, schemas } from './spec.mjs';

const MINIMUM = 80;

// The definition of each method's result. The schemas name those of the server's notifications and requests.
const BOTH = {
  'tools/list': 'ListToolsResult', 'tools/call': 'CallToolResult',
  'prompts/list': 'ListPromptsResult', 'prompts/get': 'GetPromptResult',
  'resources/list': 'ListResourcesResult', 'resources/templates/list': 'ListResourceTemplatesResult',
  'resources/read': 'ReadResourceResult', 'completion/complete': 'CompleteResult'
};
const RESULTS = {
  legacy: {
    ...BOTH, initialize: 'InitializeResult', ping: 'EmptyResult', 'logging/setLevel': 'EmptyResult',
    'resources/subscribe': 'EmptyResult', 'resources/unsubscribe': 'EmptyResult'
  },
  modern: { ...BOTH, 'server/discover': 'DiscoverResult', 'subscriptions/listen': 'SubscriptionsListenResult' }
};
const MAY_ASK = ['tools/call', 'prompts/get', 'resources/read'];

// CODES holds the revisions of errors that only some revisions have, and ERRORS the names of the
// definitions of errors in newer schemas.
const CODES = { [-32002]: LEGACY, [-32020]: [], [-32021]: [MODERN], [-32022]: [MODERN], [-32042]: ['2025-11-25'] };
const ERRORS = {
  [-32042]: 'URLElicitationRequiredError', [-32021]: 'MissingRequiredClientCapabilityError',
  [-32022]: 'UnsupportedProtocolVersionError', [-32700]: 'ParseError', [-32600]: 'InvalidRequestError',
  [-32601]: 'MethodNotFoundError', [-32602]: 'InvalidParamsError', [-32603]: 'InternalError'
};
const KEY = 'io.modelcontextprotocol/';

// ---- JSON ----

// mark replaces every number by a string, which is a NUL followed by the number's text. It also counts
// the strings and numbers.
function mark(json) {
  let [tokens, inside] = [0, false];
  const text = json.replace(/\\.|"|-?\d[\d.eE+-]*/g, (t) => {
    if (t === '"') inside = !inside;
    if (t[0] === '\\' || (inside ? t !== '"' : t === '"')) return t;
    tokens++;
    return inside ? t : `"\\u0000${t}"`;
  });
  return { text, tokens };
}

// count counts the strings and member names in a marked value. If the text has a duplicate member,
// there are fewer than in the text.
function count(value) {
  let n = 0;
  for (const todo = [value]; todo.length;) {
    const v = todo.pop();
    if (typeof v === 'string') n++;
    if (isObject(v)) n += Object.keys(v).length;
    if (v && typeof v === 'object') for (const inner of Object.values(v)) todo.push(inner);
  }
  return n;
}

// parse returns the value of a line, a copy with marks, in which 1, 1.0 and "1" are different ids, and
// whether an object has a duplicate member.
function parse(line) {
  const { text, tokens } = mark(line);
  const twin = JSON.parse(text);
  return { value: JSON.parse(line), twin, duplicate: tokens !== count(twin) };
}

const each = (v) => (Array.isArray(v) ? v : [v]);
const isObject = (v) => v !== null && typeof v === 'object' && !Array.isArray(v);

// ---- sessions ----

// A Verdict holds the violations of a message, and the definitions that it was validated against.
class Verdict {
  wrong = [];
  held = [];

  // validate validates the value against a definition.
  validate(revision, def, value) {
    this.wrong.push(...problems(revision, def, value));
    if (schemas[revision].has(def)) this.held.push([revision, def]);
  }

  reportIf(condition, violation) {
    if (condition) this.wrong.push(violation);
  }

  // either adopts the first of several verdicts without a violation, or the first one if all have
  // violations. It returns its index.
  either(verdicts, otherwise) {
    const i = Math.max(0, verdicts.findIndex((v) => v.wrong.length === 0));
    this.wrong.push(...(verdicts[i]?.wrong ?? [otherwise]));
    this.held.push(...(verdicts[i]?.held ?? []));
    return i;
  }
}

const verdictOf = (f) => {
  const v = new Verdict();
  f(v);
  return v;
};

// A Session holds the open requests of both directions.
class Session {
  open = new Map(); // requests of the client without a response, by id
  asked = new Set(); // ids of the server's requests
  revision; // the revision of the legacy era, after initialize

  // clientLine records the requests in a line of the client. Such lines are not checked, because
  // tests send invalid ones on purpose.
  clientLine(line) {
    let both;
    try {
      both = parse(line.replace(/^\ufeff/, ''));
    } catch {
      return;
    }
    each(both.value).forEach((m, i) => {
      const x = each(both.twin)[i];
      if (typeof x?.id !== 'string' || !('method' in m) && ('result' in m || 'error' in m)) return;
      const meta = isObject(m.params?._meta) ? m.params._meta : {};
      const r = { method: m.method, modern: `${KEY}protocolVersion` in meta, level: `${KEY}logLevel` in meta, token: x.params?._meta?.progressToken };
      this.open.set(x.id, [...(this.open.get(x.id) ?? []), r]);
    });
  }

  // serverLine checks a line of the server.
  serverLine(v, line) {
    let both;
    try {
      both = parse(line);
    } catch {
      return v.reportIf(true, 'not JSON');
    }
    v.reportIf(both.duplicate, 'a duplicate member');
    each(both.value).forEach((m, i) => this.message(v, m, each(both.twin)[i]));
    if (Array.isArray(both.value)) {
      v.reportIf(this.revision !== '2025-03-26', `a batch in revision ${this.revision}`);
      v.reportIf(both.value.length === 0, 'an empty batch');
      v.validate('2025-03-26', 'JSONRPCBatchResponse', both.value.map((m) => (m?.id === null ? { ...m, id: 0 } : m)));
    }
  }

  message(v, m, x) {
    const members = isObject(m) ? Object.keys(m).sort().join() : 'none';
    if (/^(error,id,jsonrpc|id,jsonrpc,result)$/.test(members)) this.response(v, m, x);
    else if (/^jsonrpc,method(,params)?$/.test(members)) this.notification(v, m, x);
    else if (/^id,jsonrpc,method(,params)?$/.test(members)) this.request(v, m, x);
    else v.reportIf(true, `the members of a message cannot be: ${members}`);
  }

  // response finds the request of a response. If a client used an id again before it read the
  // response, there may be several requests. The response must be valid for one of them.
  response(v, m, x) {
    if (m.id === null) return this.refusal(v, m);
    const open = this.open.get(x.id) ?? [];
    // The trace records a line at its end, and the response to a line that is too long is sent before.
    if (!open.length && m.error?.code === -32600) return this.fault(v, this.revision ? [this.revision] : ALL, m);
    const i = v.either(open.map((r) => verdictOf((w) => this.responseTo(w, r, m))), 'a response to no request');
    const [r] = open.splice(i, 1);
    if (r?.method === 'initialize' && m.result && !v.wrong.length) this.revision = m.result.protocolVersion;
  }

  // refusal checks an error with "id":null, which is the only message that the schemas do not allow.
  // JSON-RPC requires it if the id of the request could not be read, but the schemas require a string,
  // an integer, or no id.
  refusal(v, m) {
    v.reportIf(![-32700, -32600].includes(m.error?.code), '"id":null is only for requests whose id could not be read');
    this.fault(v, this.revision ? [this.revision] : ALL, { ...m, id: 0 });
  }

  fault(v, revisions, m) {
    const code = m.error?.code;
    for (const r of revisions) {
      v.validate(r, 'JSONRPCMessage', m);
      v.validate(r, schemas[r].has('JSONRPCError') ? 'JSONRPCError' : 'JSONRPCErrorResponse', m);
      v.reportIf(CODES[code] && !CODES[code].includes(r), `${r} has no error ${code}`);
      if (schemas[r].has(ERRORS[code])) v.validate(r, ERRORS[code], schemas[r].part(ERRORS[code], m));
    }
  }

  responseTo(v, r, m) {
    const own = r.method === 'initialize' && LEGACY.includes(m.result?.protocolVersion) && [m.result.protocolVersion];
    const revisions = r.modern ? [MODERN] : own || (this.revision ? [this.revision] : m.error ? ALL : LEGACY);
    if ('error' in m) return this.fault(v, revisions, m);
    const known = RESULTS[r.modern ? 'modern' : 'legacy'];
    let def = known[r.method];
    if (!def && !RESULTS.modern[r.method] && !RESULTS.legacy[r.method]) def = 'Result'; // a method of an extension
    if (!def) return v.reportIf(true, `a result of ${r.method}, which ${revisions} does not have`);
    if (!isObject(m.result)) return v.reportIf(true, 'a result that is not an object');
    const { taskId, status } = m.result; // of the extension for tasks, in which ttlMs null means without limit
    for (const key in m.result) v.reportIf(m.result[key] === null && !(key === 'ttlMs' && taskId), `result.${key} is null`);
    v.reportIf(def === 'EmptyResult' && Object.keys(m.result).length, 'an EmptyResult that is not {}');
    if (r.modern && m.result.resultType === 'input_required' && MAY_ASK.includes(r.method)) {
      def = 'InputRequiredResult';
      v.reportIf(!m.result.inputRequests && !m.result.requestState, 'an InputRequiredResult that asks nothing');
    } else if (r.modern && m.result.resultType === 'task' && r.method === 'tools/call') {
      def = 'Result';
      v.reportIf(typeof taskId !== 'string' || status !== 'working', 'a task without its members');
    } else v.reportIf(r.modern && m.result.resultType !== 'complete', `resultType of ${r.method}: ${m.result.resultType}`);
    for (const revision of revisions) {
      v.validate(revision, 'JSONRPCMessage', m);
      v.validate(revision, def, m.result);
    }
  }

  // notification finds the revisions that a notification may belong to. A log message does not name
  // its request, so it may belong to any open request that allows log messages.
  notification(v, m, x) {
    const requests = [...this.open].flatMap(([id, list]) => list.map((r) => ({ id, ...r })));
    const about = x.params?._meta?.[`${KEY}subscriptionId`];
    const legacy = this.revision ? [this.revision] : [];
    const of = (test) => requests.filter(test).flatMap((r) => (r.modern ? [MODERN] : legacy));
    let from = legacy;
    if (m.method === 'notifications/progress') from = of((r) => r.token !== undefined && r.token === x.params?.progressToken);
    else if (m.method === 'notifications/message') from = [...legacy, ...of((r) => r.modern && r.level)];
    else if (about !== undefined) from = of((r) => r.method === 'subscriptions/listen' && r.id === about);
    else if (m.method === 'notifications/cancelled' && !this.asked.has(x.params?.requestId)) from = [];
    v.either([...new Set(from)].map((r) => verdictOf((w) => this.named(w, r, 'notifications', m))), `${m.method} that belongs to no request, subscription or session`);
  }

  // request checks a request of the server. In the modern era these are inside of results.
  request(v, m, x) {
    v.reportIf(this.asked.has(x.id), `id ${m.id} was used before`);
    this.asked.add(x.id);
    if (this.revision && String(m.method).startsWith('com.example/')) v.validate(this.revision, 'JSONRPCMessage', m); // of an extension
    else if (this.revision) this.named(v, this.revision, 'requests', m);
    else v.reportIf(true, 'a request without a session');
  }

  named(v, revision, kind, m) {
    const def = schemas[revision][kind][m.method] ?? m.method;
    v.validate(revision, 'JSONRPCMessage', m);
    v.validate(revision, def, schemas[revision].part(def, m));
  }
}

class Checker {
  sessions = new Map();
  seen = Object.fromEntries(ALL.map((r) => [r, {}]));
  violations = [];
  lines = 0;

  feed(name, direction, text) {
    if (!this.sessions.has(name)) this.sessions.set(name, new Session());
    const [session, line] = [this.sessions.get(name), text.trim()];
    if (direction === 'in') return session.clientLine(line);
    const v = verdictOf((v) => session.serverLine(v, line));
    for (const [r, def] of v.held) this.seen[r][def] = (this.seen[r][def] ?? 0) + 1;
    if (v.wrong.length) this.violations.push({ name, line, wrong: v.wrong });
    this.lines++;
  }

  read(file) {
    readFileSync(file, 'utf8').split('\n').filter(Boolean).forEach((text, i) => {
      const trace = /^\d{4}\/\d\d\/\d\d [\d:.]+ (in|out) +(.*)$/s.exec(text);
      if (!trace) throw new Error(`${file}:${i + 1}: not a trace`);
      this.feed(file, trace[1], trace[2]);
    });
  }

  report(minimum) {
    for (const r of ALL) {
      const known = [RESULTS[r === MODERN ? 'modern' : 'legacy'], schemas[r].notifications, schemas[r].requests].flatMap(Object.values);
      const list = (names) => [...new Set(names)].sort().join(', ') || 'none';
      console.log(`${r}: ${list(Object.entries(this.seen[r]).map(([def, n]) => `${def} ${n}`))}`);
      console.log(`  never seen: ${list(known.filter((def) => !this.seen[r][def] && !/Task/.test(def)))}`);
    }
    for (const { name, line, wrong } of this.violations) {
      console.log(`\nVIOLATION in ${name}\n  ${line.length > 1000 ? `${line.slice(0, 1000)}...` : line}\n  - ${wrong.join('\n  - ')}`);
    }
    const count = ALL.reduce((n, r) => n + Object.keys(this.seen[r]).length, 0);
    console.log(`\n${this.lines} lines, ${count} definitions (at least ${minimum} are required), ${this.violations.length} violations`);
    return this.violations.length === 0 && count >= minimum;
  }
}

// ---- main ----

const args = process.argv.slice(2);
if (args[0] === '--self-test') {
  const { selfTest } = await import('./selftest.mjs');
  process.exit(selfTest(Checker) ? 0 : 1);
}
const minimum = args[0] === '--min' ? Number(args.splice(0, 2)[1]) : MINIMUM;
if (args.length === 0) {
  console.error('usage: check.mjs [--min N] FILE... | --self-test');
  process.exit(2);
}
const c = new Checker();
for (const file of args) c.read(file);
process.exit(c.report(minimum) ? 0 : 1);
