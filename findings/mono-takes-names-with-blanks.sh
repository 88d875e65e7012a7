#!/usr/bin/env bash
# JavaScriptSerializer, as Mono has it, takes a member "model " of a document for a property model, and of two the later one.
#
# Seen on 2026-11-28 with Debian 12's Mono 6.8.0.105: '{"model":"a"} is a, {"model ":"b"} is b, {"model":"a","\tmodel":"b"} is
# b, {"mo del":"b"} is absent'. Newtonsoft.Json 6.0.8 on the same Mono reads absent and a.
# Guess: names are compared as they stand, or without regard to case.
# Follows from it: a name of JSON within blanks is the asked one in another spelling, and so unreadable: docs/metrics.md.
# Ground: readers
#
# Use: mono-takes-names-with-blanks.sh [version of the Debian package]. Needs Debian 12's apt-get and dpkg.
set -euo pipefail
version=${1:+=$1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
library() { for name in "$@"; do echo "libmono-$name-cil$version"; done; }
apt-get -qq -o APT::Sandbox::User=root download "mono-runtime-sgen$version" "mono-runtime-common$version" "mono-mcs$version" "libmono-corlib4.5-dll$version" \
	$(library corlib4.5 security4.0 system4.0 system-configuration4.0 system-core4.0 system-xml4.0 system-web4.0 system-security4.0 \
		system-data4.0 system-web-extensions4.0 system-numerics4.0 system-web-services4.0 system-componentmodel-dataannotations4.0)
for package in *.deb; do dpkg -x "$package" packages; done
cat >read.cs <<'CS'
using System;
using System.Web.Script.Serialization;

public class Document { public string model { get; set; } }

public static class Read {
	public static void Main(string[] documents) {
		foreach (string text in documents)
			Console.WriteLine("{0} is {1}", text, new JavaScriptSerializer().Deserialize<Document>(text).model ?? "absent");
	}
}
CS
export MONO_PATH=$PWD/packages/usr/lib/mono/4.5 MONO_GAC_PREFIX=$PWD/packages/usr MONO_CFG_DIR=$PWD/packages/etc
mono=packages/usr/bin/mono-sgen
"$mono" --version=number
"$mono" packages/usr/lib/mono/4.5/mcs.exe -nologo -r:System.Web.Extensions.dll -out:read.exe read.cs
got=$("$mono" read.exe '{"model":"a"}' '{"model ":"b"}' '{"model":"a","\tmodel":"b"}' '{"mo del":"b"}')
echo "$got"
[ "$got" = '{"model":"a"} is a
{"model ":"b"} is b
{"model":"a","\tmodel":"b"} is b
{"mo del":"b"} is absent' ] || { echo 'it has changed'; exit 1; }
