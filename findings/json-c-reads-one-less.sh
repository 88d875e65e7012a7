#!/usr/bin/env bash
# json-c reads and writes 18446744073709551616 as ...615, and says nothing. cJSON, whose number for whole ones is an int, has
# 2147483647, and Jansson refuses the whole document, which is valid. YAJL, run by hand, has the double 2^64.
#
# Seen on 2026-11-28 with Debian 12's libjson-c-dev 0.16-2, libcjson-dev 1.7.15-1+deb12u4 and libjansson-dev 2.14-2:
# "json-c: 18446744073709551615, cJSON: 2147483647 or 1.8446744073709552e+19, Jansson: too big integer".
# Guess: a number that is too big for a whole one is a double, or refused, and stays itself where it is only passed on.
# Follows from it: a whole number above 2^53 is unreadable: docs/metrics.md, "Unreadable values", number.
# Ground: readers
#
# Use: json-c-reads-one-less.sh. Needs Debian 12's apt-get, dpkg and gcc.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download libjson-c-dev libjson-c5 libcjson-dev libcjson1 libjansson-dev libjansson4
for package in *.deb; do dpkg -x "$package" packages; done
for name in libjson-c-dev libcjson-dev libjansson-dev; do echo "$name $(dpkg-deb -f "$name"_*.deb Version)"; done
cat >json-c.c <<'C'
#include <json-c/json.h>
#include <stdio.h>

int main(int count, char **arguments) {
	struct json_object *number;
	json_object_object_get_ex(json_tokener_parse(arguments[1]), "n", &number);
	printf("%s", json_object_get_string(number));
}
C
cat >cjson.c <<'C'
#include <cjson/cJSON.h>
#include <stdio.h>

int main(int count, char **arguments) {
	cJSON *number = cJSON_GetObjectItem(cJSON_Parse(arguments[1]), "n");
	printf("%d or %s", number->valueint, cJSON_PrintUnformatted(number));
}
C
cat >jansson.c <<'C'
#include <jansson.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
	json_error_t error;
	json_t *document = json_loads(arguments[1], 0, &error);
	printf("%s", document ? json_dumps(document, JSON_COMPACT) : strndup(error.text, strcspn(error.text, "'") - strlen(" near ")));
}
C
# read_by NAME LIBRARY: what the program makes of the number
read_by() {
	local library
	library=$(find packages -name "$2")
	gcc -I packages/usr/include -o "$1" "$1.c" "$library"
	LD_LIBRARY_PATH=$(dirname "$library") "./$1" '{"n":18446744073709551616}'
}
got="json-c: $(read_by json-c libjson-c.so.5), cJSON: $(read_by cjson libcjson.so.1), Jansson: $(read_by jansson libjansson.so.4)"
echo "$got"
[ "$got" = 'json-c: 18446744073709551615, cJSON: 2147483647 or 1.8446744073709552e+19, Jansson: too big integer' ] ||
	{ echo 'it has changed'; exit 1; }
