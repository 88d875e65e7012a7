#!/usr/bin/env bash
# gaxios, on which Google's SDKs for node are built, does not read Retry-After: it repeats a refused GET within a second, four tries
# in all, and a refused POST never.
#
# Seen on 2026-11-28 with gaxios 8.3.3 and node 20.20.2, told to wait 5 s: "GET: 4 requests, back early; POST: 1 request".
# Guess: it waits as told, and what was refused with 429 may be sent again whatever its method is.
# Follows from it: docs/clients.md, "Web APIs".
# Ground: clients
#
# Use: gaxios-comes-back-early-and-never-with-post.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-8.3.3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "gaxios@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.mjs <<'END'
import http from 'node:http';
import { request } from 'gaxios';

let times;
const server = http.createServer((asked, response) => {
  times.push(performance.now());
  asked.resume().on('end', () => response.writeHead(429, { 'Retry-After': '5' }).end());
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const outcome = async (method) => {
  times = [];
  await request({ url: `http://127.0.0.1:${server.address().port}/`, method, retry: true }).catch(() => {});
  if (times.length === 1) return `${method}: 1 request`;
  return `${method}: ${times.length} requests, back ${times[1] - times[0] < 4900 ? 'early' : 'as told'}`;
};
console.log(`${await outcome('GET')}; ${await outcome('POST')}`);
process.exit();
END
echo "gaxios $(node -p 'require("./node_modules/gaxios/package.json").version'), node $(node --version)"
got=$(timeout 60 node main.mjs)
echo "$got"
[ "$got" = 'GET: 4 requests, back early; POST: 1 request' ] || { echo 'it has changed'; exit 1; }
