#!/usr/bin/env bash
# nginx reads stale-if-error of Cache-Control, and serves the stale page where nothing answers, but hands an answer of 503 on,
# which is an error by the RFC (5861), as it does 429. Squid 5.7, run by hand, does the same.
#
# Seen on 2026-11-28 with Debian 12's nginx 1.22.1 with proxy_cache: "429: refused, 503: refused, no answer: page". With
# "proxy_cache_use_stale http_429 http_503" it serves the page.
# Guess: at 503 the stale page is served, for which stale-if-error is there.
# Follows from it: docs/recipes.md, "Behind a CDN": nginx needs proxy_cache_use_stale, whatever the status.
# Ground: servers
#
# Use: nginx-takes-no-status-for-an-error.sh [version of the Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${cache:-}" "${origin:-}" 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "nginx${1:+=$1}"
dpkg -x nginx_*.deb package
nginx=$folder/package/usr/sbin/nginx
"$nginx" -v 2>&1
cat >origin.py <<'END'
import http.server

asked = set()

class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        refused = self.path in asked
        asked.add(self.path)
        if refused and self.path == '/none':
            return
        body = b'refused' if refused else b'page'
        self.send_response(int(self.path[1:]) if refused else 200)
        self.send_header('Cache-Control', 'no-store' if refused else 'max-age=1, stale-if-error=600')
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
cat >nginx.conf <<END
daemon off; pid $folder/pid; error_log $folder/error.log; events {}
http { access_log off; client_body_temp_path $folder/1; proxy_temp_path $folder/2; fastcgi_temp_path $folder/3;
uwsgi_temp_path $folder/4; scgi_temp_path $folder/5; proxy_cache_path $folder/cache keys_zone=pages:1m;
server { listen 127.0.0.1:$port; location / { proxy_cache pages; proxy_pass http://127.0.0.1:$(cat origin); } } }
END
chmod 755 .
"$nginx" -e error.log -c "$folder/nginx.conf" &
cache=$!
curl -s --retry 50 --retry-connrefused --retry-delay 1 -o /dev/null "http://127.0.0.1:$port/429"
curl -s -o /dev/null "http://127.0.0.1:$port/503"
curl -s -o /dev/null "http://127.0.0.1:$port/none"
sleep 2.5 # until the pages are stale
ask() { curl -s "http://127.0.0.1:$port/$1"; }
got="429: $(ask 429), 503: $(ask 503), no answer: $(ask none)"
echo "$got"
[ "$got" = '429: refused, 503: refused, no answer: page' ] || { echo 'it has changed'; exit 1; }
