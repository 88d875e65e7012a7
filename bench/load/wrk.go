// Package load sends requests to a web server and measures how it answers: as many as it can take,
// by wrk, or at a constant rate.
package load

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// Keys is how many clients there are, each known by its X-Key header.
const Keys = 5000

// Result is what a server did under load.
type Result struct {
	Rate    float64 // answers per second
	P50     time.Duration
	P99     time.Duration
	Refused float64 // the part of the answers with a status from 400
	Failed  int64   // requests without an answer
}

//go:embed wrk.lua
var wrkScript string

// Wrk runs wrk, which asks again as soon as it is answered, on one thread.
type Wrk struct{ script string }

// ErrNoWrk says how to get wrk.
var ErrNoWrk = errors.New("wrk is not installed; try apt-get install wrk, dnf install wrk, brew install wrk " +
	"or https://github.com/wg/wrk")

// NewWrk looks for wrk and puts its script into a directory.
func NewWrk(dir string) (*Wrk, error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return nil, ErrNoWrk
	}
	w := &Wrk{script: filepath.Join(dir, "wrk.lua")}
	return w, os.WriteFile(w.script, []byte(wrkScript), 0o600)
}

// Run loads a server for some whole seconds.
func (w *Wrk) Run(ctx context.Context, addr, path string, connections int, duration time.Duration) (Result, error) {
	seconds := strconv.Itoa(max(1, int(duration.Seconds()))) + "s"
	command := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(connections), "-d"+seconds,
		"--timeout", "5s", "-s", w.script, "http://"+addr, "--", strconv.Itoa(Keys), path)
	output, err := command.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("wrk: %w\n%s", err, output)
	}
	return parseWrk(output)
}

// parseWrk reads the end of wrk's output, which is what its script prints.
func parseWrk(output []byte) (Result, error) {
	start := bytes.LastIndexByte(output, '{')
	if start < 0 {
		return Result{}, fmt.Errorf("wrk's output:\n%s", output)
	}
	var counts struct {
		Requests, Duration, P50, P99, Refused, Failed int64
	}
	if err := json.Unmarshal(output[start:], &counts); err != nil {
		return Result{}, fmt.Errorf("wrk's output: %w\n%s", err, output)
	}
	if counts.Requests == 0 || counts.Duration == 0 {
		return Result{}, fmt.Errorf("wrk was never answered\n%s", output)
	}
	return Result{
		Rate:    float64(counts.Requests) / (time.Duration(counts.Duration) * time.Microsecond).Seconds(),
		P50:     time.Duration(counts.P50) * time.Microsecond,
		P99:     time.Duration(counts.P99) * time.Microsecond,
		Refused: float64(counts.Refused) / float64(counts.Requests),
		Failed:  counts.Failed,
	}, nil
}
