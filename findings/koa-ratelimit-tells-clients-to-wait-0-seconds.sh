#!/usr/bin/env bash
# koa-ratelimit rounds Retry-After down: told to wait 60 seconds for a window that ends in 60, a client hears 59, and in the last
# second 0, so that one that obeys sends dozens of requests until it is let through.
#
# Seen on 2026-11-28 with koa-ratelimit 6.0.0, koa 3.2.1 and node 20.20.2: "of 60 s: Retry-After 59; of 0.9 s: Retry-After 0, more
# than 20 requests". express-rate-limit and @fastify/rate-limit, run by hand, round up.
# Guess: a client that waits as told passes at its next request.
# Follows from it: docs/responses.md, "Headers": Retry-After is rounded up, and at least 1.
# Ground: servers
#
# Use: koa-ratelimit-tells-clients-to-wait-0-seconds.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-6.0.0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "koa-ratelimit@$version" koa@3.2.1 >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.cjs <<'END'
const Koa = require('koa');
const ratelimit = require('koa-ratelimit');

async function serve(duration) {
  const app = new Koa({ env: 'test' });
  app.use((ratelimit.default ?? ratelimit)({ driver: 'memory', db: new Map(), duration, max: 1, id: () => 'client' }));
  app.use((context) => { context.body = 'page'; });
  const server = await new Promise((done) => { const it = app.listen(0, '127.0.0.1', () => done(it)); });
  return async () => {
    const response = await fetch(`http://127.0.0.1:${server.address().port}/`);
    await response.text();
    return response.status === 429 ? response.headers.get('Retry-After') : '';
  };
}

(async () => {
  const long = await serve(60000);
  await long();
  const told = await long();
  const short = await serve(900);
  await short();
  const waits = [];
  for (let wait; (wait = await short()) !== '';) {
    waits.push(wait);
    await new Promise((done) => setTimeout(done, wait * 1000));
  }
  const many = waits.length > 20 ? 'more' : 'less';
  console.log(`of 60 s: Retry-After ${told}; of 0.9 s: Retry-After ${[...new Set(waits)]}, ${many} than 20 requests`);
  process.exit();
})();
END
echo "koa-ratelimit $(node -p 'require("./node_modules/koa-ratelimit/package.json").version'), node $(node --version)"
got=$(timeout 60 node main.cjs)
echo "$got"
[ "$got" = 'of 60 s: Retry-After 59; of 0.9 s: Retry-After 0, more than 20 requests' ] || { echo 'it has changed'; exit 1; }
