#!/usr/bin/env bash
# The time in nginx's combined log is when a request ended, in Apache's when it began, though both write the same format.
#
# Seen on 2026-11-28 with Debian 12's nginx 1.22.1 and apache2 2.4: "nginx: the end, apache: the start", by a request of 4 s.
# Guess: lines of one format mean the same.
# Follows from it: docs/replay.md, "Times": what a replay takes a line's time for goes by the server, and the best log has the
# duration.
# Ground: logs
#
# Use: nginx-logs-ends-apache-starts.sh [version of nginx's Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${slow:-}" "${nginx:-}" "${apache:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "nginx${1:+=$1}" apache2-bin libapr1 libaprutil1 libbrotli1 libcurl4 libjansson4 liblua5.3-0 libnghttp2-14
for package in *.deb; do dpkg -x "$package" package; done
library=$(dirname "$(find package -name 'libapr-1.so.0')")
export LD_LIBRARY_PATH=$folder/$library
package/usr/sbin/nginx -v 2>&1
package/usr/sbin/apache2 -v | sed -n 1p
cat >slow.py <<'END'
import http.server, time

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(4)
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 slow.py >slow &
slow=$!
until [ -s slow ]; do sleep 0.1; done
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
one=$(free) two=$(free)
cat >nginx.conf <<END
daemon off; pid $folder/pid; error_log $folder/error.log; events {}
http { access_log $folder/nginx.log combined; client_body_temp_path $folder/1; proxy_temp_path $folder/2; fastcgi_temp_path $folder/3;
uwsgi_temp_path $folder/4; scgi_temp_path $folder/5; server { listen 127.0.0.1:$one; location / { proxy_pass http://127.0.0.1:$(cat slow); } } }
END
modules=$folder/package/usr/lib/apache2/modules
cat >apache.conf <<END
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$two
PidFile $folder/apache.pid
ErrorLog $folder/apache-error.log
Mutex file:$folder
$(for name in mpm_event authz_core proxy proxy_http; do echo "LoadModule ${name}_module $modules/mod_$name.so"; done)
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
CustomLog $folder/apache.log combined
ProxyPass / http://127.0.0.1:$(cat slow)/
END
package/usr/sbin/nginx -e error.log -c "$folder/nginx.conf" &
nginx=$!
package/usr/sbin/apache2 -f "$folder/apache.conf" -DFOREGROUND &
apache=$!
# moment NAME PORT sends a request, and says which of its moments the log has.
moment() {
	until curl -s -o /dev/null --max-time 1 "http://127.0.0.1:$2/" || [ $? = 28 ]; do sleep 0.1; done
	local begin end
	begin=$(date +%s)
	curl -s -o /dev/null "http://127.0.0.1:$2/timed"
	end=$(date +%s)
	until grep -q /timed "$1.log"; do sleep 0.1; done
	python3 - "$1.log" "$begin" "$end" <<'END'
import datetime, re, sys
line = [line for line in open(sys.argv[1]) if '/timed' in line][0]
text = re.search(r'\[([^]]+)\]', line).group(1)
logged = datetime.datetime.strptime(text, '%d/%b/%Y:%H:%M:%S %z').timestamp()
print('the start' if abs(logged - int(sys.argv[2])) < abs(logged - int(sys.argv[3])) else 'the end')
END
}
got="nginx: $(moment nginx "$one"), apache: $(moment apache "$two")"
echo "$got"
[ "$got" = 'nginx: the end, apache: the start' ] || { echo 'it has changed'; exit 1; }
