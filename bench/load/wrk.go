// Package load sends a web server as many requests as it takes, by wrk, and measures the responses.
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

// Keys is the number of clients, each with an X-Key header of its own.
const Keys = 5000

// Result is the measurement of a server under load.
type Result struct {
	Rate    float64 // responses a second
	P99     time.Duration
	Refused float64 // the fraction of responses with a status from 400
	Failed  int64   // requests without a response
}

//go:embed wrk.lua
var wrkScript string

// Wrk runs wrk on one thread. Each connection sends its next request right after a response.
type Wrk struct{ script string }

// ErrNoWrk is returned where wrk is missing.
var ErrNoWrk = errors.New("wrk is not installed; try apt-get install wrk, dnf install wrk, brew install wrk " +
	"or https://github.com/wg/wrk")

// NewWrk looks for wrk and writes its script into a directory.
func NewWrk(dir string) (*Wrk, error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return nil, ErrNoWrk
	}
	w := &Wrk{script: filepath.Join(dir, "wrk.lua")}
	return w, os.WriteFile(w.script, []byte(wrkScript), 0o600)
}

// Target is what wrk loads: requests of so many keys, in turn, on so many connections.
type Target struct {
	Addr, Path        string
	Keys, Connections int
}

// Run loads a server for a duration in whole seconds.
func (w *Wrk) Run(ctx context.Context, t Target, duration time.Duration) (Result, error) {
	seconds := strconv.Itoa(max(1, int(duration.Seconds()))) + "s"
	command := exec.CommandContext(ctx, "wrk", "-t1", "-c"+strconv.Itoa(t.Connections), "-d"+seconds,
		"--timeout", "5s", "-s", w.script, "http://"+t.Addr, "--", strconv.Itoa(t.Keys), t.Path)
	output, err := command.CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("wrk: %w\n%s", err, output)
	}
	return parseWrk(output)
}

// parseWrk reads the last line of wrk's output, which the script prints.
func parseWrk(output []byte) (Result, error) {
	start := bytes.LastIndexByte(output, '{')
	if start < 0 {
		return Result{}, fmt.Errorf("wrk's output:\n%s", output)
	}
	var counts struct {
		Requests, Duration, P99, Refused, Failed int64
	}
	if err := json.Unmarshal(output[start:], &counts); err != nil {
		return Result{}, fmt.Errorf("wrk's output: %w\n%s", err, output)
	}
	if counts.Requests == 0 || counts.Duration == 0 {
		return Result{}, fmt.Errorf("wrk was never answered\n%s", output)
	}
	return Result{
		Rate:    float64(counts.Requests) / (time.Duration(counts.Duration) * time.Microsecond).Seconds(),
		P99:     time.Duration(counts.P99) * time.Microsecond,
		Refused: float64(counts.Refused) / float64(counts.Requests),
		Failed:  counts.Failed,
	}, nil
}
