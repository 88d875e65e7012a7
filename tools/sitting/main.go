// Command sitting counts the functions, files and packages of the module that one request runs, and fails where they
// are more than the file of bounds allows:
//
//	go -C tools run ./sitting -list redis ..
//
// A Caddy with the module serves one policy, answers warm requests, clears Go's coverage counters, answers one
// more and writes them. What also runs in a server that gets no request does not count. Each case is the least of
// several runs: where a core is busy, more timers run. It needs redis-server, but for the case without Redis.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// program is the source of the command that is measured.
//
//go:embed program.go.txt
var program []byte

// module is the path of the measured module.
const module = "github.com/redis-ratelimit/caddy-redis-ratelimit"

// scenario is a kind of request.
type scenario struct {
	name   string
	redis  bool
	policy string // the policy's lines in the directive
	warm   string // how many requests come before the measured one: of a policy that meets more than 256, few are in the sample of its usage
}

var scenarios = []scenario{
	{"process", false, "limit 100000\nwindow 1h", "300"},
	{"redis", true, "limit 100000\nwindow 1h", "300"},
	{"denied", true, "limit 3\nwindow 1h", "20"},
	{"running", true, "max_concurrent 1000", "300"},
	{"count_if", true, "limit 100000\nwindow 1h\ncount_if status 4xx", "300"},
}

func main() {
	path := flag.String("bounds", "sitting.txt", "the `file` of bounds: lines of case, functions, files and packages")
	runs := flag.Int("runs", 11, "how often each case runs")
	list := flag.String("list", "", "print the functions of one run of this `case`")
	flag.Parse()
	if err := measure(*path, *runs, *list, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measure counts every case and compares the counts with the bounds.
func measure(path string, runs int, list, root string) error {
	bounds, err := readBounds(path)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "sitting")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	binary, err := build(root, temp)
	if err != nil {
		return err
	}
	redis, stop, err := startRedis(temp)
	if err != nil {
		return err
	}
	defer stop()
	var broken []string
	fmt.Printf("%-10s %9s %6s %9s\n", "case", "functions", "files", "packages")
	for _, s := range scenarios {
		if list != "" && s.name != list {
			continue
		}
		c, ran, err := s.count(binary, temp, redis, runs)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("%-10s %9d %6d %9d\n", s.name, c[0], c[1], c[2])
		if list != "" {
			fmt.Println(strings.Join(ran, "\n"))
		}
		most, bounded := bounds[s.name]
		for i, unit := range [3]string{"functions", "files", "packages"} {
			if bounded && c[i] > most[i] {
				broken = append(broken, fmt.Sprintf("%s: %d %s, at most %d", s.name, c[i], unit, most[i]))
			}
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("more than %s allows:\n%s", path, strings.Join(broken, "\n"))
	}
	return nil
}

// counts are functions, files and packages.
type counts [3]int

// readBounds reads the most of each case.
func readBounds(path string) (map[string]counts, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bounds := map[string]counts{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var c counts
		if _, err := fmt.Sscan(line, &name, &c[0], &c[1], &c[2]); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		bounds[name] = c
	}
	return bounds, nil
}

// build builds the program with counters, in a module of its own that takes the measured one from its folder.
func build(root, temp string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	needs, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", err
	}
	needs = bytes.Replace(needs, []byte("module "+module), []byte("module sitting"), 1)
	needs = fmt.Appendf(needs, "\nrequire %s v0.0.0\nreplace %[1]s => %s\n", module, root)
	for name, content := range map[string][]byte{"go.mod": needs, "go.sum": sums, "main.go": program} {
		if err := os.WriteFile(filepath.Join(temp, name), content, 0o600); err != nil {
			return "", err
		}
	}
	binary := filepath.Join(temp, "sitting")
	command := exec.Command("go", "build", "-mod=mod", "-cover", "-covermode=atomic", "-coverpkg=.,"+module+"/...", "-o", binary, ".")
	command.Dir, command.Stderr = temp, os.Stderr
	return binary, command.Run()
}

// startRedis starts a Redis that keeps nothing, and returns its address.
func startRedis(temp string) (address string, stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", temp)
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	address = net.JoinHostPort("127.0.0.1", port)
	for end := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			return address, stop, nil
		}
		if time.Now().After(end) {
			stop()
			return "", nil, errors.New("redis-server does not listen")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// count runs a scenario several times and returns the least of each count, and what the last run ran. What one idle server
// has run in the background counts in no run.
func (s scenario) count(binary, temp, redis string, runs int) (counts, []string, error) {
	background := map[string]bool{}
	served := make([][]string, runs)
	for i := range served {
		idle, err := s.run(binary, temp, redis, true)
		if err != nil {
			return counts{}, nil, err
		}
		for _, line := range idle {
			background[line] = true
		}
		if served[i], err = s.run(binary, temp, redis, false); err != nil {
			return counts{}, nil, err
		}
	}
	var all [3][]int
	for i, ran := range served {
		ran = slices.DeleteFunc(ran, func(line string) bool { return background[line] })
		files, packages := map[string]bool{}, map[string]bool{}
		for _, line := range ran {
			file, _, _ := strings.Cut(line, ":")
			files[file], packages[filepath.Dir(file)] = true, true
		}
		served[i] = ran
		for unit, n := range (counts{len(ran), len(files), len(packages)}) {
			all[unit] = append(all[unit], n)
		}
	}
	var least counts
	for unit, list := range all {
		least[unit] = slices.Min(list)
	}
	return least, served[runs-1], nil
}

// run runs the program once and returns its functions that ran, as file:line: name, sorted.
func (s scenario) run(binary, temp, redis string, idle bool) ([]string, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	store := ""
	if s.redis {
		store = "redis redis://" + redis + "\n"
	}
	caddyfile := filepath.Join(temp, "Caddyfile")
	text := fmt.Sprintf("{\nadmin off\nhttp_port %s\nredis_ratelimit {\n%s}\n}\nhttp://127.0.0.1:%[1]s {\nredis_ratelimit {\nname p\n%[3]s\n}\nrespond 200\n}\n", port, store, s.policy)
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp(temp, "counters")
	if err != nil {
		return nil, err
	}
	arguments := []string{caddyfile, "http://127.0.0.1:" + port + "/", s.warm, folder}
	if idle {
		arguments = append(arguments, "idle")
	}
	command := exec.Command(binary, arguments...)
	command.Env = append(os.Environ(), "GOCOVERDIR="+folder, "XDG_CONFIG_HOME="+temp, "XDG_DATA_HOME="+temp)
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	table, err := exec.Command("go", "tool", "covdata", "func", "-i="+folder).Output()
	if err != nil {
		return nil, err
	}
	var ran []string
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line) // file:line: function percent
		if len(fields) == 3 && fields[2] != "0.0%" && strings.HasPrefix(fields[0], module) {
			ran = append(ran, strings.TrimPrefix(fields[0], module+"/")+" "+fields[1])
		}
	}
	slices.Sort(ran)
	return ran, nil
}
