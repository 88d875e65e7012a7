package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Count is how many there were of something, and how many were as they should be.
type Count struct{ Good, All int }

func (c *Count) add(good bool) {
	c.All++
	if good {
		c.Good++
	}
}

func (c Count) plus(d Count) Count { return Count{c.Good + d.Good, c.All + d.All} }

// percent returns the part of the good ones, and reports whether there were any.
func (c Count) percent() (percent float64, ok bool) {
	if c.All == 0 {
		return 0, false
	}
	return 100 * float64(c.Good) / float64(c.All), true
}

// String returns the part of the good ones in whole percent.
func (c Count) String() string {
	percent, ok := c.percent()
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.0f", percent)
}

// Group is what people of a kind got.
type Group struct {
	Pages   Count // clicks whose page came soon
	Fast    Count // within a second
	Late    Count // within their patience
	Visits  Count // that were finished
	Waited  int   // pages that waited, on all clicks
	Refused int   // answers that were no page, on all clicks
}

func (g Group) plus(h Group) Group {
	return Group{
		g.Pages.plus(h.Pages), g.Fast.plus(h.Fast), g.Late.plus(h.Late), g.Visits.plus(h.Visits), g.Waited + h.Waited, g.Refused + h.Refused,
	}
}

// Result is what a run measured, or several together. It has no time of day.
type Result struct {
	Contender, Flood string
	Seed             uint64           // of a run
	Runs             int              // that count
	Load             float64          // of the machine while it was measured, a core; of several runs the highest
	Void             int              // runs on a machine too busy to count
	People           map[kind]Group   // by what they come with
	Programs         map[string]Count // calls whose answer came soon, by name
	Bots             Count            // requests that got pages
	Seconds          float64          // of all that counts
	Work             map[string]time.Duration
	CPU              time.Duration // of all Caddys
	Memory           int64         // the most of a Caddy, in bytes
}

// everyone returns what all people got.
func (r Result) everyone() (all Group) {
	for _, g := range r.People {
		all = all.plus(g)
	}
	return all
}

// toPeople returns the part of the backend's work that was for people.
func (r Result) toPeople() Count {
	var all time.Duration
	for _, w := range r.Work {
		all += w
	}
	return Count{int(r.Work[ofPerson].Milliseconds()), int(all.Milliseconds())}
}

// String is a line on a run.
func (r Result) String() string {
	all := r.everyone()
	var line strings.Builder
	fmt.Fprintf(&line, "%-16s %-2s seed %d: pages %3s, visits %3s of %d, known %s/%s, no cookies %s/%s, text browsers %s/%s,",
		r.Contender, r.Flood, r.Seed, all.Pages, all.Visits, all.Visits.All, r.People[known].Pages, r.People[known].Visits,
		r.People[noCookies].Pages, r.People[noCookies].Visits, r.People[textBrowser].Pages, r.People[textBrowser].Visits)
	for _, name := range wanted {
		fmt.Fprintf(&line, " %s %s,", name, r.Programs[name])
	}
	fmt.Fprintf(&line, " work to people %s, bots' pages %.1f/s of %.0f, Caddy %.0f %% of a core and %d MB, load %.1f a core", r.toPeople(),
		float64(r.Bots.Good)/r.Seconds, float64(r.Bots.All)/r.Seconds, 100*r.CPU.Seconds()/r.Seconds, r.Memory>>20, r.Load)
	if r.Void > 0 {
		line.WriteString(": void")
	}
	return line.String()
}

// appendResult appends a result to a file, if there is one.
func appendResult(file string, r Result) error {
	if file == "" {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		_ = out.Close() // the first error tells more
		return err
	}
	return out.Close()
}

// readResults reads what appendResult has written.
func readResults(file string) (results []Result, err error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		results = append(results, r)
	}
	return results, nil
}
