#!/usr/bin/env bash
# The simdjson of Debian 12 reads 0 for 1.000000000000000000 by its parser on demand, and says nothing; so it does for
# other numbers that are no whole ones, from 19 or 20 digits on. Its other parser reads 1, and so does every parser of parsers/results.md.
#
# Seen on 2026-11-28 with libsimdjson-dev 3.0.1-1: "1.00000000000000000 is 1 and 1, 1.000000000000000000 is 0 and 1,
# 100000000000000000.0 is 0 and 1e+17". Debian's next one, 4.6.11, reads 1.
# Guess: zeros behind a number do not change it.
# Follows from it: a number of a request's body that has more than 17 digits is unreadable, as docs/caddyfile.md says of long
# ones.
# Ground: readers
#
# Use: simdjson-reads-0-for-1.sh [version of the Debian package]. Needs Debian 12's apt-get, dpkg and g++.
set -euo pipefail
version=${1:+=$1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "libsimdjson-dev$version" "libsimdjson14$version"
for package in *.deb; do dpkg -x "$package" packages; done
echo "libsimdjson-dev $(dpkg-deb -f libsimdjson-dev_*.deb Version)"
cat >read.cpp <<'CPP'
#include <iostream>
#include <simdjson.h>

int main() {
	for (std::string digits : {"1.00000000000000000", "1.000000000000000000", "100000000000000000.0"}) {
		simdjson::padded_string text("{\"n\":" + digits + "}");
		simdjson::ondemand::parser lazy;
		simdjson::ondemand::document document = lazy.iterate(text);
		simdjson::ondemand::number number = document["n"].get_number();
		simdjson::dom::parser whole;
		double other = whole.parse(text)["n"].get_double();
		std::cout << digits << " is " << number.get_double() << " and " << other << "\n";
	}
}
CPP
library=$(dirname packages/usr/lib/*/libsimdjson.so)
g++ -std=c++17 -I packages/usr/include -o read read.cpp -L "$library" -lsimdjson
got=$(LD_LIBRARY_PATH=$library ./read)
echo "$got"
[ "$got" = $'1.00000000000000000 is 1 and 1\n1.000000000000000000 is 0 and 1\n100000000000000000.0 is 0 and 1e+17' ] ||
	{ echo 'it has changed'; exit 1; }
