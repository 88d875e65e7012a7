#!/usr/bin/env bash
# SAP's CAP runs every request of an OData $batch: its option batch_limit has no value by default. In JSON such a batch is an object
# whose member "requests" is the array, not an array as of JSON-RPC and GraphQL.
#
# Seen on 2026-11-30 with @sap/cds 10.1.1, express 4.22.3 and node 22.23.3: "json 1000: 200, ran 1000; multipart 1000: 200,
# ran 1000; an array: 400, ran 0; batch_limit undefined".
# Guess: some number of requests is the limit, and a batch in JSON is an array.
# Follows from it: docs/recipes.md, "Batches of calls": a $batch of JSON weighs 1 by "weight calls", and no limit by path sees what it
# runs.
# Ground: batches
#
# Use: cap-runs-a-thousand-requests-of-one.sh [version of the npm package]. Needs npm and node; CAP needs node 22, which
# npm installs beside it if the machine's is older.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --legacy-peer-deps --prefix . "@sap/cds@${1:-10.1.1}" express@4.22.3 >/dev/null
node -p '"@sap/cds " + require("./node_modules/@sap/cds/package.json").version'
node=node
if [ "$(node -p 'parseInt(process.versions.node)')" -lt 22 ]; then
	npm install --silent --no-audit --no-fund --prefix "$folder/newer" node@22.23.3 >/dev/null
	node=newer/node_modules/.bin/node
fi
mkdir srv
cat >srv/shop.cds <<'END'
@path: '/shop'
service Shop { function next() returns Integer; }
END
cat >srv/shop.js <<'END'
module.exports = (service) => service.on('next', () => ++globalThis.ran);
END
cat >calls.js <<'END'
const cds = require('@sap/cds');
const express = require('express');

globalThis.ran = 0;
cds.env.requires.auth = { kind: 'dummy' };
(async () => {
  const app = express();
  cds.app = app;
  cds.model = cds.compile.for.nodejs(await cds.load('srv'));
  await cds.serve('all').from(cds.model).in(app);
  const server = app.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));

  const post = async (name, type, body) => {
    globalThis.ran = 0;
    const url = `http://127.0.0.1:${server.address().port}/shop/$batch`;
    const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': type }, body });
    await response.text();
    return `${name}: ${response.status}, ran ${globalThis.ran}`;
  };
  const requests = Array.from({ length: 1000 }, (_, i) => ({ id: String(i), method: 'GET', url: '/next()' }));
  const part = '--b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nGET next() HTTP/1.1\r\n\r\n\r\n';
  const seen = [
    await post('json 1000', 'application/json', JSON.stringify({ requests })),
    await post('multipart 1000', 'multipart/mixed;boundary=b', `${part.repeat(1000)}--b--\r\n`),
    await post('an array', 'application/json', JSON.stringify(requests)),
    `batch_limit ${cds.env.odata.batch_limit}`,
  ];
  require('fs').writeFileSync('seen', seen.join('\n'));
  process.exit();
})();
END
"$node" calls.js >calls.log 2>&1 || { tail -n 20 calls.log; exit 1; }
want='json 1000: 200, ran 1000
multipart 1000: 200, ran 1000
an array: 400, ran 0
batch_limit undefined'
got=$(cat seen)
echo "$got"
[ "$got" = "$want" ] || { echo 'it has changed'; exit 1; }
