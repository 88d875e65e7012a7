#!/usr/bin/env bash
# The client of Azure's blobs for node fails at once at 429, and comes back from 503 before the time that Retry-After names. The
# pipeline that the other clients of Azure for node are built on waits as told at both.
#
# Seen on 2026-11-28 with @azure/storage-blob 12.34.0 and node 20.20.2: "blobs: 429 fails at once, 503 returns early; pipeline:
# 429 waits, 503 waits".
# Guess: all clients of one company's SDK wait as told.
# Follows from it: docs/clients.md, "Object storage": let it wait, a status does not help.
# Ground: clients
#
# Use: azure-blobs-fail-at-once-at-429.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-12.34.0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "@azure/storage-blob@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.cjs <<'END'
const http = require('node:http');
const { AnonymousCredential, BlobServiceClient } = require('@azure/storage-blob');
const pipeline = require('@azure/core-rest-pipeline');

let status, times;
const server = http.createServer((request, response) => {
  times.push(performance.now());
  if (times.length === 1) {
    response.writeHead(status, { 'Retry-After': '3' }).end();
  } else {
    response.setHeader('ETag', '"1"').end('word');
  }
});
const clients = {
  blobs: (url) => new BlobServiceClient(`${url}/account`, new AnonymousCredential()).getContainerClient('c').getBlobClient('b').download(),
  pipeline: (url) => pipeline.createPipelineFromOptions({}).sendRequest(pipeline.createDefaultHttpClient(),
    pipeline.createPipelineRequest({ url, allowInsecureConnection: true })),
};
const outcome = async (name, refusal) => {
  [status, times] = [refusal, []];
  await clients[name](`http://127.0.0.1:${server.address().port}`).catch(() => {});
  if (times.length < 2) return `${refusal} fails at once`;
  return `${refusal} ${times[1] - times[0] < 2900 ? 'returns early' : 'waits'}`;
};
server.listen(0, '127.0.0.1', async () => {
  const got = [];
  for (const name of Object.keys(clients)) got.push(`${name}: ${await outcome(name, 429)}, ${await outcome(name, 503)}`);
  console.log(got.join('; '));
  process.exit();
});
END
echo "@azure/storage-blob $(node -p 'require("./node_modules/@azure/storage-blob/package.json").version'), node $(node --version)"
got=$(timeout 60 node main.cjs)
echo "$got"
[ "$got" = 'blobs: 429 fails at once, 503 returns early; pipeline: 429 waits, 503 waits' ] || { echo 'it has changed'; exit 1; }
