// Command parsers sends ambiguous requests to web frameworks and compares the values that they read with those that this
// module tells:
//
//	go run ./parsers [-write] [-v] [-sample text] [server]...
//
// The rule is that a value counts only if all parsers that read the body at all read this one. The command fails if one
// reads another value, or reads one where this module says that there is none; disagreements that do no harm are in
// known.go, with the reason. Frameworks are installed below .build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

func main() {
	h := &harness{}
	write := flag.Bool("write", false, "write results.md")
	flag.BoolVar(&h.verbose, "v", false, "print all answers")
	flag.StringVar(&h.only, "sample", "", "send only samples whose names have this `text`")
	parallel := flag.Int("parallel", 6, "run so `many` servers at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := h.run(ctx, flag.Args(), *parallel, *write)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// harness runs the servers and gathers what they answer.
type harness struct {
	workshop *frameworks.Workshop
	verbose  bool
	only     string

	samples []sample
	fields  []told // by sample, of those that ask for a field
	paths   []told // by sample, of those that ask for a path

	mu     sync.Mutex
	rows   map[*server]row
	found  []disagreement
	broken []string
}

// row is what the table says of a server.
type row struct {
	version   string
	ways      int
	asked     int // requests
	accepted  int // those that were not refused
	equal     int // those with the value that is told
	stricter  int // those with a value where none is told
	differing int
}

// run runs the servers of these names, all without names.
func (h *harness) run(ctx context.Context, names []string, parallel int, write bool) error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	h.workshop = &frameworks.Workshop{
		Parsers: filepath.Join(root, "parsers"), Built: filepath.Join(root, ".build", "parsers"), Node: "node", Go: ".",
	}
	h.rows = map[*server]row{}
	if err := h.read(); err != nil {
		return err
	}
	chosen := list()
	if len(names) > 0 {
		chosen = slices.DeleteFunc(chosen, func(s *server) bool {
			return !slices.Contains(names, s.name) && !slices.Contains(names, s.String())
		})
	}
	if len(chosen) == 0 || write && (len(names) > 0 || h.only != "") {
		return errors.New("no server is called so, or -write is not for some alone")
	}
	if err := h.workshop.Install(ctx, programs(list()), programs(chosen)); err != nil {
		return err
	}
	next := make(chan *server)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for s := range next {
				h.meet(ctx, s)
			}
		})
	}
	for _, s := range chosen {
		next <- s
	}
	close(next)
	all.Wait()
	if write && len(h.broken) == 0 {
		if err := h.writeResults(filepath.Join(h.workshop.Parsers, "results.md")); err != nil {
			return err
		}
	}
	return h.report(len(names) == 0 && h.only == "")
}

// read reads the samples as this module does.
func (h *harness) read() (err error) {
	for _, s := range corpus() {
		if !strings.Contains(s.name, h.only) {
			continue
		}
		var field, path told
		if s.field != "" {
			if field, err = readField(&s); err != nil {
				return err
			}
		}
		if s.path != "" {
			if path, err = readPath(&s); err != nil {
				return err
			}
		}
		h.samples, h.fields, h.paths = append(h.samples, s), append(h.fields, field), append(h.paths, path)
	}
	return nil
}

// meet runs a server and asks it for all samples.
func (h *harness) meet(ctx context.Context, s *server) {
	begin := time.Now()
	w, found, err := h.runServer(ctx, s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.broken = append(h.broken, fmt.Sprintf("%s: %v", s, err))
		return
	}
	h.rows[s] = w
	h.found = append(h.found, found...)
	fmt.Printf("%-60s %6d answers in %5.1f s, %d differ; %s\n", s, w.asked, time.Since(begin).Seconds(), w.differing, w.version)
}

func (h *harness) runServer(ctx context.Context, s *server) (w row, found []disagreement, err error) {
	r, err := h.workshop.Start(ctx, s.program())
	if err != nil {
		return w, nil, err
	}
	defer r.Stop()
	w.version, w.ways = r.Version, len(s.forms)+len(s.documents)
	for i := range h.samples {
		if ctx.Err() != nil {
			return w, nil, ctx.Err()
		}
		sample := &h.samples[i]
		for _, way := range s.forms {
			if sample.field != "" {
				d, err := h.ask(r, s, way, i, sample.field)
				if err != nil {
					return w, nil, err
				}
				found = w.count(found, d)
			}
		}
		for _, way := range s.documents {
			if sample.path != "" {
				d, err := h.ask(r, s, way, i, sample.path)
				if err != nil {
					return w, nil, err
				}
				found = w.count(found, d)
			}
		}
	}
	return w, found, nil
}

// ask asks a way for a sample. The disagreement is one only if the verdict is.
func (h *harness) ask(r *frameworks.Running, s *server, way string, i int, asked string) (disagreement, error) {
	sample := &h.samples[i]
	a, err := ask(r, sample, way, asked)
	if err != nil {
		return disagreement{}, fmt.Errorf("%s, asked for %q of %s: %w", way, asked, sample.name, err)
	}
	d := disagreement{sample: sample, told: h.toldFor(i, asked), server: s.name, way: way, answer: a}
	if h.verbose {
		fmt.Printf("%s, %s: %s: %s, told %s\n", s, way, sample.name, a, d.told)
	}
	return d, nil
}

// toldFor returns what is told of a sample. Of one whose field and path are both asked it is what either one tells: an
// application may read the body by its own choice, whatever the type says.
func (h *harness) toldFor(i int, asked string) told {
	field, path := h.fields[i], h.paths[i]
	switch s := &h.samples[i]; {
	case s.field == "":
		return path
	case s.path == "", field.kind == toldText:
		return field
	case path.kind == toldText, asked == s.path && asked != s.field:
		return path
	case path.kind == toldAbsent:
		return path
	}
	return field
}

// count adds a verdict to the row, and a disagreement to those that were found.
func (w *row) count(found []disagreement, d disagreement) []disagreement {
	w.asked++
	v := judge(d.told, d.answer)
	if v != verdictRefused {
		w.accepted++
	}
	switch v {
	case verdictEqual:
		w.equal++
	case verdictStricter:
		w.stricter++
	case verdictDiffers:
		w.differing++
		d.reason = reasonFor(&d)
		found = append(found, d)
	case verdictRefused, verdictNone:
	}
	return found
}

// report returns what is wrong: servers that did not run, disagreements that may do harm, and, after a run of all, reasons
// that were not met.
func (h *harness) report(whole bool) error {
	wrong := slices.Clone(h.broken)
	met := map[string]bool{}
	for _, d := range h.found {
		met[d.reason] = true
		if d.reason == "" {
			wrong = append(wrong, fmt.Sprintf("%s, %s: %s: told %s, read %s", d.server, d.way, d.sample.name, d.told, d.answer))
		}
	}
	for _, k := range harmless {
		if whole && !met[k.reason] {
			wrong = append(wrong, "known.go has a disagreement that was not met: "+k.reason)
		}
	}
	fmt.Printf("%d samples, %d servers, %d disagreements\n", len(h.samples), len(h.rows), len(h.found))
	if len(wrong) > 0 {
		return errors.New("wrong:\n" + strings.Join(wrong, "\n"))
	}
	return nil
}
