#!/usr/bin/env bash
# OpenAI's SDK for node repeats a call at once if it is told to wait longer than 24.8 days: node's timers hold 31 bits of
# milliseconds, and a longer one ends after 1 ms. got, axios-retry, discord.js and the SDKs of Slack and Matrix, run by
# hand, do the same. Version 7 ignores so long a wait: it comes back after its own time for a first try.
#
# Seen on 2026-11-28 with node 20.20.2, between two requests, with openai 6.49.0 "Retry-After 3: 3.0 s, 2147484: 0.0 s", with
# 7.59.0 "Retry-After 3: 3.0 s, 2147484: 0.4 s".
# Guess: the longer the wait that is told, the later the client comes back, or it gives up.
# Follows from it: Retry-After is at most 2,147,483: docs/responses.md, "Headers".
# Ground: models
#
# Use: openai-hurries-after-long-waits.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-6.49.0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "openai@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.mjs <<'END'
import http from 'node:http';
import OpenAI from 'openai';

let wait, times;
const server = http.createServer((request, response) => {
  times.push(performance.now());
  request.resume().on('end', () => {
    response.setHeader('Content-Type', 'application/json');
    if (times.length === 1) {
      response.writeHead(429, { 'Retry-After': wait }).end('{"error":{"type":"rate_limit_error","message":"Too many requests."}}');
    } else {
      response.end('{"choices":[{"message":{"role":"assistant","content":"word"}}]}');
    }
  });
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const client = new OpenAI({ apiKey: 'finding', baseURL: `http://127.0.0.1:${server.address().port}/v1` });
const got = [];
for (wait of ['3', '2147484']) {
  times = [];
  await client.chat.completions.create({ model: 'finding', messages: [{ role: 'user', content: 'word' }] });
  got.push(`${wait}: ${((times[1] - times[0]) / 1000).toFixed(1)} s`);
}
console.log('Retry-After', got.join(', '));
process.exit();
END
echo "openai $(node -p 'require("./node_modules/openai/package.json").version'), node $(node --version)"
got=$(timeout 60 node main.mjs 2>warnings) || { echo 'it has changed: the call was not repeated'; exit 1; }
echo "$got"
[[ $got == 'Retry-After 3: 3.'*' s, 2147484: 0.'*' s' ]] || { echo 'it has changed'; exit 1; }
