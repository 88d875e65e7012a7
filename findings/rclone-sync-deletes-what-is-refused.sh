#!/usr/bin/env bash
# rclone's sync from a web server takes a file for absent whose HEAD is refused, deletes the local copy, and exits with 0.
#
# Seen on 2026-11-28 with Debian 12's rclone 1.60.1: "429: exit 0, 0 of 1 files left, 503: exit 0, 0 of 1 files left",
# and no line of output.
# Guess: an error of the source stops a sync before it deletes anything, as rclone says of other errors.
# Follows from it: no form of a refusal helps; limits leave HEAD out, or wait: docs/clients.md, "Object storage".
# Ground: clients
#
# Use: rclone-sync-deletes-what-is-refused.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "rclone${1:+=$1}"
dpkg -x rclone_*.deb package
touch rclone.conf
rclone() { package/usr/bin/rclone --config rclone.conf "$@"; }
rclone version | sed -n 1p
cat >stub.py <<'END'
import http.server

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        folder, file = self.path[1:].split('/', 1)
        body = b'content\n' if file else b'<!doctype html><title>files</title><a href="file.txt">file.txt</a>'
        if self.command == 'HEAD' and file:
            self.send_response(int(folder))
            self.send_header('Retry-After', '1')
        else:
            self.send_response(200)
            self.send_header('Content-Type', 'text/plain' if file else 'text/html')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command == 'GET':
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 stub.py >port &
server=$!
until [ -s port ]; do sleep 0.1; done
sync() { # sync STATUS: the exit code, and what is left of the local folder
	local code=0
	mkdir "copy$1"
	echo content >"copy$1/file.txt"
	rclone sync --http-url "http://127.0.0.1:$(cat port)/$1/" :http: "copy$1" >"$1.log" 2>&1 || code=$?
	echo "$1: exit $code, $(find "copy$1" -type f | wc -l) of 1 files left"
}
control=$(sync 200) got="$(sync 429), $(sync 503)"
echo "$control, $got"
cat ./*.log
[ "$control" = '200: exit 0, 1 of 1 files left' ] || { echo 'the stub is wrong'; exit 1; }
[ "$got" = '429: exit 0, 0 of 1 files left, 503: exit 0, 0 of 1 files left' ] || { echo 'it has changed'; exit 1; }
