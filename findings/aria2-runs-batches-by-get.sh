#!/usr/bin/env bash
# aria2 runs a batch of JSON-RPC that a GET brings in its query, in Base64; one call of system.multicall runs as many as its params
# name; and a body is read whatever its Content-Type says.
#
# Seen on 2026-11-30 with Debian 12's aria2 1.36.0: "GET of a batch: 30 answers; POST of one system.multicall: 1000 answers; POST of
# a batch as text/plain: 1000 answers".
# Guess: calls come by POST, in application/json, and an object is one call.
# Follows from it: docs/recipes.md, "Batches of calls": a GET weighs 1, and so does system.multicall in JSON.
# Ground: batches
#
# Use: aria2-runs-batches-by-get.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "aria2${1:+=$1}" "libaria2-0${1:+=$1}" libc-ares2
for package in *.deb; do dpkg -x "$package" package; done
libraries=$(echo package/usr/lib/*-linux-*)
LD_LIBRARY_PATH=$libraries package/usr/bin/aria2c --version | sed -n 1p
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
LD_LIBRARY_PATH=$libraries package/usr/bin/aria2c --no-conf --enable-rpc --rpc-listen-port="$port" --rpc-listen-all=false \
	--disable-ipv6 --quiet >aria2.log 2>&1 &
server=$!
cat >calls.py <<'END'
import base64, json, sys, time, urllib.error, urllib.parse, urllib.request

url = 'http://127.0.0.1:' + sys.argv[1] + '/jsonrpc'

def ask(query='', body=None, kind='application/json'):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + query, data, {} if body is None else {'Content-Type': kind})
    return json.loads(urllib.request.urlopen(request, timeout=10).read())

call = {'jsonrpc': '2.0', 'id': '1', 'method': 'aria2.getVersion'}
for _ in range(100):
    try:
        ask(body=call)
        break
    except urllib.error.URLError:
        time.sleep(0.1)

batch = urllib.parse.quote(base64.b64encode(json.dumps([call] * 30).encode()))
print('GET of a batch:', len(ask(query='?params=' + batch)), 'answers')
multicall = dict(call, method='system.multicall', params=[[{'methodName': 'aria2.getVersion', 'params': []}] * 1000])
print('POST of one system.multicall:', len(ask(body=multicall)['result']), 'answers')
print('POST of a batch as text/plain:', len(ask(body=[call] * 1000, kind='text/plain')), 'answers')
END
got=$(python3 calls.py "$port")
want='GET of a batch: 30 answers
POST of one system.multicall: 1000 answers
POST of a batch as text/plain: 1000 answers'
echo "$got"
[ "$got" = "$want" ] || { cat aria2.log; echo 'it has changed'; exit 1; }
