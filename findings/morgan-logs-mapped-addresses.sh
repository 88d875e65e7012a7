#!/usr/bin/env bash
# A server of node on its default address logs each client of IPv4 as an address of IPv6, which no range of IPv4 holds.
#
# Seen on 2026-11-28 with morgan 1.12.1 and node 20.20.2, asked at 127.0.0.1: "::ffff:127.0.0.1 - -, in 127.0.0.0/8: False", by
# ranges of Python.
# Guess: the log has the address that the client used, 127.0.0.1.
# Follows from it: docs/replay.md, "Clients": an address counts without ::ffff:. Caddy's matchers would not find it in a range
# either, though a client that comes to Caddy has no such address.
# Ground: logs
#
# Use: morgan-logs-mapped-addresses.sh [version of the npm package]. Needs node, npm and python3.
set -euo pipefail
version=${1:-1.12.1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "morgan@$version" >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.js <<'END'
const http = require('http');
const morgan = require('morgan');

const log = morgan('common', { stream: { write: (line) => { console.log(line.split(' [')[0]); process.exit(); } } });
const server = http.createServer((request, response) => log(request, response, () => response.end()));
server.listen(0, () => http.get({ host: '127.0.0.1', port: server.address().port }));
END
echo "morgan $(node -p 'require("./node_modules/morgan/package.json").version'), node $(node --version)"
line=$(timeout 60 node main.js)
held=$(python3 -c 'import ipaddress, sys; print(ipaddress.ip_address(sys.argv[1]) in ipaddress.ip_network("127.0.0.0/8"))' "${line%% *}")
got="$line, in 127.0.0.0/8: $held"
echo "$got"
[ "$got" = '::ffff:127.0.0.1 - -, in 127.0.0.0/8: False' ] || { echo 'it has changed'; exit 1; }
