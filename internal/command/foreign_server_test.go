package command

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// serve returns the address of a server whose replies a function writes. It gets the words of a command, the
// first in lower case. Without a reply the connection is closed.
func serve(t *testing.T, reply func(words []string) string) (address string) {
	t.Helper()
	listener := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() }) // the test is over
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // the client is gone
				reader := bufio.NewReader(conn)
				for words := readCommand(reader); words != nil; words = readCommand(reader) {
					text := reply(words)
					if text == "" {
						return
					}
					_, _ = io.WriteString(conn, text) // or the client is gone
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// readCommand reads an array of strings, nil at the end.
func readCommand(reader *bufio.Reader) []string {
	length := func() int {
		line, _ := reader.ReadString('\n')
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimLeft(line, "*$")))
		return n
	}
	words := make([]string, length())
	for i := range words {
		word := make([]byte, length()+2)
		if _, err := io.ReadFull(reader, word); err != nil {
			return nil
		}
		words[i] = string(word[:len(word)-2])
	}
	if len(words) == 0 {
		return nil
	}
	words[0] = strings.ToLower(words[0])
	return words
}

const (
	unknownCommand = "-ERR unknown command\r\n"
	noScript       = "-NOSCRIPT No matching script. Please use EVAL.\r\n"
)

func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

// foreign returns a reply function of a server that decides nothing: its scripts fail with an error.
func foreign(hello, info, scriptError string) func(words []string) string {
	return func(words []string) string {
		switch words[0] {
		case "hello":
			return hello
		case "info":
			return info
		case "evalsha":
			return noScript
		case "eval":
			if strings.HasPrefix(words[1], "return") {
				return ":1\r\n"
			}
			return scriptError
		case "ping":
			return "+PONG\r\n"
		}
		return "+OK\r\n"
	}
}

// answers is a reply to HELLO of a server that is called that.
func answers(server, version string) string {
	return "*8\r\n" + bulk("server") + bulk(server) + bulk("version") + bulk(version) + bulk("mode") + bulk("standalone") + bulk("role") + bulk("master")
}

func TestRun_foreignServers(t *testing.T) {
	for name, test := range map[string]struct {
		reply func(words []string) string
		want  map[string]string // result, detail and advice by check
	}{
		"Redis 5": {
			foreign(unknownCommand, bulk("# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n# Replication\r\nrole:master\r\n"), "-ERR syntax error\r\n"),
			map[string]string{
				"version":  "failed Redis 5.0.14 is too old; install Redis 6.0 or later",
				"writable": "ok a master",
				"script":   "failed sliding_window_counter: rate limit store could not decide: this server does not know KEEPTTL of SET, which Redis has since 6.0: ERR syntax error; see the check of the version",
			},
		},
		"Redis 6.0 without permissions": {
			foreign("-NOPERM this user has no permissions to run the 'hello' command or its subcommand\r\n", "-NOPERM this user has no permissions to run the 'info' command or its subcommand\r\n", "-OOM command not allowed\r\n"),
			map[string]string{
				"reachable": "ok ",
				"version":   "warning unknown: the server does not report it; see the check of the script",
				"script":    "failed sliding_window_counter: rate limit store could not decide: OOM command not allowed",
			},
		},
		"a Lua without struct": {
			foreign(answers("redis", "7.4.0"), bulk(""), "-ERR user_script:10: Script attempted to access nonexistent global variable 'struct'\r\n"),
			map[string]string{
				"version": "ok Redis 7.4.0",
				"script":  "failed sliding_window_counter: rate limit store could not decide: the Lua of this server has no library struct",
			},
		},
		"Valkey without its module lua": {
			func(words []string) string {
				if words[0] == "eval" {
					return "-ERR Could not find scripting engine 'lua'\r\n"
				}
				return foreign(answers("valkey", "9.1.2"), bulk(""), "")(words)
			},
			map[string]string{
				"version": "ok Valkey 9.1.2",
				"script": "failed sliding_window_counter: rate limit store could not decide: this server has no Lua, which is a module of Valkey since 9.1: " +
					"ERR Could not find scripting engine 'lua'; load the module lua in Valkey",
			},
		},
		"Valkey without HELLO": {
			foreign(unknownCommand, bulk("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nserver_mode:standalone\r\n# Replication\r\nrole:master\r\n"), "-ERR x\r\n"),
			map[string]string{"version": "ok Valkey 8.1.1", "writable": "ok a master"},
		},
		"a proxy that parses scripts": {
			foreign(unknownCommand, unknownCommand, "-ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array\r\n"),
			map[string]string{
				"version": "warning unknown: the server does not report it; see the check of the script",
				"script":  "failed sliding_window_counter: rate limit store could not decide: this server allows no script that passes keys in variables",
			},
		},
		"a server without scripts": {
			func(words []string) string {
				switch words[0] {
				case "hello":
					return answers("other", "1.2")
				case "eval", "evalsha":
					return unknownCommand
				}
				return "+OK\r\n"
			},
			map[string]string{"version": "ok other 1.2", "commands": "failed unknown to this Redis: eval evalsha"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantFindings(t, serve(t, test.reply), test.want)
		})
	}
}

// wantFindings runs the checks of a server and compares the first finding of each named check by its beginning.
func wantFindings(t *testing.T, address string, want map[string]string) {
	t.Helper()
	target := RedisTarget{Client: dial.Connection{Addresses: []string{address}, Timeout: time.Minute}, Logs: true, Runs: true, Challenges: true}
	var last string
	findings, unasked := Run(t.Context(), target, func(what string) { last = what })
	assert.Equal(t, last, "checking Redis, 9 of 9: replicas of "+address, "what was done last")
	assert.ErrorIf(t, unasked, "the server counts as not asked: %+v", findings)
	seen := map[string]string{}
	for _, f := range findings {
		seen[f.Check] += f.Result + " " + f.Detail
		if f.Advice != "" {
			seen[f.Check] += "; " + f.Advice
		}
		seen[f.Check] += "\n"
	}
	for check, text := range want {
		assert.ErrorIf(t, !strings.HasPrefix(seen[check], text), "%s: got %q; want %q", check, seen[check], text)
	}
}

// TestRun_keysOfSeveralClients checks a proxy that answers a script with keys of two clients itself, and has a
// Redis behind it.
func TestRun_keysOfSeveralClients(t *testing.T) {
	server := redistest.Start(t)
	for reply, want := range map[string]string{
		"-CROSSSLOT Keys in request don't hash to the same slot\r\n": "\nwarning one script may use keys of one slot alone",
		"-ERR 'EVAL' command keys must in same slot\r\n":             "\nfailed keys of two clients in one script: ERR 'EVAL' command keys must in same slot; set mode cluster",
		"": "",
	} {
		address := serve(t, func(words []string) string {
			if words[0] == "eval" && words[2] == "2" && reply != "" {
				return reply
			}
			return forward(server.Addr, words)
		})
		findings, _ := Run(t.Context(), RedisTarget{Client: dial.Connection{Addresses: []string{address}, Timeout: time.Minute}}, quietly)
		got := ""
		for _, f := range findings {
			if f.Check == "script" {
				got += f.Result + " " + f.Detail + "; " + f.Advice + "\n"
			}
		}
		if !strings.HasPrefix(got, "ok each algorithm that was tried decides within ") || !strings.Contains(got, want) || strings.Count(got, "\n") != 1+min(1, len(reply)) {
			t.Errorf("%s: got %q; want %q", reply, got, want)
		}
	}
}

// forward sends a command to a server and returns the reply.
func forward(address string, words []string) string {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "-ERR the server is gone\r\n"
	}
	defer conn.Close() //nolint:errcheck // the reply is read
	command := "*" + strconv.Itoa(len(words)) + "\r\n"
	for _, word := range words {
		command += bulk(word)
	}
	// The server ends the connection after QUIT, so that the reply ends.
	_, _ = io.WriteString(conn, command+"*1\r\n"+bulk("quit")) // or the reply is missing
	answer, _ := io.ReadAll(conn)
	return strings.TrimSuffix(string(answer), "+OK\r\n")
}

// TestRun_unknown_permissions asks a server that closes the connection at any command but HELLO.
func TestRun_unknown_permissions(t *testing.T) {
	address := serve(t, func(words []string) string {
		if words[0] != "hello" {
			return ""
		}
		return "*4\r\n" + bulk("version") + bulk("7.0.15") + bulk("role") + bulk("master")
	})
	findings, unasked := Run(t.Context(), RedisTarget{Client: dial.Connection{Addresses: []string{address}, Timeout: time.Minute}}, quietly)
	seen := map[string]string{}
	for _, f := range findings {
		seen[f.Check] = f.Result + " " + f.Detail
	}
	for _, check := range []string{"permissions", "admin rights", "overrides", "eviction"} {
		assert.ErrorIf(t, !strings.HasPrefix(seen[check], "warning unknown: "), "%s: got %q of %v", check, seen[check], findings)
	}
	assert.ErrorIf(t, !strings.HasPrefix(seen["reachable"], "ok") || !unasked, "got %v, unasked %v", findings, unasked)
}

// TestAskHello_Redis60 asks a server that requires the protocol's version, as Redis 6.0 does.
func TestAskHello_Redis60(t *testing.T) {
	address := serve(t, func(words []string) string {
		if len(words) == 1 { // of HELLO alone
			return "-ERR wrong number of arguments for 'hello' command\r\n"
		}
		return "*2\r\n" + bulk("version") + bulk("6.0.16")
	})
	client := assert.NoError(dial.New(dial.Connection{Addresses: []string{address}, Timeout: time.Minute}))(t)
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	if hello, err := askHello(t.Context(), client); err != nil || hello["version"] != "6.0.16" {
		t.Errorf("got %+v, %v; want version 6.0.16", hello, err)
	}
}

// TestRun_databaseRights has a server that forbids the database, in the words of Valkey 9.1.2: of any key, and where a
// connection selects one.
func TestRun_databaseRights(t *testing.T) {
	const refused = "-NOPERM No permissions to access database\r\n"
	address := serve(t, func(words []string) string {
		switch words[0] {
		case "hello":
			return answers("valkey", "9.1.2")
		case "ping", "time", "client":
			return "+OK\r\n"
		}
		return refused
	})
	for db, want := range map[int]Finding{
		0: {Detail: "missing: db=0; untried without these: +get +set +eval +evalsha ~*", Advice: "in Redis: ACL SETUSER limiter db=0 +get +set +eval +evalsha ~*; name other databases that this user needs behind db= too, with commas"},
		3: {Detail: "missing: db=3", Advice: "in Redis: ACL SETUSER limiter db=3; name other databases that this user needs behind db= too, with commas"},
	} {
		client := dial.Connection{Addresses: []string{address}, DB: db, Username: "limiter", Password: "secret", Timeout: time.Minute}
		findings, unasked := Run(t.Context(), RedisTarget{Client: client}, quietly)
		want.Check, want.Result = "permissions", Failed
		failed := slices.DeleteFunc(findings, func(f Finding) bool { return f.Result != Failed || f.Check == "script" || f.Check == "round trip" })
		for i := range failed {
			failed[i].server = ""
		}
		assert.ErrorIf(t, unasked, "database %d counts as not asked", db)
		assert.Equal(t, failed, []Finding{want}, "what failed with database %d", db)
	}
}

// TestRun_minReplicas has servers that report a min-replicas-to-write, or refuse a write because of it, in the words of
// Redis 6.0.16. From 7.0 on scripts obey it.
func TestRun_minReplicas(t *testing.T) {
	const forbidden = "-NOPERM this user has no permissions to run this command or its subcommand\r\n"
	config := func(number, lag string) string {
		return "*4\r\n" + bulk("min-replicas-to-write") + bulk(number) + bulk("min-replicas-max-lag") + bulk(lag)
	}
	const good = "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmin_slaves_good_slaves:0\r\n"
	const refused = "-NOREPLICAS Not enough good replicas to write.\r\n"
	for name, c := range map[string]struct{ server, version, config, info, set, want string }{
		"settings":               {"redis", "6.0.16", config("1", "10"), "", "", "warning min-replicas-to-write is set"},
		"settings without lag":   {"redis", "6.0.16", config("1", "0"), "", "", ""},
		"none":                   {"redis", "6.2.14", config("0", "10"), "", "", ""},
		"INFO":                   {"redis", "6.0.16", forbidden, bulk(good), "", "warning min-replicas-to-write is set"},
		"INFO without":           {"redis", "6.0.16", forbidden, bulk("# Replication\r\nrole:master\r\n"), "", ""},
		"a refused write":        {"redis", "6.0.16", forbidden, forbidden, refused, "warning min-replicas-to-write is set"},
		"nothing is permitted":   {"redis", "6.0.16", forbidden, forbidden, "+OK\r\n", "ok unknown: the user may run neither CONFIG GET nor INFO"},
		"Redis 7.0 obeys it":     {"redis", "7.0.15", config("1", "10"), bulk(good), refused, ""},
		"Valkey of another name": {"valkey", "1.0", config("1", "10"), bulk(good), refused, ""},
	} {
		answer := foreign(answers(c.server, c.version), c.info, "-ERR no script\r\n")
		address := serve(t, func(words []string) string {
			switch {
			case words[0] == "config" && words[2] == "maxmemory-policy":
				return forbidden
			case words[0] == "config":
				return c.config
			case words[0] == "set" && c.set != "":
				return c.set
			}
			return answer(words)
		})
		findings, _ := Run(t.Context(), RedisTarget{Client: dial.Connection{Addresses: []string{address}, Timeout: time.Minute}}, quietly)
		got := ""
		for _, f := range findings {
			if f.Check == "replicas" {
				got += f.Result + " " + f.Detail
			}
		}
		assert.ErrorIf(t, !strings.HasPrefix(got, c.want) || c.want == "" && got != "", "%s: got %q, want %q", name, got, c.want)
	}
}

// quietly shows no progress.
func quietly(string) {}
