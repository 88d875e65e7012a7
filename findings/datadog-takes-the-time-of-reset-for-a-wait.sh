#!/usr/bin/env bash
# Datadog's client for node, told to retry, waits as many seconds as X-RateLimit-Reset says, and reads no Retry-After. Where
# that header is a time, as GitHub and this limiter mean it, the wait is 57 years, which node's timers make 1 ms: it
# comes back at once.
#
# Seen on 2026-11-28 with @datadog/datadog-api-client 1.64.0 and node 20.20.2, each told Retry-After 3, between two requests:
# "reset in 3: 3.0 s, reset at a time: 0.0 s, Retry-After alone: 2.0 s".
# Guess: a client goes by Retry-After first, and knows a time by its size.
# Follows from it: docs/clients.md, "Web APIs": it comes back at once; "headers off" makes it wait its own 2 s.
# Ground: clients
#
# Use: datadog-takes-the-time-of-reset-for-a-wait.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-1.64.0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "@datadog/datadog-api-client@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.mjs <<'END'
import http from 'node:http';
import { client, v1 } from '@datadog/datadog-api-client';

let headers, times;
const server = http.createServer((request, response) => {
  times.push(performance.now());
  request.resume().on('end', () => {
    response.setHeader('Content-Type', 'application/json');
    if (times.length === 1) {
      response.writeHead(429, { 'Retry-After': '3', ...headers }).end('{"errors":["Too many requests."]}');
    } else {
      response.end('{"valid":true}');
    }
  });
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const baseServer = new client.BaseServerConfiguration(`http://127.0.0.1:${server.address().port}`, {});
const api = new v1.AuthenticationApi(
  client.createConfiguration({ baseServer, authMethods: { apiKeyAuth: 'finding', appKeyAuth: 'finding' }, enableRetry: true }),
);
const got = [];
for (const [name, reset] of [['reset in 3', 3], ['reset at a time', Math.ceil(Date.now() / 1000) + 30], ['Retry-After alone']]) {
  headers = reset ? { 'X-RateLimit-Reset': reset } : {};
  times = [];
  await api.validate();
  got.push(`${name}: ${((times[1] - times[0]) / 1000).toFixed(1)} s`);
}
console.log(got.join(', '));
process.exit();
END
echo "@datadog/datadog-api-client $(node -p 'require("./node_modules/@datadog/datadog-api-client/package.json").version'), node $(node --version)"
got=$(timeout 60 node main.mjs 2>warnings) || { cat warnings; echo 'it has changed: the call was not repeated'; exit 1; }
echo "$got"
[[ $got == 'reset in 3: 3.'*' s, reset at a time: 0.'*' s, Retry-After alone: 2.'*' s' ]] || { echo 'it has changed'; exit 1; }
