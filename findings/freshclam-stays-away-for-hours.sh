#!/usr/bin/env bash
# freshclam, which fetches the signatures of ClamAV, comes back as told from a 429 with Retry-After. After one without it stays
# away for 4 hours, through restarts, and says that all is well: with exit code 0 and without a request.
#
# Seen on 2026-11-28 with Debian 12's clamav-freshclam 1.4.6: "Retry-After 1: exit 11, then exit 11 after more requests; none: exit
# 11, then exit 0 without a request".
# Guess: it fails, and asks again when it is run again.
# Follows from it: docs/clients.md, "Rules": no limit of 0 and no endless block for machines, because these have no Retry-After.
# Ground: clients
#
# Use: freshclam-stays-away-for-hours.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill ${servers:-} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "clamav-freshclam${1:+=$1}" "libclamav12${1:+=$1}" libmspack0
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=$folder/$(dirname "$(find package -name 'libclamav.so.12' | head -1)")
export LD_LIBRARY_PATH
echo 'DatabaseMirror 127.0.0.1' >version.conf
package/usr/bin/freshclam --config-file=version.conf --version
cat >refuse.py <<'END'
import http.server
import sys

class Refusal(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, file=sys.stderr, flush=True)
        self.send_response(429)
        if sys.argv[1] != 'none':
            self.send_header('Retry-After', sys.argv[1])
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Refusal)
print(server.server_port, flush=True)
server.serve_forever()
END
fetch() {
	local code=0
	package/usr/bin/freshclam --config-file="$1.conf" >>"$1.log" 2>&1 || code=$?
	echo "exit $code"
}
outcome() {
	local first second asked
	first=$(fetch "$1")
	asked=$(wc -l <"$1.requests")
	sleep 2
	second=$(fetch "$1")
	if [ "$(wc -l <"$1.requests")" -gt "$asked" ]; then second+=' after more requests'; else second+=' without a request'; fi
	echo "$first, then $second"
}
for wait in 1 none; do
	mkdir "$wait.db"
	python3 refuse.py "$wait" >"$wait.port" 2>"$wait.requests" &
	servers+=" $!"
	until [ -s "$wait.port" ]; do sleep 0.1; done
	cat >"$wait.conf" <<-END
		DatabaseDirectory $folder/$wait.db
		DatabaseOwner $(id -un)
		DatabaseMirror http://127.0.0.1:$(cat "$wait.port")
		DNSDatabaseInfo no
		ScriptedUpdates no
		MaxAttempts 1
	END
done
got="Retry-After 1: $(outcome 1); none: $(outcome none)"
echo "$got"
[ "$got" = 'Retry-After 1: exit 11, then exit 11 after more requests; none: exit 11, then exit 0 without a request' ] ||
	{ cat ./*.log; echo 'it has changed'; exit 1; }
