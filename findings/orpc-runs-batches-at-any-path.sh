#!/usr/bin/env bash
# oRPC's server with its plugin for batches takes a POST with the header X-Orpc-Batch for a batch at every path below its prefix,
# also at that of another procedure, and answers 207 whatever becomes of the calls. The calls are an array whose members have a
# url and no method, since this is that of the request.
#
# Seen on 2026-11-30 with @orpc/server 1.16.1, @orpc/client 1.16.1 and node 20: "/rpc/login: 401, tries 1; batch at /rpc/health:
# 207, tries 10; 11 calls: 413, tries 0; the client sends /rpc/login/__batch__, members have: body url".
# Guess: a batch has a path of its own, and its members say what their method is, as those of JSON-RPC do.
# Follows from it: internal/bodyvalue/json_batch.go: "weight calls" counts members with a url; docs/recipes.md, "A log-in by tRPC":
# "match path /rpc/login" does not see such a batch.
# Ground: batches
#
# Use: orpc-runs-batches-at-any-path.sh [version of the npm package]. Needs npm and node.
set -euo pipefail
version=${1:-1.16.1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix . "@orpc/server@$version" "@orpc/client@$version" >/dev/null
node -p '"@orpc/server " + JSON.parse(require("fs").readFileSync("node_modules/@orpc/server/package.json")).version'
cat >calls.mjs <<'END'
import http from 'node:http';
import { os, ORPCError } from '@orpc/server';
import { RPCHandler } from '@orpc/server/node';
import { BatchHandlerPlugin } from '@orpc/server/plugins';
import { createORPCClient } from '@orpc/client';
import { RPCLink } from '@orpc/client/fetch';
import { BatchLinkPlugin } from '@orpc/client/plugins';

let tries = 0;
const health = os.handler(() => 'well');
const login = os.handler(() => {
  tries++;
  throw new ORPCError('UNAUTHORIZED');
});
const handler = new RPCHandler({ health, login }, { plugins: [new BatchHandlerPlugin()] });
const server = http.createServer((request, response) => handler.handle(request, response, { prefix: '/rpc', context: {} }));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/rpc`;

const seen = [];
const post = async (name, path, headers, body) => {
  tries = 0;
  headers = { 'Content-Type': 'application/json', ...headers };
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  await response.text();
  seen.push(`${name}: ${response.status}, tries ${tries}`);
};
const batch = { 'X-Orpc-Batch': 'buffered' };
const calls = (n) => Array(n).fill({ url: `${url}/login`, body: {} });
await post('/rpc/login', '/login', {}, {});
await post('batch at /rpc/health', '/health', batch, calls(10));
await post('11 calls', '/health', batch, calls(11));

// What the project's own client sends.
const look = async (request, init) => {
  const members = JSON.parse(await request.clone().text());
  seen.push(`the client sends ${new URL(request.url).pathname}, members have: ${Object.keys(members[0]).sort().join(' ')}`);
  return fetch(request, init);
};
const groups = [{ condition: () => true, context: {} }];
const client = createORPCClient(new RPCLink({ url, plugins: [new BatchLinkPlugin({ groups })], fetch: look }));
await Promise.allSettled([client.login(), client.login()]);
console.log(seen.join('\n'));
server.close();
server.closeAllConnections();
END
got=$(node calls.mjs)
want='/rpc/login: 401, tries 1
batch at /rpc/health: 207, tries 10
11 calls: 413, tries 0
the client sends /rpc/login/__batch__, members have: body url'
echo "$got"
[ "$got" = "$want" ] || { echo 'it has changed'; exit 1; }
