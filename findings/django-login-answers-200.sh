#!/usr/bin/env bash
# The log-in of Django answers a wrong password with 200, as it answers the form itself, and the right one with 302. So
# does that of WordPress 6.1.9, run by hand with MariaDB; its xmlrpc.php answers a wrong password with 200 too.
#
# Seen on 2026-11-27 with Debian 12's python3-django 3.2.25: "form 200, wrong 200, right 302".
# Guess: 401 or 403 for a wrong password.
# Follows from it: README's first example, which counts what is no redirect.
# Ground: logins
#
# Use: django-login-answers-200.sh [version of the Debian package]. Needs apt-get, dpkg, python3.11 and curl.
set -euo pipefail
version=${1:+=$1}
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "python3-django$version" python3-asgiref python3-sqlparse python3-tz
for package in *.deb; do dpkg -x "$package" packages; done
export PYTHONPATH="$folder/packages/usr/lib/python3/dist-packages"
python=/usr/bin/python3
"$python" -c 'import django; print("Django", django.get_version())'
"$python" -m django startproject finding .
"$python" manage.py migrate >migrate.log
DJANGO_SUPERUSER_PASSWORD=right "$python" manage.py createsuperuser --noinput --username admin --email admin@example.com >user.log
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$python" manage.py runserver --noreload "127.0.0.1:$port" >server.log 2>&1 &
server=$!
page="http://127.0.0.1:$port/admin/login/"
form=$(curl -s --retry 50 --retry-connrefused --retry-delay 1 -o /dev/null -w '%{http_code}' "$page")
try() { # try PASSWORD: the status
	rm -f cookies
	token=$(curl -s -c cookies "$page" | sed -n 's/.*csrfmiddlewaretoken" value="\([^"]*\)".*/\1/p' | head -n 1)
	curl -s -o /dev/null -w '%{http_code}' -b cookies -d "csrfmiddlewaretoken=$token&username=admin&password=$1&next=/admin/" "$page"
}
got="form $form, wrong $(try wrong), right $(try right)"
echo "$got"
[ "$got" = 'form 200, wrong 200, right 302' ] || { echo 'it has changed'; exit 1; }
