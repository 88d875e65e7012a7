#!/usr/bin/env bash
# skopeo waits as Retry-After says if a registry answers 429, and fails at once if it answers 503 with the same header.
#
# Seen on 2026-11-28 with Debian 12's skopeo 1.9.3: "429: 2 requests, exit 0, 503: 1 request, exit 1".
# Guess: 503, which says that the server is at fault for the moment, is repeated at least as readily as 429.
# Follows from it: refusals of pulls keep 429 whatever "status" says: DESIGN.md, "Responses"; docs/clients.md, "Rules".
# Ground: clients
#
# Use: skopeo-fails-at-503-waits-at-429.sh [version of the Debian package]. Needs apt-get, dpkg and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "skopeo${1:+=$1}" libgpgme11 libassuan0 libdevmapper1.02.1
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=$(echo package/usr/lib/*-linux-*):$(echo package/lib/*-linux-*)
touch registries.conf
export LD_LIBRARY_PATH HOME=$folder XDG_RUNTIME_DIR=$folder CONTAINERS_REGISTRIES_CONF=$folder/registries.conf
package/usr/bin/skopeo --version
cat >stub.py <<'END'
import http.server

manifest = b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}'
requests = {}

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body, kind = 200, b'{}', 'application/json'
        name = self.path.split('/')[2]
        if self.path.startswith('/requests/'):
            body = b'%d' % requests[name]
        elif name:
            requests[name] = requests.get(name, 0) + 1
            if requests[name] == 1:
                status, body, kind = int(name), b'Too many requests.', 'text/plain'
            else:
                body, kind = manifest, 'application/vnd.oci.image.index.v1+json'
        self.send_response(status)
        if status != 200:
            self.send_header('Retry-After', '1')
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
for status in 429 503; do
	code=0
	package/usr/bin/skopeo inspect --raw --tls-verify=false "docker://127.0.0.1:$(cat port)/$status:1" >"$status.log" 2>&1 || code=$?
	requests=$(python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:$(cat port)/requests/$status').read().decode())")
	got+="$status: $requests requests, exit $code, "
done
got=${got%, }
got=${got/ 1 requests/ 1 request}
echo "$got"
[ "$got" = '429: 2 requests, exit 0, 503: 1 request, exit 1' ] || { cat ./*.log; echo 'it has changed'; exit 1; }
