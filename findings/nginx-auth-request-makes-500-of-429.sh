#!/usr/bin/env bash
# nginx's auth_request hands on 401 and 403 of what it asks, and makes a 500 of every other refusal, 429 and 503 included.
#
# Seen on 2026-11-27 with Debian 12's nginx 1.22.1: "204: 200, 401: 401, 403: 403, 429: 500, 503: 500".
# Guess: the client gets the 429 with its Retry-After.
# Follows from it: docs/recipes.md, "Asked by another server": status 403 for nginx, which error_page makes a 429 of.
# Ground: servers
#
# Use: nginx-auth-request-makes-500-of-429.sh [version of the Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${asked:-}" "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "nginx${1:+=$1}"
dpkg -x nginx_*.deb package
nginx=$folder/package/usr/sbin/nginx
"$nginx" -v 2>&1
cat >asked.py <<'END'
import http.server

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(int(self.path[1:]))
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 asked.py >asked &
asked=$!
until [ -s asked ]; do sleep 0.1; done
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
echo served >page
{
	echo "daemon off; pid $folder/pid; error_log $folder/error.log; events {}"
	echo "http { access_log off; client_body_temp_path $folder/1; proxy_temp_path $folder/2; fastcgi_temp_path $folder/3;"
	echo "uwsgi_temp_path $folder/4; scgi_temp_path $folder/5; server { listen 127.0.0.1:$port;"
	for status in 204 401 403 429 503; do
		echo "location = /$status { auth_request /ask/$status; alias $folder/page; }"
		echo "location = /ask/$status { internal; proxy_pass http://127.0.0.1:$(cat asked)/$status; }"
	done
	echo '} }'
} >nginx.conf
chmod 755 . && chmod 644 page
"$nginx" -e error.log -c "$folder/nginx.conf" &
server=$!
curl -s --retry 50 --retry-connrefused --retry-delay 1 -o /dev/null "http://127.0.0.1:$port/204"
got=
for status in 204 401 403 429 503; do
	got+="$status: $(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/$status"), "
done
got=${got%, }
echo "$got"
[ "$got" = '204: 200, 401: 401, 403: 403, 429: 500, 503: 500' ] || { echo 'it has changed'; exit 1; }
