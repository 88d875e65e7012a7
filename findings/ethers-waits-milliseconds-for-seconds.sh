#!/usr/bin/env bash
# ethers, the library of Ethereum, takes the seconds of Retry-After for milliseconds: told to wait 2 seconds it sends all its 12
# tries within two seconds, mostly within one.
#
# Seen on 2026-11-28 with ethers 6.17.0 and node 20.20.2: "Retry-After 2: 12 requests, below 3 s; 2000: back after 2 s".
# Guess: the client comes back after 2 seconds, or by its own backoff. viem, run by hand, waits as told.
# Follows from it: docs/clients.md, "Web APIs".
# Ground: clients
#
# Use: ethers-waits-milliseconds-for-seconds.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-6.17.0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "ethers@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.mjs <<'END'
import http from 'node:http';
import { JsonRpcProvider } from 'ethers';

let wait, refused, times;
const server = http.createServer((request, response) => {
  times.push(performance.now());
  let text = '';
  request.on('data', (data) => { text += data; }).on('end', () => {
    response.setHeader('Content-Type', 'application/json');
    if (times.length <= refused) {
      response.writeHead(429, { 'Retry-After': wait }).end('{}');
    } else {
      response.end(JSON.stringify({ jsonrpc: '2.0', id: JSON.parse(text).id, result: '0x1' }));
    }
  });
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const ask = async (told, times_refused) => {
  [wait, refused, times] = [told, times_refused, []];
  const provider = new JsonRpcProvider(`http://127.0.0.1:${server.address().port}`, 1, { staticNetwork: true, batchMaxCount: 1 });
  await provider.getBlockNumber().catch(() => {});
  return (times.at(-1) - times[0]) / 1000;
};
const took = await ask('2', 100);
const first = `Retry-After 2: ${times.length} requests, ${took < 3 ? 'below' : 'above'} 3 s`;
console.log(`${first}; 2000: back after ${Math.floor(await ask('2000', 1))} s`);
process.exit();
END
echo "ethers $(node -p 'require("./node_modules/ethers/package.json").version'), node $(node --version)"
got=$(timeout 90 node main.mjs)
echo "$got"
[ "$got" = 'Retry-After 2: 12 requests, below 3 s; 2000: back after 2 s' ] || { echo 'it has changed'; exit 1; }
