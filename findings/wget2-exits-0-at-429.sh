#!/usr/bin/env bash
# wget2 exits with 0 if the server answers 429, and writes no file.
#
# Seen on 2026-11-28 with Debian 12's wget2 1.99.1: "200: exit 0, a file, 429: exit 0, no file, 404: exit 8, no file".
# Guess: exit 8, "server issued an error response", as wget and as wget2 itself for 404.
# Follows from it: what wget2 fetches is made to wait, not refused: docs/clients.md, "Silent losses".
# Ground: clients
#
# Use: wget2-exits-0-at-429.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "wget2${1:+=$1}" "libwget0${1:+=$1}" libgpgme11 libassuan0
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=package/usr/lib:$(echo package/usr/lib/*-linux-*)
export LD_LIBRARY_PATH
package/usr/bin/wget2 --version | sed -n 1p
cat >stub.py <<'END'
import http.server

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(self.path[1:]))
        if self.path == '/429':
            self.send_header('Retry-After', '1')
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
for status in 200 429 404; do
	code=0
	package/usr/bin/wget2 --no-config -q -O "got$status" "http://127.0.0.1:$(cat port)/$status" >"$status.log" 2>&1 || code=$?
	[ -s "got$status" ] && file='a file' || file='no file'
	got+="$status: exit $code, $file, "
done
got=${got%, }
echo "$got"
[ "$got" = '200: exit 0, a file, 429: exit 0, no file, 404: exit 8, no file' ] || { cat ./*.log; echo 'it has changed'; exit 1; }
