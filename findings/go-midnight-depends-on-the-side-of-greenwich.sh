#!/usr/bin/env bash
# Of a midnight that the clocks leave out, Go's time.Date makes 01:00 of that day east of Greenwich, and 23:00 of the day before
# west of it: days that are cut so pass all tests in Cairo, and are wrong in Santiago.
#
# Seen on 2026-11-28 with Go 1.26.8: "Cairo 04-24 01:00, Beirut 03-29 01:00, Havana 03-07 23:00, Santiago 09-05 23:00, Azores
# 03-28 23:00", asked for midnight of 24 April, 29 March, 8 March, 6 September and 29 March 2026.
# Guess: 01:00 of the day that was asked for, in each zone.
# Follows from it: internal/kernel/midnight.go walks a zone's offsets, and its tests have zones of both sides.
# Ground: calendars
#
# Use: go-midnight-depends-on-the-side-of-greenwich.sh. Needs Go.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >main.go <<'END'
package main

import (
	"fmt"
	"strings"
	"time"
)

func main() {
	var got []string
	for _, day := range []struct {
		zone, date string
	}{
		{"Africa/Cairo", "2026-04-24"}, {"Asia/Beirut", "2026-03-29"}, {"America/Havana", "2026-03-08"},
		{"America/Santiago", "2026-09-06"}, {"Atlantic/Azores", "2026-03-29"},
	} {
		zone, err := time.LoadLocation(day.zone)
		if err != nil {
			panic(err)
		}
		date, err := time.Parse(time.DateOnly, day.date)
		if err != nil {
			panic(err)
		}
		midnight := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, zone)
		got = append(got, day.zone[strings.Index(day.zone, "/")+1:]+midnight.Format(" 01-02 15:04"))
	}
	fmt.Println(strings.Join(got, ", "))
}
END
go version
ZONEINFO=$(go env GOROOT)/lib/time/zoneinfo.zip
export ZONEINFO
got=$(go run main.go)
echo "$got"
[ "$got" = 'Cairo 04-24 01:00, Beirut 03-29 01:00, Havana 03-07 23:00, Santiago 09-05 23:00, Azores 03-28 23:00' ] ||
	{ echo 'it has changed'; exit 1; }
