#!/usr/bin/env bash
# apt asks again for a file that is refused with 429 if the refusal has a body, be it one byte, and gives up at once if it
# has none.
#
# Seen on 2026-11-28 with Debian 12's apt 2.6.1: "0 bytes: failed, 1 byte: whole".
# Guess: the body of an error says nothing to a program, which goes by status and Retry-After.
# Follows from it: a refusal that no error route answers has a line of text; docs/clients.md: a body in every error route.
# Ground: clients
#
# Use: apt-retries-a-refusal-with-a-body.sh. Needs apt-get and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get --version | sed -n 1p
cat >archive.py <<'END'
import hashlib
import http.server
import sys

PACKAGES = b'Package: lab\nVersion: 1\nArchitecture: all\nMaintainer: lab\nFilename: lab.deb\nSize: 1\nSHA256: ' + b'0' * 64 + b'\nDescription: lab\n'
RELEASE = 'Suite: lab\nCodename: lab\nArchitectures: all\nComponents: main\nDate: Sat, 01 Jan 2000 00:00:00 UTC\nSHA256:\n {} {} main/binary-all/Packages\n'.format(
    hashlib.sha256(PACKAGES).hexdigest(), len(PACKAGES)).encode()
refused = set()

class Archive(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        status, body = 404, b'none'
        if self.path.endswith('/InRelease'):
            status, body = 200, RELEASE
        elif self.path.endswith('/Packages'):
            status, body = 200, PACKAGES
            if self.path not in refused:
                refused.add(self.path)
                status, body = 429, b'.' * int(sys.argv[1])
        self.send_response(status)
        if status == 429:
            self.send_header('Retry-After', '1')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Archive)
print(server.server_port, flush=True)
server.serve_forever()
END
# Updates from an archive that refuses one file once, in folders of its own.
update() {
	mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/etc"
	touch "$1/status"
	python3 archive.py "$1" >"$1/port" &
	server=$!
	until [ -s "$1/port" ]; do sleep 0.1; done
	echo "deb [trusted=yes arch=all] http://127.0.0.1:$(cat "$1/port") lab main" >"$1/etc/sources.list"
	apt-get -o Dir::State="$PWD/$1" -o Dir::State::status="$PWD/$1/status" -o Dir::Cache="$PWD/$1/cache" -o Dir::Etc="$PWD/$1/etc" \
		-o APT::Architecture=all -o APT::Architectures::=all -o APT::Sandbox::User=root -o Acquire::http::Proxy=DIRECT -o Acquire::Languages=none \
		--error-on=any update >"$1/log" 2>&1 && echo whole || echo failed
	kill "$server"
	wait "$server" 2>/dev/null || true
}
got="0 bytes: $(update 0), 1 byte: $(update 1)"
echo "$got"
[ "$got" = '0 bytes: failed, 1 byte: whole' ] || { cat ./*/log; echo 'it has changed'; exit 1; }
