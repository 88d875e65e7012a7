#!/usr/bin/env bash
# The cpp-httplib of Debian 12 takes what stands behind the last "=" of a field for its value, and drops the rest, in forms and
# in queries. It takes "=email=b" for email=b.
#
# Seen on 2026-11-28 with libcpp-httplib-dev 0.11.4: "email=a is a, email=a=b is b, email=YWI== is YWI, =email=b is b".
# Debian's next one, 0.41.0, reads a=b, YWI== and no email.
# Guess: a value ends at the next "&" (URL Standard, section 5.1), so that the token of curl -d token=YWI== arrives.
# Follows from it: a field of a form with a second "=" is unreadable, as docs/metrics.md says of raw_byte.
# Ground: readers
#
# Use: cpp-httplib-drops-the-middle.sh [version of the Debian package]. Needs Debian 12's apt-get, dpkg, g++, curl, python3,
# libssl3 and libbrotli1.
set -euo pipefail
version=${1:+=$1}
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "libcpp-httplib-dev$version" "libcpp-httplib0.11$version"
for package in *.deb; do dpkg -x "$package" packages; done
echo "libcpp-httplib-dev $(dpkg-deb -f libcpp-httplib-dev_*.deb Version)"
cat >serve.cpp <<'CPP'
#include <httplib.h>

int main(int, char **arguments) {
	httplib::Server server;
	server.Post("/", [](const httplib::Request &request, httplib::Response &response) {
		response.set_content(request.has_param("email") ? request.get_param_value("email") : "absent", "text/plain");
	});
	server.listen("127.0.0.1", std::stoi(arguments[1]));
}
CPP
library=$(dirname packages/usr/lib/*/libcpp-httplib.so)
g++ -std=c++17 -I packages/usr/include -o serve serve.cpp -L "$library" -lcpp-httplib -Wl,--allow-shlib-undefined
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
LD_LIBRARY_PATH=$library ./serve "$port" &
server=$!
read_of() { # read_of BODY: what the server has
	printf '%s is %s' "$1" "$(curl -s --retry 20 --retry-connrefused --retry-delay 1 -d "$1" "http://127.0.0.1:$port/")"
}
got="$(read_of email=a), $(read_of email=a=b), $(read_of email=YWI==), $(read_of =email=b)"
echo "$got"
[ "$got" = 'email=a is a, email=a=b is b, email=YWI== is YWI, =email=b is b' ] || { echo 'it has changed'; exit 1; }
