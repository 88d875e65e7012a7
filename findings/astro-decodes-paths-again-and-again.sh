#!/usr/bin/env bash
# Astro decodes a path until nothing is left to decode: /%252573earch is the page /search, as are /%2573earch and /%73earch.
#
# Seen on 2026-11-30 with astro 7.3.5, @astrojs/node 11.1.6 and node 22.23.5: "/search: 200, /search; /%73earch: 200, /search;
# /%2573earch: 200, /search; /%252573earch: 200, /search; /searc%2568x: 404", the second being the path that the page sees.
# Guess: a path is decoded once; /%2573earch is a page named %73earch, and there is none.
# Follows from it: internal/requestvalue/path.go: %25 before two hexadecimal digits is decoded again, in match and in keys by
# {path}; docs/keys.md, "Spellings".
# Ground: readers
#
# Use: astro-decodes-paths-again-and-again.sh [version of the npm package]. Needs node, npm, curl and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
export ASTRO_TELEMETRY_DISABLED=1
echo '{"private": true, "type": "module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts "node-linux-$(node -p process.arch)@22.23.5" "astro@${1:-7.3.5}" \
	@astrojs/node@11.1.6 >npm.log 2>&1 || { cat npm.log; exit 1; }
PATH=$(dirname "$folder"/node_modules/node-linux-*/bin/node):$PATH
echo "astro $(node -p 'require("./node_modules/astro/package.json").version'), node $(node --version)"
mkdir -p src/pages
cat >astro.config.mjs <<'END'
import node from '@astrojs/node';

export default { output: 'server', adapter: node({ mode: 'standalone' }) };
END
cat >src/pages/search.astro <<'END'
<p>path {Astro.url.pathname}</p>
END
node node_modules/astro/bin/astro.mjs build >build.log 2>&1 || { cat build.log; exit 1; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
HOST=127.0.0.1 PORT=$port node dist/server/entry.mjs >server.log 2>&1 &
server=$!
until curl -s -o /dev/null "http://127.0.0.1:$port/"; do
	kill -0 "$server" || { cat server.log; exit 1; }
	sleep 0.1
done
got=
for path in /search /%73earch /%2573earch /%252573earch /searc%2568x; do
	got+="$path: $(curl -s -o page -w '%{http_code}' "http://127.0.0.1:$port$path")"
	got+="$(sed -n 's|.*<p>path \([^<]*\)</p>.*|, \1|p' page); "
done
got=${got%; }
echo "$got"
want='/search: 200, /search; /%73earch: 200, /search; /%2573earch: 200, /search; /%252573earch: 200, /search; /searc%2568x: 404'
[ "$got" = "$want" ] || { cat server.log; echo 'it has changed'; exit 1; }
