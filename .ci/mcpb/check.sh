#!/bin/sh
# check.sh MANIFEST BINARY [BUNDLE] packs a server as an MCPB bundle with npm's @anthropic-ai/mcpb.
# It checks that the manifest is valid, that the binary keeps its execute bit, and that the unpacked
# server responds. If BUNDLE is given, the bundle is copied there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cp "$here/package.json" "$here/package-lock.json" "$tmp"
(cd "$tmp" && npm ci --no-audit --no-fund --silent)
mcpb() { node "$tmp/node_modules/@anthropic-ai/mcpb/dist/cli/cli.js" "$@"; }
field() { node -p 'JSON.parse(require("fs").readFileSync(process.argv[1])).server.'"$1" "$tmp/in/manifest.json"; }

# A server.json and a Dockerfile beside the manifest must agree with it.
beside=$(dirname "$1")
if [ -e "$beside/server.json" ]; then
	node "$here/server.mjs" "$beside/server.json" "$1" "$beside/Dockerfile"
fi

mkdir "$tmp/in" "$tmp/out"
cp "$1" "$tmp/in/manifest.json"
binary=$(field entry_point)
mkdir -p "$(dirname "$tmp/in/$binary")"
cp "$2" "$tmp/in/$binary"
chmod 755 "$tmp/in/$binary"
[ "$(field type)" = binary ] || { echo "server.type is not binary" && exit 1; }
# shellcheck disable=SC2016 # the manifest contains these characters
case $(field mcp_config.command) in
'${__dirname}/'"$binary") ;;
*) echo "mcp_config.command is not the entry point, \${__dirname}/$binary" && exit 1 ;;
esac

mcpb validate "$tmp/in/manifest.json"
mcpb pack "$tmp/in" "$tmp/bundle.mcpb"
mcpb unpack "$tmp/bundle.mcpb" "$tmp/out"
[ -x "$tmp/out/$binary" ] || { echo "the execute bit of $binary was lost" && exit 1; }
cmp "$tmp/in/$binary" "$tmp/out/$binary"

# The server is started as a host would start it, with the manifest's settings and a file for each setting of the user.
cat >"$tmp/start.mjs" <<'END'
import { readFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
const [dir] = process.argv.slice(2);
const { server, user_config = {} } = JSON.parse(readFileSync(`${dir}/manifest.json`));
const fill = (s) => s.replaceAll('${__dirname}', dir).replaceAll(/\$\{user_config\.(\w+)\}/g, (_, name) => {
  if (!user_config[name]) throw new Error(`user_config.${name} is missing`);
  return `${dir}/${name}`;
});
const { command, args = [], env = {} } = server.mcp_config;
const { stdout, status } = spawnSync(fill(command), args.map(fill), {
  env: Object.fromEntries(Object.entries(env).map(([k, v]) => [k, fill(v)])),
  input: '{"jsonrpc":"2.0","id":1,"method":"ping"}\n', encoding: 'utf8', timeout: 10_000
});
process.stdout.write(stdout);
if (status !== 0 || stdout !== '{"jsonrpc":"2.0","id":1,"result":{}}\n') throw new Error(`the server does not respond; exit status ${status}`);
END
node "$tmp/start.mjs" "$tmp/out"
[ -z "${3:-}" ] || cp "$tmp/bundle.mcpb" "$3"
