#!/usr/bin/env bash
# The tables of time zones that Go and node bring along are not those of the machine: a Go and a node of this autumn know nothing of
# what changed in 2026, so that the first of December begins an hour later or earlier in Vancouver, Winnipeg, Havana and Casablanca
# than by Debian's package. In Vancouver, Winnipeg and Havana the clocks have not gone back, in Casablanca they have for good.
#
# Seen on 2026-11-28 with Debian 12's tzdata 2026f, Go 1.26.8 (2025c) and node 20.20.2 (2025c), offsets of 1 December 2026: "Debian:
# -07 -05 -04 +00, Go: -08 -06 -05 +01, node: -08 -06 -05 +01".
# Guess: releases of the same month have the same year's tables.
# Follows from it: docs/caddyfile.md, "Calendar periods": the machine's table goes before the one built in, so keep its package, on
# all nodes.
# Ground: calendars
#
# Use: go-and-node-bring-last-years-time-zones.sh [version of the Debian package]. Needs apt-get, dpkg, Go and node.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "tzdata${1:+=$1}"
dpkg -x tzdata_*.deb package
cat >main.go <<'END'
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	var offsets []string
	for _, name := range os.Args[1:] {
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		offsets = append(offsets, time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC).In(zone).Format("-07"))
	}
	fmt.Println(strings.Join(offsets, " "))
}
END
cat >main.cjs <<'END'
const offset = (timeZone) => {
  const parts = new Intl.DateTimeFormat('en', { timeZone, timeZoneName: 'longOffset' }).formatToParts(new Date('2026-12-01T12:00:00Z'));
  return parts.find((part) => part.type === 'timeZoneName').value.slice(3, 6) || '+00';
};
console.log(process.argv.slice(2).map(offset).join(' '));
END
echo "tzdata$(sed -n '1s/.*version//p' package/usr/share/zoneinfo/tzdata.zi), $(go env GOVERSION), node $(node -p 'process.versions.tz')"
zones=(America/Vancouver America/Winnipeg America/Havana Africa/Casablanca)
go build -o main main.go
builtin=$(go env GOROOT)/lib/time/zoneinfo.zip
got="Debian: $(ZONEINFO=$folder/package/usr/share/zoneinfo ./main "${zones[@]}")"
got+=", Go: $(ZONEINFO=$builtin ./main "${zones[@]}"), node: $(node main.cjs "${zones[@]}")"
echo "$got"
[ "$got" = 'Debian: -07 -05 -04 +00, Go: -08 -06 -05 +01, node: -08 -06 -05 +01' ] || { echo 'it has changed'; exit 1; }
