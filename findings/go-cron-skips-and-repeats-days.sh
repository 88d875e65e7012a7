#!/usr/bin/env bash
# robfig/cron, whose schedules the CronJobs of Kubernetes and many programs in Go use, leaves out a day on which the clocks go
# forward at midnight, and runs a daily job twice on one on which midnight comes twice.
#
# Seen on 2026-11-28 with robfig/cron v3.0.1 and Go 1.26.8: "Cairo: 04-23 00:00, 04-25 00:00, 04-26 00:00; Azores: 10-24 00:00,
# 10-25 00:00, 10-25 00:00, 10-26 00:00". In Cairo 24 April begins at 01:00, on the Azores the clocks go back on 25 October from
# 01:00 to 00:00. croner, cron-parser and cron for node, run by hand, run once on each of these days.
# Guess: a daily job runs once a day, at 01:00 where there is no midnight.
# Follows from it: docs/caddyfile.md, "Calendar periods": no period is left out or comes twice; jobs that
# should follow them do.
# Ground: calendars
#
# Use: go-cron-skips-and-repeats-days.sh [version of the Go module]. Needs Go.
set -euo pipefail
version=${1:-v3.0.1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >go.mod <<'END'
module finding

go 1.26
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

func main() {
	fmt.Printf("Cairo: %s; Azores: %s\n",
		days("Africa/Cairo", time.Date(2026, 4, 22, 12, 0, 0, 0, time.UTC), 3),
		days("Atlantic/Azores", time.Date(2026, 10, 23, 12, 0, 0, 0, time.UTC), 4))
}

func days(name string, after time.Time, count int) string {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	schedule, err := cron.ParseStandard("@daily")
	if err != nil {
		panic(err)
	}
	var runs []string
	for at := after.In(zone); len(runs) < count; {
		at = schedule.Next(at)
		runs = append(runs, at.Format("01-02 15:04"))
	}
	return strings.Join(runs, ", ")
}
END
go get "github.com/robfig/cron/v3@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go list -m github.com/robfig/cron/v3
ZONEINFO=$(go env GOROOT)/lib/time/zoneinfo.zip
export ZONEINFO
got=$(go run .)
echo "$got"
[ "$got" = 'Cairo: 04-23 00:00, 04-25 00:00, 04-26 00:00; Azores: 10-24 00:00, 10-25 00:00, 10-25 00:00, 10-26 00:00' ] ||
	{ echo 'it has changed'; exit 1; }
