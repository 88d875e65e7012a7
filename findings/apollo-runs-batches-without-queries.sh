#!/usr/bin/env bash
# Apollo Server with batches runs each member of an array, also one that has no query but the hash of one that the server has kept,
# and batches behind a byte order mark or with 600 levels. jayson, for JSON-RPC, runs the latter two with body-parser in front.
#
# Seen on 2026-11-29 with @apollo/server 5.5.1, jayson 5.0.0, express 5.3.0 and node 20.20.2: "apollo: batch 3, kept 3, mark 3,
# levels 3; jayson: batch 3, mark 3, levels 3".
# Guess: a member without a query, or a document that is none of RFC 8259, is no call.
# Follows from it: docs/caddyfile.md, "Values of the body": weight calls counts such members, and has a number for such bodies.
# Ground: batches
#
# Use: apollo-runs-batches-without-queries.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-5.5.1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "@apollo/server@$version" graphql@16.15.0 jayson@5.0.0 express@5.3.0 \
	>npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.mjs <<'END'
import { createHash } from 'node:crypto';
import { ApolloServer } from '@apollo/server';
import { startStandaloneServer } from '@apollo/server/standalone';
import express from 'express';
import jayson from 'jayson';

let ran = 0;
const graphql = new ApolloServer({
  typeDefs: 'type Query { add: Int }', resolvers: { Query: { add: () => ++ran } }, allowBatchedHttpRequests: true,
});
const { url } = await startStandaloneServer(graphql, { listen: { port: 0 } });
const rpc = new jayson.Server({ add: (args, callback) => callback(null, ++ran) });
const app = express().use(express.json(), rpc.middleware());
const server = await new Promise((done) => { const s = app.listen(0, '127.0.0.1', () => done(s)); });

const ask = async (to, member, wrap = (batch) => batch) => {
  ran = 0;
  const body = wrap('[' + [member, member, member].join() + ']');
  await (await fetch(to, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })).text();
  return ran;
};
const mark = (batch) => '\ufeff' + batch;
const levels = (batch) => batch.replace('{', `{"x":${'['.repeat(600)}${']'.repeat(600)},`);
const extensions = { persistedQuery: { version: 1, sha256Hash: createHash('sha256').update('{add}').digest('hex') } };
const query = JSON.stringify({ query: '{add}', extensions }), call = '{"jsonrpc":"2.0","id":1,"method":"add","params":[]}';
const here = `http://127.0.0.1:${server.address().port}/`;
console.log(`apollo: batch ${await ask(url, query)}, kept ${await ask(url, JSON.stringify({ extensions }))}, ` +
  `mark ${await ask(url, '{"query":"{add}"}', mark)}, levels ${await ask(url, '{"query":"{add}"}', levels)}; ` +
  `jayson: batch ${await ask(here, call)}, mark ${await ask(here, call, mark)}, levels ${await ask(here, call, levels)}`);
process.exit();
END
echo "@apollo/server $(node -p 'require("./node_modules/@apollo/server/package.json").version'), node $(node --version)"
got=$(timeout 90 node main.mjs)
echo "$got"
[ "$got" = 'apollo: batch 3, kept 3, mark 3, levels 3; jayson: batch 3, mark 3, levels 3' ] || { echo 'it has changed'; exit 1; }
