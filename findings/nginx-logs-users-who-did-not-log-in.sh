#!/usr/bin/env bash
# nginx writes the user whom a request names into its log, with blanks, though nothing has asked for a user or checked one.
# Apache writes a dash.
#
# Seen on 2026-11-28 with Debian 12's nginx 1.22.1 and apache2 2.4, without any login: "nginx: 127.0.0.1 - some one [, apache:
# 127.0.0.1 - - [".
# Guess: the third word of a line is who has logged in.
# Follows from it: docs/replay.md, "Clients": words behind the address may be a client's, and never become another client.
# Ground: logs
#
# Use: nginx-logs-users-who-did-not-log-in.sh [version of nginx's Debian package]. Needs apt-get, dpkg, python3 and curl.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${nginx:-}" "${apache:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "nginx${1:+=$1}" apache2-bin \
	libapr1 libaprutil1 libbrotli1 libcurl4 libjansson4 liblua5.3-0 libnghttp2-14
for package in *.deb; do dpkg -x "$package" package; done
LD_LIBRARY_PATH=$folder/$(dirname "$(find package -name 'libapr-1.so.0')")
export LD_LIBRARY_PATH
package/usr/sbin/nginx -v 2>&1
package/usr/sbin/apache2 -v | sed -n 1p
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
one=$(free) two=$(free)
cat >nginx.conf <<END
daemon off; pid $folder/pid; error_log $folder/error.log; events {}
http { access_log $folder/nginx.log combined; client_body_temp_path $folder/1; proxy_temp_path $folder/2; fastcgi_temp_path $folder/3;
uwsgi_temp_path $folder/4; scgi_temp_path $folder/5; server { listen 127.0.0.1:$one; return 204; } }
END
modules=$folder/package/usr/lib/apache2/modules
cat >apache.conf <<END
ServerRoot $folder
ServerName localhost
Listen 127.0.0.1:$two
PidFile $folder/apache.pid
ErrorLog $folder/apache-error.log
Mutex file:$folder
$(for name in mpm_event authz_core; do echo "LoadModule ${name}_module $modules/mod_$name.so"; done)
LogFormat "%h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" combined
CustomLog $folder/apache.log combined
END
package/usr/sbin/nginx -e error.log -c "$folder/nginx.conf" &
nginx=$!
package/usr/sbin/apache2 -f "$folder/apache.conf" -DFOREGROUND &
apache=$!
# head_of NAME PORT sends a request that names a user, and shows what its line has before the time.
head_of() {
	until curl -s -o /dev/null -u 'some one:any' "http://127.0.0.1:$2/"; do sleep 0.1; done
	until [ -s "$1.log" ]; do sleep 0.1; done
	sed -n '1s/\[.*/[/p' "$1.log"
}
got="nginx: $(head_of nginx "$one"), apache: $(head_of apache "$two")"
echo "$got"
[ "$got" = 'nginx: 127.0.0.1 - some one [, apache: 127.0.0.1 - - [' ] || { echo 'it has changed'; exit 1; }
