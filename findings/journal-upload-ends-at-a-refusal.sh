#!/usr/bin/env bash
# systemd-journal-upload ends at the first refusal, of 429 as of 503, and leaves it to its unit to try again. That has
# Restart=on-failure and neither a pause nor a limit of its own: by its defaults systemd starts it anew after 0.1 s, and no more
# after five starts within 10 s.
#
# Seen on 2026-11-28 with Debian 12's systemd-journal-remote 252.39, told to wait 1 s: "429: exit 1 after 1 request, 503: exit 1
# after 1 request, 202: exit 0 after 1 request; Restart=on-failure".
# Guess: it keeps the entries, waits, and sends them again.
# Follows from it: docs/clients.md, "Monitoring": journals get a wait or a burst, and RestartSec.
# Ground: clients
#
# Use: journal-upload-ends-at-a-refusal.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "systemd-journal-remote${1:+=$1}" "libsystemd-shared${1:+=$1}" \
	libmicrohttpd12 libcurl3-gnutls
for package in *.deb; do dpkg -x "$package" package; done
libraries=$(find package -name 'libsystemd-shared*.so' | head -1)
LD_LIBRARY_PATH=$folder/${libraries%/*}:$folder/package/usr/lib/$(basename "$(dirname "$(find package -name 'libmicrohttpd.so.12')")")
export LD_LIBRARY_PATH
upload=$(find package -name systemd-journal-upload -type f)
"$upload" --version | sed -n 1p
cat >refuse.py <<'END'
import http.server

class Refusal(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        print('request', flush=True)
        while size := int(self.rfile.readline(), 16):
            self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        self.send_response(int(self.path.split('/')[1]))
        self.send_header('Retry-After', '1')
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Refusal)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 refuse.py >requests &
server=$!
until [ -s requests ]; do sleep 0.1; done
port=$(sed -n 1p requests)
cat >entries <<'END'
__CURSOR=s=1;i=1;b=1;m=1;t=1;x=1
__REALTIME_TIMESTAMP=1764345600000000
__MONOTONIC_TIMESTAMP=1
_BOOT_ID=0123456789abcdef0123456789abcdef
MESSAGE=finding

END
got=
for status in 429 503 202; do
	before=$(wc -l <requests)
	code=0
	timeout 30 "$upload" --url="http://127.0.0.1:$port/$status" entries 2>>log || code=$?
	got+="$status: exit $code after $(($(wc -l <requests) - before)) request, "
done
got="${got%, }; $(grep -E '^(Restart|StartLimit)' "$(find package -name systemd-journal-upload.service)" | paste -s -d ' ')"
echo "$got"
[ "$got" = '429: exit 1 after 1 request, 503: exit 1 after 1 request, 202: exit 0 after 1 request; Restart=on-failure' ] ||
	{ cat log; echo 'it has changed'; exit 1; }
