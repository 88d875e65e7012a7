// Command identity sends requests, in which one value is spelled in many ways, through a Caddy to web frameworks, and
// compares what these read with the keys that this module makes of the same requests:
//
//	go run ./parsers/identity [-write] [-v] [-kept] [server]...
//
// The rule is that inputs of which a reader has one value have one key or none, and that no reader has a value of an input
// that is left out as one without. The command fails if a reader has; disagreements that do no harm are in known.go, with
// the reason. Frameworks are installed below .build.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	flag.BoolVar(&h.write, "write", false, "write results.md, and the table of the command try")
	flag.BoolVar(&h.verbose, "v", false, "print all answers")
	flag.BoolVar(&h.kept, "kept", false, "judge the answers of the last run, of servers that have some")
	parallel := flag.Int("parallel", 3, "run so `many` servers at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := h.run(ctx, flag.Args(), *parallel)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// harness runs the servers and gathers what they answer.
type harness struct {
	workshop             *frameworks.Workshop
	write, verbose, kept bool

	inputs []input
	told   []map[string]told // by input and policy
	caddy  string            // its version

	mu     sync.Mutex
	sheets map[*server]sheet
	broken []string
}

// sheet is what a run has found out about a server.
type sheet struct {
	version string
	day     string // on which the server was asked
	read    int    // values
	rows    []row
	found   []disagreement
	alike   []spelling
}

// run runs the servers of these names, all without names.
func (h *harness) run(ctx context.Context, names []string, parallel int) error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	h.workshop = &frameworks.Workshop{
		Parsers: filepath.Join(root, "parsers"), Built: filepath.Join(root, ".build", "identity"), Node: "identity/node", Go: "./identity",
	}
	h.inputs, h.sheets = corpus(), map[*server]sheet{}
	all := list()
	chosen := slices.DeleteFunc(slices.Clone(all), func(s *server) bool {
		return len(names) > 0 && !slices.Contains(names, s.Name) && !slices.Contains(names, s.String())
	})
	if len(chosen) == 0 || h.write && len(names) > 0 {
		return errors.New("no server is called so, or -write is not for some alone")
	}
	if err := h.workshop.Install(ctx, programs(all), programs(chosen)); err != nil {
		return err
	}
	if err := h.workshop.Build(ctx, root, "./parsers/identity/caddy", "caddy"); err != nil {
		return err
	}
	if err := h.askCaddy(ctx); err != nil {
		return err
	}
	next := make(chan *server)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for s := range next {
				h.meet(ctx, s)
			}
		})
	}
	for _, s := range chosen {
		next <- s
	}
	close(next)
	workers.Wait()
	if h.write && len(h.broken) == 0 {
		if err := h.writeTables(root); err != nil {
			return err
		}
	}
	return h.report(len(names) == 0)
}

// askCaddy asks what this module makes of the inputs.
func (h *harness) askCaddy(ctx context.Context) error {
	caddy, err := h.workshop.Start(ctx, caddyProgram("Told.caddyfile"))
	if err != nil {
		return err
	}
	defer caddy.Stop()
	h.caddy = caddy.Version
	h.told, err = tell(caddy, h.inputs)
	return err
}

// meet runs a server and asks it for all inputs.
func (h *harness) meet(ctx context.Context, s *server) {
	begin := time.Now()
	a, err := h.answersOf(ctx, s)
	var met sheet
	if err == nil {
		met = sheet{version: a.Version, day: a.Day}
		met.rows, met.found = judge(s, a.Readings, h.inputs, h.told)
		met.alike = spellingsOf(a.Readings, h.inputs)
		for _, values := range a.Readings {
			met.read += len(values)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.broken = append(h.broken, fmt.Sprintf("%s: %v", s, err))
		return
	}
	h.sheets[s] = met
	fmt.Printf("%-30s %5d values in %5.1f s, %d disagreements; %s\n", s, met.read, time.Since(begin).Seconds(), len(met.found), met.version)
	if h.verbose {
		h.print(a.Readings)
	}
}

// answers are what a server has answered, as they are kept for another run.
type answers struct {
	Version  string
	Day      string
	Inputs   string // a hash of them
	Readings readings
}

func (h *harness) answersOf(ctx context.Context, s *server) (a answers, err error) {
	file := filepath.Join(h.workshop.Built, "answers", strings.NewReplacer("/", "-", " ", "-").Replace(s.String())+".json")
	if text, err := os.ReadFile(file); h.kept && err == nil && json.Unmarshal(text, &a) == nil && a.Inputs == h.sum() {
		return a, nil
	}
	if a, err = h.runServer(ctx, s); err != nil {
		return a, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return a, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return a, err
	}
	return a, os.WriteFile(file, text, 0o600)
}

func (h *harness) runServer(ctx context.Context, s *server) (a answers, err error) {
	r, err := h.workshop.Start(ctx, &s.Program)
	if err != nil {
		return a, err
	}
	defer r.Stop()
	proxy, err := h.startProxy(ctx, s, r.Address)
	if err != nil {
		return a, err
	}
	defer proxy.Stop()
	a.Inputs = h.sum()
	a.Version, a.Day = r.Version, time.Now().Format(time.DateOnly)
	a.Readings, err = s.readAll(proxy, h.inputs)
	return a, r.OrEnded(err)
}

// sum returns a hash of the inputs.
func (h *harness) sum() string {
	sum := sha256.New()
	for i := range h.inputs {
		_, _ = sum.Write(h.inputs[i].request(ownPath)) // a hash takes all
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// print prints what readers have of all inputs.
func (h *harness) print(all readings) {
	for reader, values := range all {
		for number := range h.inputs {
			if value, ok := values[number]; ok {
				fmt.Printf("\t%s: %s: %s\n", reader, h.inputs[number].name(), quoteShort(value))
			}
		}
	}
}

// report returns what is wrong: servers that did not run, disagreements that may do harm, and, after a run of all, reasons
// that were not met.
func (h *harness) report(whole bool) error {
	wrong := slices.Clone(h.broken)
	met := map[string]bool{}
	found := h.disagreements()
	for _, d := range found {
		met[d.reason] = true
		if d.reason == "" {
			wrong = append(wrong, d.String())
		}
	}
	for _, k := range harmless {
		if whole && !met[k.reason] {
			wrong = append(wrong, "known.go has a disagreement that was not met: "+k.reason)
		}
	}
	fmt.Printf("%d inputs, %d servers, %d disagreements\n", len(h.inputs), len(h.sheets), len(found))
	if len(wrong) > 0 {
		return errors.New("wrong:\n" + strings.Join(wrong, "\n"))
	}
	return nil
}

// disagreements returns those of all servers in their order.
func (h *harness) disagreements() (all []disagreement) {
	for _, met := range h.sheets {
		all = append(all, met.found...)
	}
	slices.SortStableFunc(all, disagreement.compare)
	return all
}
