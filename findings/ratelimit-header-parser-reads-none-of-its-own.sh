#!/usr/bin/env bash
# ratelimit-header-parser, of the authors of express-rate-limit, finds no limit in the newest headers that express-rate-limit
# sends: it returns an object whose numbers are all NaN, and no error.
#
# Seen on 2026-11-28 with ratelimit-header-parser 0.1.0 and express-rate-limit 8.7.5: "draft-6: 100 and 99, draft-7: 100 and 99,
# draft-8: NaN and NaN".
# Guess: who sends a header reads it.
# Follows from it: RateLimit is off by default, and X-RateLimit-* are what clients read: docs/responses.md, "Headers".
# Ground: clients
#
# Use: ratelimit-header-parser-reads-none-of-its-own.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-0.1.0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "ratelimit-header-parser@$version" express-rate-limit@8.7.5 express@5.3.0 >npm.log 2>&1 ||
	{ cat npm.log; exit 1; }
cat >main.mjs <<'END'
import express from 'express';
import { rateLimit } from 'express-rate-limit';
import { parseRateLimit } from 'ratelimit-header-parser';

const got = [];
for (const standardHeaders of ['draft-6', 'draft-7', 'draft-8']) {
  const application = express();
  application.use(rateLimit({ windowMs: 60000, limit: 100, standardHeaders, legacyHeaders: false }));
  application.get('/', (request, response) => response.send('word'));
  const server = await new Promise((done) => {
    const listening = application.listen(0, '127.0.0.1', () => done(listening));
  });
  const { headers } = await fetch(`http://127.0.0.1:${server.address().port}/`);
  if (!headers.has('RateLimit-Policy')) {
    throw new Error('no header');
  }
  const { limit, remaining } = parseRateLimit(headers);
  got.push(`${standardHeaders}: ${limit} and ${remaining}`);
}
console.log(got.join(', '));
process.exit();
END
for name in ratelimit-header-parser express-rate-limit; do
	echo "$name $(node -p "JSON.parse(fs.readFileSync('node_modules/$name/package.json')).version")"
done
got=$(timeout 60 node main.mjs)
echo "$got"
[ "$got" = 'draft-6: 100 and 99, draft-7: 100 and 99, draft-8: NaN and NaN' ] || { echo 'it has changed'; exit 1; }
