#!/usr/bin/env bash
# A registry that mirrors another one answers 404 with MANIFEST_UNKNOWN for a tag that the other one refuses with 429, and 500 for
# a manifest or a blob by its digest. No status and no header tells the client that it should wait.
#
# Seen on 2026-11-28 with Debian 12's docker-registry 2.8.2: "tag 404 MANIFEST_UNKNOWN, digest 500 UNKNOWN, blob 500 UNKNOWN".
# Guess: it hands 429 and Retry-After on, or serves 503.
# Follows from it: docs/clients.md, "Images": a mirror wants a burst of a whole pull, or a wait.
# Ground: clients
#
# Use: docker-registry-calls-refused-images-missing.sh [version of the Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${upstream:-}" "${mirror:-}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "docker-registry${1:+=$1}"
dpkg -x docker-registry_*.deb package
package/usr/bin/docker-registry --version
cat >upstream.py <<'END'
import http.server

class Refusal(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        status, body = 429, b'{"errors":[{"code":"TOOMANYREQUESTS","message":"Too many requests."}]}'
        if self.path == '/v2/':
            status, body = 200, b'{}'
        self.send_response(status)
        self.send_header('Docker-Distribution-Api-Version', 'registry/2.0')
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        if status == 429:
            self.send_header('Retry-After', '3')
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Refusal)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 upstream.py >upstream 2>log &
upstream=$!
until [ -s upstream ]; do sleep 0.1; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >mirror.yml <<END
version: 0.1
storage:
  filesystem:
    rootdirectory: $folder/data
http:
  addr: 127.0.0.1:$port
proxy:
  remoteurl: http://127.0.0.1:$(cat upstream)
END
package/usr/bin/docker-registry serve mirror.yml >mirror.log 2>&1 &
mirror=$!
curl -s --retry 50 --retry-connrefused --retry-delay 1 -o /dev/null "http://127.0.0.1:$port/v2/"
digest=sha256:$(printf finding | sha256sum | cut -d ' ' -f 1)
got=
for what in "tag manifests/latest" "digest manifests/$digest" "blob blobs/$digest"; do
	status=$(curl -s -o body -w '%{http_code}' "http://127.0.0.1:$port/v2/library/finding/${what#* }" \
		-H 'Accept: application/vnd.docker.distribution.manifest.v2+json')
	got+="${what%% *} $status $(python3 -c 'import json; print(json.load(open("body"))["errors"][0]["code"])'), "
done
got=${got%, }
echo "$got"
[ "$got" = 'tag 404 MANIFEST_UNKNOWN, digest 500 UNKNOWN, blob 500 UNKNOWN' ] || { echo 'it has changed'; exit 1; }
