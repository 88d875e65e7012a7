#!/usr/bin/env bash
# HAProxy writes a quotation mark in a URL as #22 and a backslash as it is, where nginx writes \x22 and \x5C.
#
# Seen on 2026-11-28 with Debian 12's haproxy 2.6.12 and nginx 1.22.1, for GET /a"b\n: "haproxy: /a#22b\n, nginx:
# /a\x22b\x5Cn".
# Guess: what follows a backslash in a line is an escape, whoever has written the line.
# Follows from it: docs/replay.md, "What it reads": each format says whether backslashes stand for themselves; otherwise the
# URL above would have a line break.
# Ground: logs
#
# Use: haproxy-writes-a-quote-as-22.sh [version of haproxy's Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${haproxy:-}" "${nginx:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "haproxy${1:+=$1}" liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 nginx
for package in *.deb; do dpkg -x "$package" package; done
library=$(dirname "$(find package -name 'liblua5.3.so.0')")
export LD_LIBRARY_PATH=$folder/$library
package/usr/sbin/haproxy -v | sed -n 1p
package/usr/sbin/nginx -v 2>&1
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
one=$(free) two=$(free)
cat >haproxy.cfg <<END
global
	log stdout format raw local0
defaults
	mode http
	log global
	option httplog
	timeout client 9s
frontend all
	bind 127.0.0.1:$one
	http-request return status 204
END
cat >nginx.conf <<END
daemon off; pid $folder/pid; error_log $folder/error.log; events {}
http { access_log $folder/nginx.log combined; client_body_temp_path $folder/1; proxy_temp_path $folder/2; fastcgi_temp_path $folder/3;
uwsgi_temp_path $folder/4; scgi_temp_path $folder/5; server { listen 127.0.0.1:$two; return 204; } }
END
package/usr/sbin/haproxy -f haproxy.cfg >haproxy.log &
haproxy=$!
package/usr/sbin/nginx -e error.log -c "$folder/nginx.conf" &
nginx=$!
# url NAME PORT asks for the URL, and says how the log has it.
url() {
	until printf 'GET /a"b\\n HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
		curl -s --max-time 5 "telnet://127.0.0.1:$2" >answer; do sleep 0.1; done
	until grep -q 'GET /a' "$1.log"; do sleep 0.1; done
	sed -n 's/.*GET \(.*\) HTTP.*/\1/p' "$1.log"
}
got="haproxy: $(url haproxy "$one"), nginx: $(url nginx "$two")"
echo "$got"
[ "$got" = 'haproxy: /a#22b\n, nginx: /a\x22b\x5Cn' ] || { echo 'it has changed'; exit 1; }
