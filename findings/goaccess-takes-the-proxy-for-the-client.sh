#!/usr/bin/env bash
# GoAccess with its own format for Caddy takes remote_ip for the client: behind a proxy that Caddy trusts, all requests are the
# proxy's, though each line has the client beside it, as client_ip. So the one client that is refused has no row.
#
# Seen on 2026-11-28 with Debian 12's goaccess 1:1.7-1, for two clients behind one proxy: "198.51.100.1: 3 hits".
# Guess: it reads client_ip, which Caddy writes for such readers.
# Follows from it: docs/replay.md, "What it reads": a replay's client is client_ip.
# Ground: logs
#
# Use: goaccess-takes-the-proxy-for-the-client.sh [version of the Debian package]. Needs apt-get, dpkg, python3, libncursesw6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "goaccess${1:+=$1}" libmaxminddb0
for package in *.deb; do dpkg -x "$package" packages; done
echo "goaccess $(dpkg-deb -f goaccess_*.deb Version)"
for line in '203.0.113.7 /one 200' '203.0.113.7 /two 429' '203.0.113.8 /one 200'; do
	read -r client uri status <<<"$line"
	printf '{"level":"info","ts":1795255340.123,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"198.51.100.1","remote_port":"4711","client_ip":"%s","proto":"HTTP/2.0","method":"GET","host":"example.org","uri":"%s","headers":{"User-Agent":["curl/8.0"]}},"bytes_read":0,"user_id":"","duration":0.000123,"size":12,"status":%s,"resp_headers":{"Content-Type":["text/plain"]}}\n' \
		"$client" "$uri" "$status"
done >caddy.log
LD_LIBRARY_PATH=$(dirname "$(find packages -name 'libmaxminddb.so.0')") packages/usr/bin/goaccess caddy.log --no-global-config \
	--log-format=CADDY --output=report.json >goaccess.log 2>&1 || { cat goaccess.log; exit 1; }
got=$(python3 -c 'import json
print(*("%s: %d hits" % (host["data"], host["hits"]["count"]) for host in json.load(open("report.json"))["hosts"]["data"]), sep=", ")')
echo "$got"
[ "$got" = '198.51.100.1: 3 hits' ] || { echo 'it has changed'; exit 1; }
