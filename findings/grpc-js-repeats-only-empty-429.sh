#!/usr/bin/env bash
# gRPC for node repeats a call that a plain 429 refused only if the refusal has no body, though its retry policy lists the
# code that it reports for both, UNAVAILABLE.
#
# Seen on 2026-11-28 with @grpc/grpc-js 1.14.7 and node 20.20.2: "without a body: 4 requests, UNAVAILABLE, with a body: 1
# request, UNAVAILABLE", each within a second though Retry-After was 3.
# Guess: the code decides, and the body of what is no gRPC is of no account.
# Follows from it: calls of gRPC are refused in gRPC's own form, before error routes: docs/responses.md, "gRPC".
# Ground: clients
#
# Use: grpc-js-repeats-only-empty-429.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-1.14.7}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "@grpc/grpc-js@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.mjs <<'END'
import http2 from 'node:http2';
import grpc from '@grpc/grpc-js';

let body, requests;
const server = http2.createServer();
server.on('stream', (stream) => {
  requests++;
  stream.respond({ ':status': 429, 'retry-after': '3', 'content-type': 'text/plain' }, { endStream: !body });
  if (body) stream.end(body);
  stream.resume();
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const same = (bytes) => bytes;
const Client = grpc.makeGenericClientConstructor({
  say: { path: '/finding/Say', requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same },
}, 'finding');
const retryPolicy = {
  maxAttempts: 4, initialBackoff: '0.1s', maxBackoff: '0.3s', backoffMultiplier: 2, retryableStatusCodes: ['UNAVAILABLE'],
};
const got = [];
for (body of ['', 'Too many requests.']) {
  requests = 0;
  const client = new Client(`127.0.0.1:${server.address().port}`, grpc.credentials.createInsecure(), {
    'grpc.service_config': JSON.stringify({ methodConfig: [{ name: [{}], retryPolicy }] }),
  });
  const code = await new Promise((done) => client.say(Buffer.from('word'), (e) => done(grpc.status[e?.code])));
  got.push(`${body ? 'with' : 'without'} a body: ${requests} ${requests === 1 ? 'request' : 'requests'}, ${code}`);
}
console.log(got.join(', '));
process.exit();
END
echo "@grpc/grpc-js $(node -p 'require("./node_modules/@grpc/grpc-js/package.json").version'), node $(node --version)"
got=$(timeout 60 node main.mjs)
echo "$got"
[ "$got" = 'without a body: 4 requests, UNAVAILABLE, with a body: 1 request, UNAVAILABLE' ] || { echo 'it has changed'; exit 1; }
