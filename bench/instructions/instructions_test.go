package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/bench/serve"
)

// TestWireReader reads values of all kinds, byte by byte.
func TestWireReader(t *testing.T) {
	for _, value := range []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "$5\r\na\r\nbc\r\n", "$-1\r\n", "*-1\r\n", "_\r\n",
		"*2\r\n$1\r\na\r\n*1\r\n:3\r\n", "%1\r\n+key\r\n*0\r\n", ">2\r\n+message\r\n#t\r\n",
	} {
		r := newWireReader(strings.NewReader(value + "+next\r\n"))
		if raw, _, err := r.next(); string(raw) != value || err != nil {
			t.Errorf("%q, %v; want %q", raw, err, value)
		}
		if raw, _, err := r.next(); string(raw) != "+next\r\n" || err != nil {
			t.Errorf("after %q: %q, %v", value, raw, err)
		}
	}
	for _, broken := range []string{"$x\r\n", "*x\r\n", "\n", "$5\r\nabc"} {
		if _, _, err := newWireReader(strings.NewReader(broken)).next(); err == nil {
			t.Errorf("%q is no value", broken)
		}
	}
}

// TestRecorder records what a client sends in one piece, and withholds an answer.
func TestRecorder(t *testing.T) {
	redis, err := serve.Redis(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Stop)
	tape, err := record(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tape.Close)
	client, err := net.Dial("tcp", tape.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	send := func(words ...[]string) {
		var message []byte
		for _, w := range words {
			message = append(message, command(w...)...)
		}
		if _, err := client.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	answers := bufio.NewReader(client)
	want := func(answer string) {
		t.Helper()
		got := make([]byte, len(answer))
		if _, err := io.ReadFull(answers, got); err != nil || string(got) != answer {
			t.Fatalf("%q, %v; want %q", got, err, answer)
		}
	}
	send([]string{"PING"})
	want("+PONG\r\n")
	release := tape.withhold()
	send([]string{"EVAL", "return 7", "1", "rl:{client-1}:x"}, []string{"EVAL", "return 8", "1", "rl:{client-2}:x"})
	if err := await(func() bool { list, _ := tape.messages(0); return len(list) == 1 }); err != nil {
		t.Fatal(err)
	}
	if err := client.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := answers.ReadByte(); err == nil {
		t.Fatal("an answer came that was withheld")
	}
	if err := client.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	release()
	want(":7\r\n:8\r\n")
	list, all := tape.messages(0)
	if m := list[0]; !all || m.commands != 2 || m.marked(mark) != 2 || !m.text || string(m.answer) != ":7\r\n:8\r\n" {
		t.Errorf("recorded %+v", m)
	}
}

func TestAlike(t *testing.T) {
	const now, later, zero, one = "\x01\x02\x03\x04\x05\x06\x07\x40", "\x02\x02\x03\x04\x05\x06\x07\x40",
		"\x00\x00\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\xf0\x3f"
	answer := func(text string) []byte { return []byte("$32\r\n" + text + "\r\n") }
	recorded := answer(now + zero + one + one)
	for _, test := range []struct {
		name, answer string
		want         bool
	}{
		{"at another time", later + zero + zero + zero, true},
		{"denied", later + one + one + one, false},
		{"shorter", later + zero, false},
	} {
		if got := alike(answer(test.answer), recorded); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
	if alike([]byte("-ERR "+strings.Repeat("x", 32)), recorded) {
		t.Error("an error is like an answer")
	}
}

func TestSelected(t *testing.T) {
	for expression, want := range map[string][2]int{"^redis/log/": {3, 0}, "mholt$": {0, 2}, "^caddy/plain$": {0, 1}, "none": {}} {
		stored, served := selected(regexp.MustCompile(expression))
		if len(stored) != want[0] || len(served) != want[1] {
			t.Errorf("%s: %d and %d rows", expression, len(stored), len(served))
		}
	}
}

// TestCompared_rows has the rows that the page compares with each other be there.
func TestCompared_rows(t *testing.T) {
	for _, name := range []string{rowMixed, rowAlone, rowOne, rowTwo, rowFour} {
		if stored, served := selected(regexp.MustCompile("^" + regexp.QuoteMeta(name) + "$")); len(stored)+len(served) == 0 {
			t.Errorf("no row %s", name)
		}
	}
}

// TestWrite shows a row that repeats, one that does not, one of Caddy and one that was not measured.
func TestWrite(t *testing.T) {
	var b strings.Builder
	err := write(&b, []line{
		{name: "redis/a", counts: [2]twice{{100, 100}, {104, 104}}},
		{name: "redis/b", counts: [2]twice{{100, 103}, {100, 100}}},
		{name: plain, counts: [2]twice{{1000, 1000}, {1000, 1000}}},
		{name: "caddy/one", counts: [2]twice{{1100, 1100}, {1050, 1050}}},
		{name: "redis/c", err: errors.New("no")},
	}, [2]build{{name: "old"}, {name: "new"}})
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"redis/a 100 104 1.040 redis/b", "redis/b 102 100 0.985 two counts of base differ by 3.0 %",
		"caddy/one 1100 1050 0.955 +100 +50 0.500", "redis/c not measured",
	} {
		if !strings.Contains(fields, want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// TestPublish writes a page, and leaves it as it is after a run that is not whole.
func TestPublish(t *testing.T) {
	o := options{root: "../..", base: defaultBase, rows: regexp.MustCompile(""), out: t.TempDir(), requests: 5000, served: 2000}
	if err := o.findPage(); err == nil {
		t.Error("a page was found that does not exist")
	}
	if err := os.WriteFile(o.pageFile(), []byte("# Benchmarks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.findPage(); err != nil {
		t.Error(err)
	}
	lines := []line{
		{name: "redis/counter/64", counts: [2]twice{{20_000, 20_000}, {19_000, 19_000}}},
		{name: "redis/63+two/counters/64", counts: [2]twice{{25_000, 25_000}, {19_500, 20_500}}},
		{name: plain, counts: [2]twice{{60_000, 60_000}, {60_000, 60_000}}},
		{name: "caddy/one", counts: [2]twice{{66_000, 66_000}, {64_500, 64_500}}},
		{name: "caddy/two", counts: [2]twice{{72_000, 72_000}, {68_000, 68_000}}},
		{name: "caddy/four", counts: [2]twice{{79_000, 79_000}, {73_000, 73_000}}},
	}
	publish := func(o options, lines []line) string {
		t.Helper()
		if err := o.publish(t.Context(), lines, [2]build{{name: "old"}, {name: "new"}}); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(o.pageFile())
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	page := publish(o, lines)
	for _, want := range []string{
		"# Benchmarks\n", "\n- commits: new beside old, 5,000 requests of a row of redis-server, 2,000 of a row of Caddy\n",
		"\n- 63 requests of one policy and one of two, in Redis: 1.250 of 64 requests of one, now 1.053.\n",
		"\n- The second policy in Caddy: 6,000, now 3,500. The third and the fourth, each: 3,500, now 2,500.\n",
		"\n|redis-server|old|new|ratio|\n|---|--:|--:|--:|\n|counter/64|20,000|19,000|0.950|\n",
		"\n|63+two/counters/64 (two counts of this differ by 5.1 %)|25,000|20,000|0.800|\n",
		"\n|plain|60,000|60,000|1.000||||\n|one|66,000|64,500|0.977|6,000|4,500|0.750|\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	some, other := o, o
	some.rows, other.base = regexp.MustCompile("two"), "main"
	failed := slices.Clone(lines)
	failed[5].err = errors.New("no")
	for name, got := range map[string]string{
		"some rows": publish(some, lines[:1]), "another commit": publish(other, lines[:1]), "a row without numbers": publish(o, failed),
	} {
		if got != page {
			t.Errorf("%s changed the page:\n%s", name, got)
		}
	}
}
