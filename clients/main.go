// Command clients runs real clients against a limit of the real Caddy, each at a job that meets it, and compares what
// they do with the table in results.md. It fails if a client does worse than the table says:
//
//	go run ./clients [-write] [-v] [client]...
//
// Clients that are not installed are skipped. The packages of node/ and the programs of gosdk/ are installed into .build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	write := flag.Bool("write", false, "write what the clients do into the table instead of comparing")
	verbose := flag.Bool("v", false, "print what the clients print, and the requests that they send")
	parallel := flag.Int("parallel", 3, "run so `many` clients at once; most of them wait")
	table := flag.String("table", "results.md", "the `page` with the table, in the folder clients")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	root, err := filepath.Abs(".")
	if err == nil {
		b := &bench{root: root, built: filepath.Join(root, ".build", "clients"), table: filepath.Join(root, "clients", *table)}
		b.verbose = *verbose
		err = b.run(ctx, flag.Args(), *parallel, *write)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bench runs the clients.
type bench struct {
	root, built, table string
	verbose            bool

	mu      sync.Mutex
	rows    []row
	ran     int
	skipped []string // clients that are not installed
	missing []string // Debian's packages
	broken  []string // clients that could not be run, or do worse
}

// run runs the clients of these names, all without names.
func (b *bench) run(ctx context.Context, names []string, parallel int, write bool) error {
	before, known, after, err := readTable(b.table)
	if err != nil {
		return err
	}
	chosen := list()
	for _, name := range names {
		if !slices.ContainsFunc(chosen, func(c *client) bool { return c.name == name }) {
			return fmt.Errorf("no client is called %q", name)
		}
	}
	if len(names) > 0 {
		chosen = slices.DeleteFunc(chosen, func(c *client) bool { return !slices.Contains(names, c.name) })
	}
	if err := buildCaddy(ctx, b.root, b.built); err != nil {
		return err
	}
	b.install(ctx)
	next := make(chan *client)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for c := range next {
				b.meet(ctx, c, known, write)
			}
		})
	}
	for _, c := range chosen {
		next <- c
	}
	close(next)
	all.Wait()
	if write {
		for _, w := range known {
			if !slices.ContainsFunc(b.rows, func(ran row) bool { return ran.client == w.client }) {
				b.rows = append(b.rows, w)
			}
		}
		if err := writeTable(b.table, before, b.rows, after); err != nil {
			return err
		}
	}
	return b.report()
}

// report tells what was skipped, and returns what is wrong.
func (b *bench) report() error {
	fmt.Printf("%d clients ran, %d were skipped\n", b.ran, len(b.skipped))
	if len(b.skipped) > 0 {
		fmt.Println("skipped, since they are not installed:", strings.Join(b.skipped, "; "))
	}
	if len(b.missing) > 0 {
		fmt.Println("Debian has some of them: apt-get install", strings.Join(b.missing, " "))
	}
	if len(b.broken) > 0 {
		return fmt.Errorf("wrong:\n%s", strings.Join(b.broken, "\n"))
	}
	return nil
}

// meet runs a client, and once more if it does worse than the table says: the machine may have been slow.
func (b *bench) meet(ctx context.Context, c *client, known []row, write bool) {
	if !c.installed(b.built) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.skipped = append(b.skipped, c.name)
		if !strings.HasPrefix(c.install, "(") && !slices.Contains(b.missing, c.install) {
			b.missing = append(b.missing, c.install)
		}
		return
	}
	i := slices.IndexFunc(known, func(w row) bool { return w.client == c.name })
	var w row
	var wrong string
	for range 2 {
		var err error
		wrong = ""
		if w, err = b.runOnce(ctx, c); err != nil {
			wrong = err.Error()
		} else if i >= 0 && !write {
			wrong = w.worse(known[i])
		} else if i < 0 && !write {
			wrong = "the table does not have it"
		}
		if wrong == "" || ctx.Err() != nil {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ran++
	if w.client != "" {
		fmt.Println(w)
	}
	if wrong != "" {
		b.broken = append(b.broken, c.name+": "+wrong)
		return
	}
	b.rows = append(b.rows, w)
}

// longest bounds a job.
const longest = 100 * time.Second

// runOnce runs a client at its job.
func (b *bench) runOnce(ctx context.Context, c *client) (w row, err error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	folder, err := os.MkdirTemp("", "client")
	if err != nil {
		return w, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // what is left of it is in the folder of temporary files
	r := &run{client: c, ctx: ctx, root: b.root, built: b.built}
	r.folder, r.served = filepath.Join(folder, "home"), filepath.Join(folder, "served")
	for _, name := range []string{r.folder, r.served} {
		if err := os.Mkdir(name, 0o755); err != nil {
			return w, err
		}
	}
	version := r.findVersion()
	stopBackend := r.serveBackend()
	defer stopBackend()
	if r.err != nil {
		return w, r.err
	}
	stopCaddy, err := r.startCaddy()
	if err != nil {
		return w, err
	}
	o := r.job(r)
	log := stopCaddy()
	requests, err := readLog(log)
	if b.verbose {
		b.print(r, requests)
	}
	if r.err != nil {
		err = r.err
	}
	if err != nil {
		return w, err
	}
	v := visitOf(requests)
	w = newRow(r, version, time.Now().UTC().Format(time.DateOnly), o, v)
	if v.refused == 0 && !c.spared {
		return w, fmt.Errorf("no request of %d was refused:\n%s", v.sent, r.output.Bytes())
	}
	return w, nil
}

// print prints what a client printed and what it sent.
func (b *bench) print(r *run, requests []request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Printf("== %s\n%s\n", r.name, r.output.Bytes())
	for _, q := range requests {
		fmt.Printf("  %6.2f %-6s %d %-8s %s", q.Begin-requests[0].Begin, q.Request.Method, q.Status, q.Decision, q.Request.URI)
		if q.refused() {
			fmt.Printf(" (%v s; %s)", q.told(), q.form())
		}
		fmt.Println()
	}
}
