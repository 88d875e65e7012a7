#!/usr/bin/env bash
# siege reports an availability of 100 % and no failed transaction if every request is answered with 429, and of 0 % if with
# 503.
#
# Seen on 2026-11-28 with Debian 12's siege 4.0.7: "200: 100.00 %, 0 failed, 429: 100.00 %, 0 failed, 503: 0.00 %, 10
# failed", of 10 requests each.
# Guess: a request that is refused counts as failed in both cases.
# Follows from it: in load tests refusals are counted by metrics: docs/clients.md, "Monitoring".
# Ground: clients
#
# Use: siege-counts-429-as-success.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "siege${1:+=$1}"
dpkg -x siege_*.deb package
export HOME=$folder
printf '%s\n' 'protocol = HTTP/1.1' 'parser = false' 'json_output = false' 'color = off' 'verbose = false' 'failures = 1024' >siegerc
siege() { package/usr/bin/siege --rc="$folder/siegerc" "$@"; }
siege --version 2>&1 | grep -m 1 SIEGE
cat >stub.py <<'END'
import http.server

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(self.path[1:]))
        self.send_header('Content-Type', 'text/plain')
        self.send_header('Content-Length', '5')
        self.end_headers()
        self.wfile.write(b'text\n')

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 stub.py >port &
server=$!
until [ -s port ]; do sleep 0.1; done
got=
for status in 200 429 503; do
	siege -c 2 -r 5 -b "http://127.0.0.1:$(cat port)/$status" >"$status.log" 2>&1 || true
	got+="$status: $(awk '/^Availability:/ {printf "%s %%, ", $2} /^Failed transactions:/ {print $3, "failed"}' "$status.log"), "
done
got=${got%, }
echo "$got"
[ "$got" = '200: 100.00 %, 0 failed, 429: 100.00 %, 0 failed, 503: 0.00 %, 10 failed' ] || { cat ./*.log; echo 'it has changed'; exit 1; }
