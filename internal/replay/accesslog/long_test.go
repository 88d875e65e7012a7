package accesslog

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// endedLine is a request of so many seconds that ended so many seconds after a fixed time.
func endedLine(ended, took float64) string {
	return fmt.Sprintf(`{"ts":%.3f,"request":{"client_ip":"192.0.2.1","uri":"/%g"},"duration":%.3f,"size":1,"status":101}`+"\n",
		float64(second)/1e6+ended, ended, took)
}

func TestReader_LongRequests(t *testing.T) {
	log := endedLine(1, 0.5) + endedLine(2, 0.5) + endedLine(3, 0.5) + endedLine(4, 3.75) + endedLine(5, 0.5) + endedLine(6, 5.75)
	file := Options{Files: []string{writeFile(t, "log", []byte(log))}, Window: 2, LongRequests: true}
	packed := file
	packed.Files = []string{writeFile(t, "log.gz", gzipped(t, log))}
	for _, tt := range []struct {
		name    string
		options Options
		want    string
		late    int64
	}{
		{"a file", file, "4@0.25 6@0.25 1@0.5 2@1.5 3@2.5 5@4.5", 0},
		{"packed", packed, "4@0.25 6@0.25 1@0.5 2@1.5 3@2.5 5@4.5", 0},
		{"not asked for", Options{Files: file.Files, Window: 2}, "1@0.5 2@1.5 4@1.5 3@2.5 6@2.5 5@4.5", 2},
		{"a stream", Options{Files: []string{"-"}, Stdin: strings.NewReader(log), Window: 2, LongRequests: true}, "1@0.5 2@1.5 4@1.5 3@2.5 6@2.5 5@4.5", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, s := readAll(t, tt.options)
			var got []string
			for _, e := range entries {
				ended := float64(e.Ends-second) / 1e6
				redistest.ErrorIf(t, e.URI != fmt.Sprintf("/%g", ended), "%s ended after %g s", e.URI, ended)
				got = append(got, fmt.Sprintf("%g@%g", ended, float64(e.Time-second)/1e6))
			}
			if strings.Join(got, " ") != tt.want || s.Late != tt.late || s.Entries != 6 || s.Files[0].Lines != 6 {
				t.Errorf("got %s, %+v; want %s", strings.Join(got, " "), s, tt.want)
			}
		})
	}
}

func TestReader_untimed(t *testing.T) {
	line := `{"ts":1750000000,"request":{"client_ip":"192.0.2.1"},%s"size":1}` + "\n"
	entries, _ := readText(t, clfLine(0, "a")+fmt.Sprintf(line, "")+fmt.Sprintf(line, `"duration":"long",`)+fmt.Sprintf(line, `"duration":0,`))
	for i, want := range []int64{0, 0, 0, second} {
		redistest.ErrorIf(t, entries[i].Ends != want || entries[i].Time != second, "%+v", entries[i])
	}
}

// Requests of all lengths, in several files, come in the order of their starts however small the window is, as
// long as those that are out of order fit it.
func TestReader_LongRequests_random(t *testing.T) {
	random := rand.New(rand.NewPCG(18, 19))
	for range redistest.Rounds(20, 600) {
		type request struct{ ends, took float64 }
		all := make([]request, 1+random.IntN(300))
		long := 0
		for i := range all {
			all[i] = request{ends: float64(random.IntN(3600)), took: random.Float64()}
			if long < 20 && random.IntN(10) == 0 {
				all[i].took *= 4000
				long++
			}
		}
		slices.SortFunc(all, func(a, b request) int { return int(a.ends - b.ends) })
		folder, files := t.TempDir(), []string{}
		for i := range 1 + random.IntN(3) {
			files = append(files, filepath.Join(folder, fmt.Sprint(i)))
		}
		texts := make([]strings.Builder, len(files))
		for i, r := range all {
			texts[i*len(files)/len(all)].WriteString(endedLine(r.ends, r.took))
		}
		for i := range files {
			redistest.Must(t, os.WriteFile(files[i], []byte(texts[i].String()), 0o600))
		}
		// short requests of one second stand out of order too, by up to a second
		entries, s := readAll(t, Options{Files: files, Window: 40 + len(all)/20, LongRequests: true})
		redistest.FatalIf(t, s.Late > 0 || len(entries) != len(all), "%d late, %d of %d requests", s.Late, len(entries), len(all))
		for _, e := range entries {
			if took := float64(e.Ends-e.Time) / 1e6; !slices.ContainsFunc(all, func(r request) bool {
				return fmt.Sprintf("/%g", r.ends) == e.URI && r.took-took < 0.002 && took-r.took < 0.002
			}) {
				t.Fatalf("%+v took %g s", e, took)
			}
		}
	}
}
