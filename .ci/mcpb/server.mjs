// server.mjs SERVER.JSON MANIFEST DOCKERFILE checks a server.json for the MCP registry: the rules of its schema of
// 2025-12-11 for the members that are used here, and the registry's rules on names and hashes. The name, the version
// and the description must be those of the MCPB manifest, and the name must be the label of the image.
import { readFileSync } from 'node:fs';

const [serverFile, manifestFile, dockerfile] = process.argv.slice(2);
const server = JSON.parse(readFileSync(serverFile));
const manifest = JSON.parse(readFileSync(manifestFile));
const label = /^LABEL io\.modelcontextprotocol\.server\.name="(.*)"$/m.exec(readFileSync(dockerfile, 'utf8'))?.[1];

let failed = false;
function check(ok, what) {
  if (ok) return;
  console.error(`${serverFile}: ${what}`);
  failed = true;
}
function only(object, allowed, where) {
  for (const key in object) check(allowed.includes(key), `${where} has an unknown member ${key}`);
}

only(server, ['$schema', 'name', 'title', 'description', 'version', 'repository', 'websiteUrl', 'icons', 'packages', 'remotes', '_meta'], 'the top level');
check(server.$schema === 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json', '$schema is not the current one');
check(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/.test(server.name) && server.name.length <= 200, 'name must be like io.github.user/server');
check(server.description?.length >= 1 && server.description.length <= 100, 'description must have 1 to 100 characters');
check(server.title === undefined || (server.title.length >= 1 && server.title.length <= 100), 'title must have 1 to 100 characters');
check(/^\d+\.\d+\.\d+$/.test(server.version), 'version must be a version and not a range');
check(server.version === manifest.version, `version is not that of the manifest, ${manifest.version}`);
check(server.description === manifest.description, 'description is not that of the manifest');
check(server.name?.endsWith(`/${manifest.name}`), `name does not end with that of the manifest, ${manifest.name}`);
check(server.name === label, `name is not the label of the Dockerfile, ${label}`);

const kinds = (server.packages ?? []).map((p) => p.registryType);
check(kinds.includes('mcpb') && kinds.includes('oci'), 'packages must have an MCPB bundle and an OCI image');
for (const p of server.packages ?? []) {
  only(p, ['registryType', 'identifier', 'version', 'fileSha256', 'runtimeHint', 'transport', 'runtimeArguments', 'packageArguments', 'environmentVariables'], p.registryType);
  check(p.transport?.type === 'stdio', `${p.registryType}: transport.type must be stdio`);
  for (const arg of [...(p.runtimeArguments ?? []), ...(p.packageArguments ?? [])]) {
    check((arg.type === 'named' && arg.name) || (arg.type === 'positional' && (arg.value || arg.valueHint)), `${p.registryType}: invalid argument ${JSON.stringify(arg)}`);
  }
  if (p.registryType === 'mcpb') {
    check(/^https:\/\/.*mcp/.test(p.identifier), 'mcpb: identifier must be the URL of a bundle');
    check(/^[a-f0-9]{64}$/.test(p.fileSha256), 'mcpb: fileSha256 must be a SHA-256 in hexadecimal');
  }
  if (p.registryType === 'oci') {
    check(p.identifier?.endsWith(`:${server.version}`), 'oci: the tag of identifier must be the version');
    check(p.version === undefined, 'oci: version must be absent, because identifier has it');
  }
}
process.exit(failed ? 1 : 0);
