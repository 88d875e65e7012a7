package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// during runs a server while a part of a job lasts, and returns the exit code with which it ends.
func (r *run) during(words []string, part func()) (exit int) {
	command := r.prepare(words...)
	var output bytes.Buffer // apart, since the part may write to the client's
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		r.check(err)
		return -1
	}
	part()
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM) // it may have exited
	_ = command.Wait()                                      // which says how it was ended
	r.output.Write(output.Bytes())
	return command.ProcessState.ExitCode()
}

// until waits for a condition, for 30 s at most.
func (r *run) until(what string, condition func() bool) {
	for range 600 {
		if condition() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.check(fmt.Errorf("waited in vain for %s", what))
}

// freeAddress returns an address at which a server of the job may listen.
func (r *run) freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.check(err)
		return ""
	}
	_ = listener.Close() // the server takes the port
	return listener.Addr().String()
}

// listens reports whether a server listens at an address.
func listens(address string) func() bool {
	return func() bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		_ = conn.Close() // the server sees a client that sends nothing
		return true
	}
}

// httrack returns the job of mirroring the index. Its first visit, which has another name, may be one without a limit.
func httrack(options string, visits ...string) func(r *run) outcome {
	return func(r *run) outcome {
		exit := 0
		for _, agent := range visits {
			words := append([]string{"httrack", r.url + "/", "-O", "copy", "--robots=0", "-c1", "-q", "-F", agent}, strings.Fields(options)...)
			if agent == "again" {
				words = append(words, "--update")
			}
			exit = r.command(words...)
		}
		return r.compare(filepath.Join(r.folder, "copy", strings.ReplaceAll(r.host(), ":", "_")), exit)
	}
}

// annexJob has git-annex check files of which it knows that the site has them, and counts those of which it still does.
func annexJob(words ...string) func(r *run) outcome {
	return func(r *run) outcome {
		git := []string{"GIT_CONFIG_NOSYSTEM=1", "git", "-C", "annex", "-c", "annex.security.allowed-ip-addresses=all"}
		do := func(words ...string) string { return r.must(append(git, words...)...) }
		r.must("git", "init", "-q", "annex")
		do("config", "user.name", "lab")
		do("config", "user.email", "lab@example.com")
		do("annex", "init", "lab")
		for i := range 5 {
			name := fmt.Sprintf("file%d.txt", i+1)
			r.write("annex/"+name, fmt.Sprintf("the content of file %d\n", i+1))
			do("annex", "add", "--force-large", name)
			do("annex", "registerurl", strings.TrimSpace(do("annex", "lookupkey", name)), r.url+"/"+name)
		}
		exit := r.command(append(append(git, "annex"), words...)...)
		known := strings.Count(do("annex", "find", "--in=web"), ".txt")
		return counted(exit, known, 5, "files known to be there")
	}
}

// valuesServer keeps the values of collectd, a line each.
func valuesServer(r *run) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		values, err := os.OpenFile(filepath.Join(r.served, "values"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = io.WriteString(values, readAll(q)) // what is missing is counted
			_ = values.Close()                        // likewise
		}
	})
}

// values is how many collectd is given.
const values = 200

// collectdJob returns the job of sending values by write_http, which sends them when its buffer is full and at its end.
func collectdJob(options string) func(r *run) outcome {
	return func(r *run) outcome {
		socket := filepath.Join(r.folder, "collectd.sock")
		r.write("collectd.conf", `Hostname "lab"
FQDNLookup false
PluginDir "/usr/lib/collectd"
TypesDB "/usr/share/collectd/types.db"
PIDFile "`+r.folder+`/collectd.pid"
LoadPlugin unixsock
LoadPlugin write_http
<Plugin unixsock>
  SocketFile "`+socket+`"
</Plugin>
<Plugin write_http>
  <Node "lab">
    URL "`+r.url+`/"
    `+options+`
  </Node>
</Plugin>
`)
		exit := r.during([]string{"collectd", "-f", "-C", "collectd.conf"}, func() {
			var conn net.Conn
			r.until("collectd", func() (ready bool) {
				var err error
				conn, err = net.Dial("unix", socket)
				return err == nil
			})
			if r.err != nil {
				return
			}
			defer conn.Close() //nolint:errcheck // all answers were read
			answers := bufio.NewReader(conn)
			ask := func(words string) string {
				_, err := fmt.Fprintln(conn, words)
				r.check(err)
				answer, err := answers.ReadString('\n')
				r.check(err)
				return answer
			}
			for i := range values {
				ask(fmt.Sprintf("PUTVAL lab/count/gauge-%d interval=10 N:%[1]d", i))
			}
			r.until("the values", func() bool { // collectd lists a value when it writes it
				n := 0
				_, err := fmt.Sscan(ask("LISTVAL"), &n)
				r.check(err)
				for range n {
					_, err := answers.ReadString('\n')
					r.check(err)
				}
				return n == values || r.err != nil
			})
		})
		text, _ := os.ReadFile(filepath.Join(r.served, "values")) // none without a value
		return counted(exit, strings.Count(string(text), "PUTVAL"), values, "values")
	}
}

// packagesFile is the index of the repository.
const packagesFile = "dists/lab/main/binary-amd64/Packages"

// gzippedRepository is the repository with a compressed index, the only one that apt-mirror reads.
func gzippedRepository(r *run) error {
	r.check(aptRepository(r))
	r.must("gzip", "-k", r.served+"/"+packagesFile)
	return r.err
}

// mirrorJob returns the job of mirroring the repository with these settings of wget. The site is apt-mirror's proxy, since
// it does not find the files of a site with a port in its name.
func mirrorJob(settings string) func(r *run) outcome {
	return func(r *run) outcome {
		r.write(".wgetrc", settings)
		r.write("mirror.list", "set base_path "+r.folder+"/mirror\nset nthreads 1\nset defaultarch amd64\nset _contents 0\n"+
			"set run_postmirror 0\nset use_proxy on\nset http_proxy "+r.url+"/\ndeb http://example.com lab main\n")
		exit := r.command("apt-mirror", "mirror.list")
		copied := r.folder + "/mirror/mirror/example.com/"
		index, _ := os.ReadFile(copied + packagesFile) // there may be none
		listed := strings.Count(string(index), "Package: ")
		return counted(exit, r.found("mirror/mirror/example.com/*.deb"), 2, fmt.Sprintf("packages, %d in the index", listed))
	}
}

// approxJob has apt fetch both packages from an approx, which fetches them from the site.
func approxJob(r *run) outcome {
	r.write("approx.conf", "$cache "+r.folder+"/approx\n$user root\n$group root\n$syslog user\nlab "+r.url+"\n")
	r.check(os.Mkdir(filepath.Join(r.folder, "approx"), 0o755))
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		r.check(err)
		return outcome{}
	}
	defer listener.Close() //nolint:errcheck // which ends what follows
	go func() {
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			go func() { // as inetd does
				defer conn.Close() //nolint:errcheck // approx has answered
				socket, err := conn.File()
				if err != nil {
					return
				}
				command := r.prepare("approx", "-c", "approx.conf")
				command.Stdin, command.Stdout = socket, socket
				_ = command.Run()  // apt sees what it does not answer
				_ = socket.Close() // likewise
			}()
		}
	}()
	return r.aptFetch("http://" + listener.Addr().String() + "/lab")
}

// haproxyJob returns the job of sending four calls through HAProxy.
func haproxyJob(options string) func(r *run) outcome {
	return func(r *run) outcome {
		address := r.freeAddress()
		r.write("haproxy.cfg", "defaults\n  mode http\n  timeout client 10s\n  timeout connect 5s\n  timeout server 10s\n"+
			"  retries 3\n  retry-on all-retryable-errors\nfrontend calls\n  bind "+address+"\n"+options+
			"  default_backend site\nbackend site\n  server site "+r.host()+"\n")
		done, exit := 0, 0
		r.during([]string{"haproxy", "-db", "-f", "haproxy.cfg"}, func() {
			r.until("HAProxy", listens(address))
			for i := range calls {
				if code := r.command("curl", "-fsS", "-d", "call", fmt.Sprintf("http://%s/%d", address, i)); code == 0 {
					done++
				} else {
					exit = code
				}
			}
		})
		return counted(exit, done, calls, "calls")
	}
}

// checksFor is how long monit checks the site.
const checksFor = 12 * time.Second

// monitJob returns the job of checking, each second, a service that is well.
func monitJob(check string) func(r *run) outcome {
	return func(r *run) outcome {
		_, port, _ := strings.Cut(r.host(), ":")
		r.write("monitrc", "set daemon 1\nset log "+r.folder+"/log\nset pidfile "+r.folder+"/pid\nset idfile "+r.folder+"/id\nset statefile "+
			r.folder+"/state\ncheck host lab with address 127.0.0.1\n  start program = \"/bin/sh -c 'echo start >> "+r.folder+"/starts'\"\n"+
			"  stop program = \"/bin/true\"\n  if failed port "+port+" protocol http "+check+" then restart\n")
		r.during([]string{"monit", "-I", "-c", "monitrc"}, func() { time.Sleep(checksFor) })
		starts, _ := os.ReadFile(filepath.Join(r.folder, "starts")) // none without a restart
		log, err := os.ReadFile(filepath.Join(r.folder, "log"))
		r.check(err)
		r.output.Write(log)
		n := strings.Count(string(starts), "start")
		return outcome{exit: min(n, 1), data: fmt.Sprintf("%d restarts of a service that is well", n), whole: n == 0}
	}
}

// losses are clients of which it was said that they lose data, or do harm, when they are refused.
func losses() []*client {
	unavailable := func(c *client) {
		c.name, c.options = "status 503: "+c.name, "algorithm sliding_window_log\nstatus 503"
	}
	return slices.Concat(mirrors(), []*client{
		collectd("", "BufferSize 1024", "sends values once, whatever the answer is: no status prevents the loss"),
		with(collectd("", "BufferSize 1024", "as at 429"), unavailable),
		with(collectd(", BufferSize", "BufferSize 1048576", "a larger buffer makes fewer requests, and values late"), func(c *client) {
			c.spared = true
		}),
		haproxy("", "", "retries 500, 502, 503 and 504"),
		with(haproxy("", "", "retries POST too, at once: keep 429"), unavailable),
		with(haproxy(", disable-l7-retry", "  http-request disable-l7-retry if METH_POST\n", ""), unavailable),
		monit("", "", "restarts the service at each refused check, by whatever status"),
		monit(", for 3 cycles", "for 3 cycles", "holds unless three checks in turn are refused"),
		monit(", status < 500", "status < 500", "takes 429 for well, and 404"),
	})
}

// mirrors are programs that keep copies of a site.
func mirrors() []*client {
	track := func(name, options, note string, visits ...string) *client {
		c := &client{
			name: name, program: "httrack", install: "httrack", version: []string{"dpkg-query", "-W", "httrack"}, files: fiveFiles,
			job: httrack(options, visits...), note: note,
		}
		if len(visits) > 1 {
			c.matcher = "header User-Agent again"
		}
		return c
	}
	annex := func(name string, words ...string) *client {
		return &client{
			name: "git-annex fsck --from web" + name, program: "git-annex", install: "git-annex",
			version: []string{"git-annex", "version", "--raw"}, files: filesWithoutIndex, job: annexJob(words...),
		}
	}
	apt := func(name, settings, note string) *client {
		return &client{
			name: "apt-mirror" + name, program: "apt-mirror wget", install: "apt-mirror", version: []string{"dpkg-query", "-W", "apt-mirror"},
			limit: "5 3s", files: gzippedRepository, job: mirrorJob(settings), note: note,
		}
	}
	return []*client{
		track("httrack", "", "stores the refusal as the file, by whatever status; the reason is in hts-log.txt", "once"),
		track("httrack -o0", "-o0", "stores no refusal, leaves the file out", "once"),
		track("httrack --update", "", "puts the refusal in place of the file that it had", "once", "again"),
		track("httrack -o0 --update", "-o0", "deletes the file that it had", "once", "again"),
		track("httrack -o0 -X0 --update", "-o0 -X0", "keeps the file that it had", "once", "again"),
		with(annex("", "fsck", "--from=web", "--fast"), func(c *client) {
			c.note = "notes that the site no longer has the file whose HEAD is refused, by whatever status"
		}),
		with(annex(", no limit for HEAD", "fsck", "--from=web"), func(c *client) {
			c.matcher, c.note = "not method HEAD", "fails, but forgets nothing"
		}),
		apt("", "", "its index lists packages that it has not; the reason is in its var/archive-log.*"),
		apt(", retry_on_http_error", "retry_on_http_error = 429\n", "its wget reads ~/.wgetrc, and no Retry-After"),
		{
			name: "approx", program: "approx apt-get", install: "approx", version: []string{"dpkg-query", "-W", "approx"}, files: aptRepository,
			job: approxJob, note: "answers 404 for any refusal, so apt does not try again",
		},
	}
}

// collectd is a client with these options of write_http.
func collectd(name, options, note string) *client {
	return &client{
		name: "collectd write_http" + name, program: "collectd /usr/lib/collectd/write_http.so", install: "collectd-core",
		version: []string{"dpkg-query", "-W", "collectd-core"}, backend: valuesServer, job: collectdJob(options), note: note,
	}
}

// haproxy is a client that sends calls through a HAProxy with these options of its front end.
func haproxy(name, options, note string) *client {
	return &client{
		name: "HAProxy retry-on" + name, program: "haproxy curl", install: "haproxy", version: []string{"haproxy", "-v"},
		backend: accepted, job: haproxyJob(options), note: note,
	}
}

// monit is a client with this end of its test.
func monit(name, check, note string) *client {
	return &client{
		name: "monit" + name, program: "monit", install: "monit", version: []string{"monit", "--version"}, files: fiveFiles,
		job: monitJob(check), note: note,
	}
}
