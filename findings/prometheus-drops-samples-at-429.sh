#!/usr/bin/env bash
# Prometheus drops the samples of remote_write that are answered with 429, and sends those again that are answered with 503.
#
# Seen on 2026-11-28 with Debian 12's prometheus 2.42.0: "429: dropped, 503: kept".
# Guess: 429 means later, so that nothing is lost; Retry-After is there.
# Follows from it: internal/answer/senders.go: what brings samples is refused with 503, whatever the status of others.
# Ground: clients
#
# Use: prometheus-drops-samples-at-429.sh [version of the Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${prometheus:-}" "${receiver:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "prometheus${1:+=$1}"
dpkg -x prometheus_*.deb package
program=$folder/package/usr/bin/prometheus
"$program" --version 2>&1 | sed -n 1p
cat >receiver.py <<'END'
import http.server
import sys

class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(int(sys.argv[1]))
        self.send_header('Retry-After', '1')
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
END
# A counter of Prometheus; 0 before there is one.
counter() { curl -s "http://127.0.0.1:$port/metrics" | awk -v name="prometheus_remote_storage_samples_$1_total" 'index($1, name "{") == 1 {n = $2} END {print n + 0}'; }
seen=
for status in 429 503; do
	mkdir "$status"
	python3 receiver.py "$status" >"$status/receiver" &
	receiver=$!
	until [ -s "$status/receiver" ]; do sleep 0.1; done
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	cat >"$status/prometheus.yml" <<END
global: {scrape_interval: 1s}
scrape_configs: [{job_name: itself, static_configs: [{targets: ["127.0.0.1:$port"]}]}]
remote_write: [{url: "http://127.0.0.1:$(cat "$status/receiver")/write", queue_config: {batch_send_deadline: 1s}}]
END
	"$program" --config.file="$status/prometheus.yml" --storage.tsdb.path="$status/data" --web.listen-address="127.0.0.1:$port" 2>"$status/log" &
	prometheus=$!
	end=$((SECONDS + 30))
	until [ $SECONDS -ge $end ] || [ "$(counter failed)" != 0 ] || [ "$(counter retried)" != 0 ]; do sleep 0.5; done
	if [ "$(counter failed)" != 0 ]; then
		seen+="$status: dropped, "
	elif [ "$(counter retried)" != 0 ]; then
		seen+="$status: kept, "
	fi
	kill "$prometheus" "$receiver"
	wait "$prometheus" "$receiver" 2>/dev/null || true
done
got=${seen%, }
echo "$got"
[ "$got" = '429: dropped, 503: kept' ] || { echo 'it has changed'; exit 1; }
