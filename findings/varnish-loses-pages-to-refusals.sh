#!/usr/bin/env bash
# Varnish has a page that it may still serve for minutes (stale-while-revalidate), asks for it anew in the background, and is
# refused: it drops the page, and hands the next refusal on, of 503 as of 429.
#
# Seen on 2026-11-28 with Debian 12's varnish 7.1.1: "429: page, refused, refused; 503: page, refused, refused". Chromium does so
# with its own copy (chromium-drops-its-copy-when-refused.sh).
# Guess: what it may serve is served until something better comes.
# Follows from it: docs/recipes.md, "Behind a CDN": what a cache of your own asks for is left out of limits.
# Ground: servers
#
# Use: varnish-loses-pages-to-refusals.sh [version of the Debian package]. Needs apt-get, dpkg, python3, curl and cc.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${cache:-}" "${origin:-}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "varnish${1:+=$1}" "libvarnishapi3${1:+=$1}" libjemalloc2
for package in *.deb; do dpkg -x "$package" package; done
libraries=$folder/$(dirname "$(find package -name 'libvarnishapi.so.3' | head -1)")
export LD_LIBRARY_PATH=$libraries:$libraries/varnish
cat >origin.py <<'END'
import http.server

status = 200

class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global status
        if self.path.startswith('/answer/'):
            status = int(self.path[8:])
        refused = status != 200 and not self.path.startswith('/answer/')
        body = b'refused' if refused else b'page'
        self.send_response(status if refused else 200)
        if refused:
            self.send_header('Retry-After', '3')
            self.send_header('Cache-Control', 'no-store')
        else:
            self.send_header('Cache-Control', 'max-age=1, stale-while-revalidate=600')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Origin)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 origin.py >origin &
origin=$!
until [ -s origin ]; do sleep 0.1; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
package/usr/sbin/varnishd -V 2>&1 | sed -n 1p
package/usr/sbin/varnishd -F -j none -n "$folder/state" -s malloc,10m -a "127.0.0.1:$port" -b "127.0.0.1:$(cat origin)" >log 2>&1 &
cache=$!
curl -s --retry 50 --retry-connrefused --retry-delay 1 -o /dev/null "http://127.0.0.1:$port/" || { cat log; exit 1; }
got=
for status in 429 503; do
	curl -s -o /dev/null "http://127.0.0.1:$(cat origin)/answer/200"
	curl -s -o /dev/null "http://127.0.0.1:$port/$status"
	curl -s -o /dev/null "http://127.0.0.1:$(cat origin)/answer/$status"
	sleep 1.5 # until the page is stale
	got+="$status:"
	for _ in 1 2 3; do
		got+=" $(curl -s "http://127.0.0.1:$port/$status"),"
		sleep 0.5 # until the answer in the background has come
	done
	got="${got%,}; "
done
got=${got%; }
echo "$got"
[ "$got" = '429: page, refused, refused; 503: page, refused, refused' ] || { echo 'it has changed'; exit 1; }
