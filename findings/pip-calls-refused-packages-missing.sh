#!/usr/bin/env bash
# pip says that a package does not exist if the index answers 429, with no word of the status. It tries once if there is no
# Retry-After, and six times, as told, if there is one.
#
# Seen on 2026-11-28 with Debian 12's pip 23.0.1: "without Retry-After: 1 request, no matching distribution, Retry-After 1: 6
# requests, no matching distribution".
# Guess: an HTTP error that names 429; and tries that do not depend on Retry-After.
# Follows from it: a wait, or a burst of a whole build, for packages, and no limit of 0, which has no Retry-After:
# docs/clients.md, "Rules" and "Packages".
# Ground: clients
#
# Use: pip-calls-refused-packages-missing.sh [version of the Debian package]. Needs apt-get, dpkg and python3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "python3-pip${1:+=$1}"
dpkg -x python3-pip_*.deb package
pip() {
	env -i PATH="$PATH" HOME="$folder" PIP_CONFIG_FILE=/dev/null PYTHONPATH="$folder/package/usr/lib/python3/dist-packages" \
		/usr/bin/python3 -m pip --isolated --no-cache-dir --disable-pip-version-check "$@"
}
pip --version | cut -d ' ' -f 1,2
cat >stub.py <<'END'
import http.server

requests = 0

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global requests
        status, body = 429, b'Too many requests.'
        if self.path == '/requests':
            status, body, requests = 200, b'%d' % requests, 0
        else:
            requests += 1
        self.send_response(status)
        if self.path.startswith('/told/'):
            self.send_header('Retry-After', '1')
        self.send_header('Content-Type', 'text/plain')
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
site=http://127.0.0.1:$(cat port)
try() { # try FOLDER: how many requests, and what pip says
	local says='another error'
	pip download --no-deps --index-url "$site/$1/" finding >"$1.log" 2>&1 && says='success'
	grep -q 'No matching distribution found for finding' "$1.log" && says='no matching distribution'
	grep -Eq '429|Too many' "$1.log" && says+=' for 429'
	echo "$(python3 -c "import urllib.request; print(urllib.request.urlopen('$site/requests').read().decode())") requests, $says"
}
got="without Retry-After: $(try untold), Retry-After 1: $(try told)"
got=${got/ 1 requests/ 1 request}
echo "$got"
[ "$got" = 'without Retry-After: 1 request, no matching distribution, Retry-After 1: 6 requests, no matching distribution' ] ||
	{ cat ./*.log; echo 'it has changed'; exit 1; }
