#!/usr/bin/env bash
# Apollo Client's RetryLink, as it is without options, repeats mutations like queries, five tries within 5 seconds after any
# status but 2xx, and does not read Retry-After. A mutation that had run when its answer was lost runs again, and is counted again.
#
# Seen on 2026-11-28 with @apollo/client 4.3.8 and node 20.20.2: "429: 5 requests, 504: 5 requests, below 12 s", told to wait 30 s.
# Guess: only queries are repeated, as HTTP clients repeat only GET, and a wait that is told is kept.
# Follows from it: docs/clients.md, "Web APIs".
# Ground: clients
#
# Use: apollo-repeats-mutations.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-4.3.8}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "@apollo/client@$version" graphql@16.15.0 rxjs@7.8.2 >npm.log 2>&1 ||
	{ cat npm.log; exit 1; }
cat >main.mjs <<'END'
import http from 'node:http';
import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } from '@apollo/client';
import { RetryLink } from '@apollo/client/link/retry';

let status, asked;
const server = http.createServer((request, response) => {
  asked++;
  request.resume().on('end', () => response.writeHead(status, { 'Retry-After': '30' }).end());
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const uri = `http://127.0.0.1:${server.address().port}/graphql`;
const client = new ApolloClient({ cache: new InMemoryCache(), link: ApolloLink.from([new RetryLink(), new HttpLink({ uri })]) });
const got = [], start = performance.now();
for (status of [429, 504]) {
  asked = 0;
  await client.mutate({ mutation: gql`mutation { pay }` }).catch(() => {});
  got.push(`${status}: ${asked} requests`);
}
console.log(`${got.join(', ')}, ${performance.now() - start < 12000 ? 'below' : 'above'} 12 s`);
process.exit();
END
echo "@apollo/client $(node -p 'require("./node_modules/@apollo/client/package.json").version'), node $(node --version)"
got=$(timeout 90 node main.mjs)
echo "$got"
[ "$got" = '429: 5 requests, 504: 5 requests, below 12 s' ] || { echo 'it has changed'; exit 1; }
