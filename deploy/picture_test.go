package deploy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// This file draws the dashboard. Its panels, with their queries and options, are those of the dashboard's file; their values are
// what the scene's Caddy exports, evaluated by Prometheus's engine; the charts are Grafana's components, without a Grafana.

const (
	pictureFile  = "grafana/redis-ratelimit.png"
	pictureWidth = 1320 // in pixels
)

// TestDashboard_picture compares the panels that the picture was drawn with, which the picture's file names, with those of the
// dashboard. PICTURE is a folder with the built page of picture/, see "make picture": with it the test draws the picture first.
func TestDashboard_picture(t *testing.T) {
	if folder := os.Getenv("PICTURE"); folder != "" {
		drawPicture(t, folder)
	}
	file := assert.NoError(os.ReadFile(pictureFile))(t)
	want := strings.Join(loadDashboard(t).titles(), "\n")
	if got := pngText(file); got != want {
		t.Errorf("%s shows the panels\n%s\nwant\n%s\n\nrun make picture", pictureFile, got, want)
	}
	size := assert.NoError(png.DecodeConfig(bytes.NewReader(file)))(t)
	assert.Equal(t, size.Width, pictureWidth, "the picture's width")
}

func (d *dashboard) titles() (titles []string) {
	for _, panel := range d.Panels {
		titles = append(titles, panel.Title)
	}
	return titles
}

// drawPicture plays 26 minutes of the scene and has Chromium draw the dashboard with them.
func drawPicture(t *testing.T, folder string) {
	t.Helper()
	d := loadDashboard(t)
	r := record(t, script{outages: 2, before: 32, during: 6, after: 28})
	assert.Must(t, os.WriteFile(filepath.Join(folder, "recording.js"), r.page(t, d), 0o600))
	html := string(chromium(t, folder, "--dump-dom"))
	for _, title := range d.titles() {
		assert.ErrorIf(t, !strings.Contains(html, ">"+title+"<"), "the page does not show %q", title)
	}
	charts := 0
	for _, panel := range d.Panels {
		if panel.Type != "row" {
			charts++
		}
	}
	assert.Equal(t, strings.Count(html, "<canvas"), charts, "charts on the page")
	assert.FatalIf(t, t.Failed(), "the page is not whole:\n%.3000s", html)
	shot := filepath.Join(t.TempDir(), "shot.png")
	chromium(t, folder, "--screenshot="+shot)
	small := assert.NoError(exec.CommandContext(t.Context(), "pngquant", "--output", "-", shot).Output())(t)
	assert.Must(t, os.WriteFile(pictureFile, withPNGText(small, strings.Join(d.titles(), "\n")), 0o600))
}

// chromium opens the page of a folder, and returns what Chromium prints.
func chromium(t *testing.T, folder, do string) []byte {
	t.Helper()
	height := 0
	for _, panel := range loadDashboard(t).Panels {
		height = max(height, 38*(panel.GridPos.Y+panel.GridPos.H)+8)
	}
	command := exec.CommandContext(t.Context(), caddytest.Chromium.Find(t), "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--no-first-run", "--allow-file-access-from-files", "--hide-scrollbars", "--lang=en-US",
		"--user-data-dir="+t.TempDir(), fmt.Sprintf("--window-size=%d,%d", pictureWidth, height), "--virtual-time-budget=10000", do,
		"file://"+filepath.Join(folder, "page.html"))
	return assert.NoError(command.Output())(t)
}

// drawn is what the page of picture/ draws.
type drawn struct {
	Dashboard json.RawMessage `json:"dashboard"`
	From      int64           `json:"from"` // of the first point and the last, in ms
	To        int64           `json:"to"`
	Step      int64           `json:"step"`   // between points, in ms
	Series    [][]drawnSeries `json:"series"` // of each panel
}

type drawnSeries struct {
	Name   string   `json:"name"`
	Points [][2]any `json:"points"` // ms, value
}

// page returns the recording as the script that the page of picture/ runs. The first minute, of which there are no rates yet, is left out.
func (r *recording) page(t *testing.T, d *dashboard) []byte {
	t.Helper()
	from, to := begin.Add(4*scrapeEvery), r.end.Add(-scrapeEvery)
	all := drawn{
		Dashboard: assert.NoError(os.ReadFile(dashboardFile))(t),
		From:      from.UnixMilli(), To: to.UnixMilli(), Step: scrapeEvery.Milliseconds(),
	}
	for _, panel := range d.Panels {
		own := []drawnSeries{}
		for _, target := range panel.Targets {
			for _, series := range r.values(t, d.expand(target.Expr, "1m"), from, to, scrapeEvery) {
				shown := drawnSeries{Name: legendLabel.ReplaceAllStringFunc(target.LegendFormat, func(label string) string {
					return series.Metric.Get(strings.Trim(label, "{}"))
				})}
				for _, p := range series.Floats {
					shown.Points = append(shown.Points, [2]any{p.T, p.F})
				}
				own = append(own, shown)
			}
		}
		all.Series = append(all.Series, own)
	}
	return slices.Concat([]byte("window.recording = "), assert.NoError(json.Marshal(all))(t), []byte(";\n"))
}

// pngHeader is the length of the signature and of the first chunk, the header.
const pngHeader = 8 + 25

// pngKeyword names the text that the picture's file has about itself.
const pngKeyword = "Panels\x00"

// withPNGText returns a PNG file with a text behind its header.
func withPNGText(file []byte, text string) []byte {
	chunk := []byte("tEXt" + pngKeyword + text)
	withLength := append(binary.BigEndian.AppendUint32(nil, uint32(len(chunk)-4)), chunk...)
	return slices.Concat(file[:pngHeader], binary.BigEndian.AppendUint32(withLength, crc32.ChecksumIEEE(chunk)), file[pngHeader:])
}

// pngText returns the text of withPNGText, "" without one.
func pngText(file []byte) string {
	if len(file) < pngHeader+8 {
		return ""
	}
	length := int(binary.BigEndian.Uint32(file[pngHeader:]))
	chunk := file[pngHeader+4:]
	if length > len(chunk)-4 {
		return ""
	}
	text, found := bytes.CutPrefix(chunk[:length+4], []byte("tEXt"+pngKeyword))
	if !found {
		return ""
	}
	return string(text)
}
