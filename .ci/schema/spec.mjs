// The official schemas of all revisions, and validation against them.

import { readFileSync } from 'node:fs';
import Ajv from 'ajv';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

export const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
export const MODERN = '2026-07-28';
export const ALL = [...LEGACY, MODERN];

const specs = Object.fromEntries(ALL.map((revision) =>
  [revision, JSON.parse(readFileSync(new URL(`spec/${revision}.schema.json`, import.meta.url)))]));

// known holds the names of the members of all revisions.
const known = new Set(['extensions']); // hosts of the older revisions read them from initialize
function addNames(node) {
  if (!node || typeof node !== 'object') return;
  for (const name in node.type === 'object' ? node.properties : {}) known.add(name);
  Object.values(node).forEach(addNames);
}
Object.values(specs).forEach(addNames);

// The official schemas allow unknown members. close forbids them in the newest revision. Members are sent
// alike in all revisions, because clients ignore those that they do not know, so in an older revision close
// forbids only names that no revision has. Objects whose members the user chooses stay open.
function close(node, name, newest) {
  if (!node || typeof node !== 'object' || /^(_meta|inputSchema|outputSchema|allOf)$|MetaObject$/.test(name)) return node;
  for (const [key, val] of Object.entries(node)) close(val, key, newest);
  if (node.type !== 'object' || !node.properties || 'additionalProperties' in node) return node;
  if (newest) node.additionalProperties = false;
  else node.propertyNames = { enum: [...known] };
  return node;
}

export const schemas = Object.fromEntries(ALL.map((revision) => {
  const spec = specs[revision];
  const place = spec.$defs ? '$defs' : 'definitions';
  const defs = spec[place];
  const ajv = new (place === '$defs' ? Ajv2020 : Ajv)({ strict: false, allErrors: true, verbose: true });
  addFormats(ajv);
  ajv.addSchema(close(spec, '', revision === MODERN), revision);
  // union returns the definitions in a union by the constant of their member method.
  const union = (name) => Object.fromEntries((defs[name]?.anyOf ?? []).map(({ $ref }) => {
    const def = $ref.split('/').pop();
    return [defs[def].properties.method.const, def];
  }));
  return [revision, {
    has: (def) => def in defs,
    // part returns the part of a message that a definition describes. Older definitions of requests and
    // notifications omit jsonrpc and id, and some definitions of errors describe only the member error.
    part: (def, m) => {
      const named = defs[def]?.properties ?? {};
      const { jsonrpc, id, ...rest } = m;
      return named.jsonrpc ? m : named.code ? m.error : rest;
    },
    validator: (def) => ajv.getSchema(`${revision}#/${place}/${def}`),
    notifications: union('ServerNotification'), requests: union('ServerRequest')
  }];
}));

// problems returns the violations of a definition by a value. Each begins with its place in the value.
export function problems(revision, def, value) {
  if (!schemas[revision].has(def)) return [`${revision} has no ${def}`];
  const validate = schemas[revision].validator(def);
  return validate(value) ? [] : explain(revision, validate.errors).slice(0, 6).map((w) => `${revision} ${def}: ${w}`);
}

// explain returns the texts of errors. For a union it describes the most likely branch, which has the
// fewest errors, and the fewest constants that do not match.
function explain(revision, errors) {
  const inside = (e, union) => `${e.instancePath}/`.startsWith(`${union.instancePath}/`);
  const unions = errors.filter((e, i) => e.keyword === 'anyOf' && !errors.slice(i + 1).some((u) => u.keyword === 'anyOf' && inside(e, u)));
  const words = errors.filter((e) => !unions.some((u) => inside(e, u)))
    .map((e) => `${e.instancePath} ${e.message} ${e.params.additionalProperty ?? e.params.allowedValue ?? ''}`.trim());
  for (const u of unions) {
    const branches = u.schema.filter((b) => b.$ref).map((b) => {
      const validate = schemas[revision].validator(b.$ref.split('/').pop());
      validate(u.data);
      return explain(revision, validate.errors ?? []).map((w) => `${u.instancePath}${w[0] === '/' ? '' : ' '}${w}`);
    });
    const cost = (b) => b.length + 100 * b.filter((w) => w.includes('must be equal to constant')).length;
    words.push(...branches.sort((a, b) => cost(a) - cost(b))[0]);
  }
  return [...new Set(words)];
}
