#!/usr/bin/env bash
# Alertmanager gives a webhook up at 429 until its next turn, which is group_interval later, by default 5 minutes, and comes back
# from 503 within a second. It reads Retry-After of neither.
#
# Seen on 2026-11-28 with Debian 12's prometheus-alertmanager 0.25.0 and a group_interval of 4 s, told to wait 1 s: "429: back after
# 4 s, 503: back within 1 s".
# Guess: it comes back from both alike, as 429 says that the same request will pass.
# Follows from it: docs/clients.md, "Monitoring": a limit of webhooks answers 503.
# Ground: clients
#
# Use: alertmanager-waits-for-minutes-at-429.sh [version of the Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill ${programs:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "prometheus-alertmanager${1:+=$1}"
dpkg -x prometheus-alertmanager_*.deb package
# Debian's program reads its templates from where the package is installed: here a path as long leads to this folder.
python3 - package/usr/bin/prometheus-alertmanager <<'END'
import sys

path = b'/usr/share/prometheus/alertmanager'
with open(sys.argv[1], 'rb') as program:
    text = program.read()
with open(sys.argv[1], 'wb') as program:
    program.write(text.replace(path, b'.'.ljust(len(path), b'/')))
END
cp package/usr/share/prometheus/alertmanager/*.tmpl .
package/usr/bin/prometheus-alertmanager --version 2>&1 | sed -n 1p
cat >webhook.py <<'END'
import http.server
import sys
import time

times = []

class Refusal(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        times.append(time.monotonic())
        self.send_response(int(sys.argv[1]) if len(times) == 1 else 200)
        self.send_header('Retry-After', '1')
        self.send_header('Content-Length', '0')
        self.end_headers()
        if len(times) == 2:
            took = times[1] - times[0]
            print('back within 1 s' if took < 1 else f'back after {took:.0f} s', flush=True)

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Refusal)
print(server.server_port, flush=True)
server.serve_forever()
END
for status in 429 503; do
	python3 webhook.py "$status" >"$status" &
	programs+=" $!"
	until [ -s "$status" ]; do sleep 0.1; done
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	cat >"$status.yml" <<-END
		route: {receiver: webhook, group_wait: 1s, group_interval: 4s, repeat_interval: 1h}
		receivers: [{name: webhook, webhook_configs: [{url: 'http://127.0.0.1:$(sed -n 1p "$status")/'}]}]
	END
	package/usr/bin/prometheus-alertmanager --config.file="$status.yml" --storage.path="$folder/$status.data" \
		--web.listen-address="127.0.0.1:$port" --cluster.listen-address= >"$status.log" 2>&1 &
	programs+=" $!"
	curl -sf --retry 120 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$port/api/v2/alerts" \
		-H 'Content-Type: application/json' -d '[{"labels":{"alertname":"finding"}}]'
done
until [ "$(cat 429 503 | wc -l)" = 4 ]; do sleep 0.1; done
got="429: $(tail -1 429), 503: $(tail -1 503)"
echo "$got"
[ "$got" = '429: back after 4 s, 503: back within 1 s' ] || { echo 'it has changed'; exit 1; }
