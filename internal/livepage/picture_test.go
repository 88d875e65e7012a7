package livepage

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// noon is the time of the sample.
var noon = time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)

// encoded writes a part of a document.
func encoded(t testing.TB, value any) json.RawMessage {
	t.Helper()
	return assert.NoError(json.Marshal(value))(t)
}

// sample is a document with something in each section.
func sample(t testing.TB) *Document {
	t.Helper()
	ago := func(d time.Duration) *time.Time { return new(noon.Add(-d)) }
	banned := noon.Add(14*time.Minute + 48*time.Second)
	d := &Document{At: noon}
	for _, s := range []struct {
		name  string
		value any
	}{
		{"node", adminapi.PageNode{Version: "v1.0.0", Caddy: "v2.11.9", Name: "web-1", Address: "192.0.2.10"}},
		{"store", adminapi.StoreReport{
			Kind: "redis", Mode: "standalone", Addresses: []string{"127.0.0.1:6379"}, Healthy: true, RoundTrip: 0.00024, Breaker: "closed",
			DecidingSince: ago(26*time.Hour + 12*time.Minute), FailMode: "local",
		}},
		{"top", adminapi.PageTop{Begin: *ago(7 * time.Minute), Keys: []adminapi.PageKey{
			{Policy: "login", Key: "198.51.100.66", Denied: 26, Why: adminapi.WhyBanned, Until: &banned},
			{Policy: "api", Key: "198.51.100.20", Denied: 20, Why: adminapi.WhyLimit},
		}}},
		{"used", adminapi.PageUsed{About: "Units on this node in the last five to ten minutes, denied or not.", Keys: []adminapi.UsedEntry{
			{Policy: "api", Key: "203.0.113.7", Used: 48_640, Error: 3_541}, {Policy: "gpu", Key: "acme", Used: 212},
		}}},
		{"bans", adminapi.PageBans{Complete: true, Total: 1, Bans: []adminapi.PageBan{{Policy: "login", Key: "198.51.100.66", Until: banned, Offenses: 1}}}},
		{"overrides", adminapi.PageOverrides{Total: 1, Overrides: []adminapi.OverrideEntry{
			{Policy: "api", Key: new("203.0.113.7"), Limit: 3000, Until: new(noon.Add(2 * time.Hour)), Note: "import of June"},
		}}},
		{"warnings", adminapi.PageWarnings{adminapi.Warning{
			First: *ago(26*time.Hour + 14*time.Minute), Last: *ago(26*time.Hour + 14*time.Minute), Times: 1,
			Text: "redis cannot decide; handlers do what their fail_mode says", Details: "kind: timeout, error: no answer within 100 ms",
		}}},
		{"nodes", adminapi.PageNodes{Answered: 2, Known: 2, Sums: map[string]adminapi.PageLately{
			"api": {Requests: 3_120, Denied: 29}, "gpu": {Requests: 188, Running: 4, Waiting: 1}, "login": {Requests: 77, Denied: 41, Bans: 2},
		}}},
	} {
		d.Sections = append(d.Sections, Section{Name: s.name, Value: encoded(t, s.value)})
	}
	points := map[string][]storepool.Point{}
	for i := range storepool.HistoryPoints {
		x := float64(i)
		denied := uint32(0)
		if i > 44 && i < 52 {
			denied = uint32(i % 5)
		}
		points["api"] = append(points["api"], storepool.Point{Requests: uint32(20 + 9*math.Sin(x/5) + x/6), Denied: denied})
		points["gpu"] = append(points["gpu"], storepool.Point{
			Requests: uint32(2 + 2*math.Sin(x/3)), Running: 2, Waiting: uint32(max(0, 3*math.Sin(x/8))),
		})
		points["login"] = append(points["login"], storepool.Point{Requests: uint32(i/55) * 7, Denied: uint32(i/55) * 5, Bans: uint32(i / 60)})
	}
	d.Points = func(behind int64) (int64, map[string][]storepool.Point) {
		if behind > 0 {
			return storepool.HistoryPoints, nil
		}
		return storepool.HistoryPoints, points
	}
	add := func(name string, about adminapi.PagePolicy, counts adminapi.PageCounts) {
		d.Policies = append(d.Policies, Row{Name: name, About: encoded(t, about), Counts: encoded(t, counts)})
	}
	add("api", adminapi.PagePolicy{
		Sentence: "300 requests per minute for each client address", Options: []adminapi.PageOption{{Name: "algorithm", Value: "token_bucket"}},
		Handlers: []string{"srv0 (:8080) all requests"},
	}, adminapi.PageCounts{CountsReport: adminapi.CountsReport{Met: 120_214, Denied: 303, Counted: 119_911}, ClientOverrides: 1})
	add("gpu", adminapi.PagePolicy{Sentence: "2 requests at once for each header X-Api-Key"},
		adminapi.PageCounts{CountsReport: adminapi.CountsReport{Met: 4_711, Counted: 4_711}, Running: new(int64(2)), Waiting: new(int64(1))})
	add("login", adminapi.PagePolicy{Sentence: "5 requests per 15 minutes for each client address"},
		adminapi.PageCounts{CountsReport: adminapi.CountsReport{Met: 1_037, Denied: 56, Counted: 981}})
	add("signup", adminapi.PagePolicy{Sentence: "3 requests per hour for each client address"}, adminapi.PageCounts{})
	return d
}

// serveSample serves a document, which a test may replace meanwhile, and returns the address that opens it.
func serveSample(t *testing.T, document func() *Document) (address string) {
	t.Helper()
	feed := NewFeed()
	var page *Server
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	page = New(strings.TrimPrefix(server.URL, "http://"), "caddy redis-ratelimit", "", func(_ context.Context, since string) (int, []byte, error) {
		return http.StatusOK, feed.Answer(since, document()), nil
	})
	return page.Address()
}

// setScreen gives a page a width, a height of 800 and the colors of a scheme.
func setScreen(t *testing.T, tab *caddytest.Tab, width int, scheme string) {
	t.Helper()
	tab.Ask(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}, &struct{}{})
	tab.Ask(t, "Emulation.setScrollbarsHidden", map[string]any{"hidden": true}, &struct{}{})
	tab.Ask(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, &struct{}{})
}

// small writes a picture with the 256 colors that most of its points have, and for others the nearest of these.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	full := assert.NoError(png.Decode(bytes.NewReader(picture)))(t)
	points := map[color.Color]int{}
	size := full.Bounds()
	for y := range size.Dy() {
		for x := range size.Dx() {
			points[full.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(points), func(a, b color.Color) int { return points[b] - points[a] })
	fewer := image.NewPaletted(size, colors[:min(len(colors), 256)])
	draw.Draw(fewer, size, full, image.Point{}, draw.Src)
	var b bytes.Buffer
	assert.Must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, fewer))
	return b.Bytes()
}

// TestPictures compares the text of the page with that of the pictures in docs/, which UPDATE_GOLDEN=1 takes again.
func TestPictures(t *testing.T) {
	t.Parallel()
	tab, d := caddytest.OpenTab(t), sample(t)
	setScreen(t, tab, 1280, "light")
	tab.Open(t, serveSample(t, func() *Document { return d }))
	tab.WaitForText(t, "#warnings", "redis cannot decide")
	text := []byte(tab.Eval(t, "document.body.innerText") + "\n")
	golden := filepath.Join("testdata", "picture.txt")
	if os.Getenv("UPDATE_GOLDEN") == "" {
		want := assert.NoError(os.ReadFile(golden))(t)
		assert.ErrorIf(t, !bytes.Equal(text, want), "the pictures are of another page: set UPDATE_GOLDEN=1 to take them again; got\n%s", text)
		return
	}
	assert.Must(t, os.WriteFile(golden, text, 0o600))
	for _, scheme := range []string{"light", "dark"} {
		setScreen(t, tab, 1280, scheme)
		var shot struct{ Data string }
		tab.Ask(t, "Page.captureScreenshot", map[string]any{"format": "png", "clip": map[string]any{"x": 0, "y": 0, "width": 1280, "height": 500, "scale": 1}}, &shot)
		picture := small(t, assert.NoError(base64.StdEncoding.DecodeString(shot.Data))(t))
		assert.ErrorIf(t, len(picture) > 100<<10, "the picture has %d bytes", len(picture))
		assert.Must(t, os.WriteFile(filepath.Join("..", "..", "docs", "page-"+scheme+".png"), picture, 0o644))
	}
}
