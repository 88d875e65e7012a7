package bodyvalue

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// newRead returns the reader of a body that came in pieces of a length; 0: in one.
func newRead(t testing.TB, paths, contentType, body string, length int) *NumberReader {
	t.Helper()
	sum := assert.NoError(ParseSum(paths))(t)
	var plan NumberPlan
	plan.Add(sum)
	b := plan.NewReader(http.Header{"Content-Type": {contentType}})
	rest := []byte(body)
	for length > 0 && len(rest) > length {
		b.Write(rest[:length])
		rest = rest[length:]
	}
	b.Write(rest)
	b.End()
	return b
}

// checkRead reads a body in one piece, byte by byte, and in pieces of other lengths.
func checkRead(t *testing.T, paths, contentType, body string, want int64, wantErr error) {
	t.Helper()
	for _, length := range []int{0, 1, 2, 3, 5, 7, 31, 33} {
		if got, err := newRead(t, paths, contentType, body, length).Sum(0, nil); got != want || !errors.Is(err, wantErr) {
			t.Errorf("%s in %q, pieces of %d: got %d, %v; want %d, %v", paths, body[:min(len(body), 200)], length, got, err, want, wantErr)
		}
	}
}

// readCase is a body and what the sum of its paths is.
type readCase struct {
	paths, body string
	want        int64
	err         error
}

func checkReads(t *testing.T, contentType string, cases []readCase) {
	t.Helper()
	for _, c := range cases {
		checkRead(t, c.paths, contentType, c.body, c.want, c.err)
	}
}

// rows reads a file in testdata, whose lines have that many columns between tabs.
func rows(t testing.TB, name string, columns int) (rows [][]string) {
	t.Helper()
	text := assert.NoError(os.ReadFile("testdata/" + name))(t)
	for line := range strings.Lines(string(text)) {
		if line == "\n" || strings.HasPrefix(line, "# ") {
			continue
		}
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		assert.FatalIf(t, len(row) != columns, "%s has %d columns: %s", name, len(row), line)
		rows = append(rows, row)
	}
	return rows
}

// checkFile reads the documents of a file in testdata.
func checkFile(t *testing.T, name string) {
	t.Helper()
	wrong := map[string]error{"absent": ErrNoNumber, "invalid": ErrInvalidJSON, "out of range": errRange}
	for _, row := range rows(t, name, 3) {
		want, err := int64(0), wrong[row[2]]
		if err == nil {
			var parsing error
			want, parsing = strconv.ParseInt(row[2], 10, 64)
			assert.Must(t, parsing)
		}
		checkRead(t, row[0], "application/json", row[1], want, err)
	}
}

// TestBody_Complete has bodies that say themselves that nothing is missing, and others.
func TestBody_Complete(t *testing.T) {
	const document, events, lines = "application/json", "text/event-stream", "application/x-ndjson"
	for _, test := range []struct {
		contentType, body string
		want              bool
	}{
		{document, `{"a":1}`, true},
		{document, " [1]\n", true},
		{document, `{"a":1`, false},
		{document, `{"a":1}}`, false},
		{document, "", false},
		{events, "data: {\"a\":1}\n\n", false},
		{events, "data: {\"a\":1}\n\ndata: [DONE]\n\n", true},
		{events, "data:[DONE]\r\n\r\n", true},
		{events, "\ufeffid: 7\rdata: [DONE]\r\r", true},
		{events, "data: [DONE]\n", false},
		{events, "data: [DONE]", false},
		{events, "data: [DONE].\n\n", false},
		{events, "data: \"[DONE]\"\n\n", false},
		{events, "id: [DONE]\n\n", false},
		{events, ": [DONE]\n\n", false},
		{events, "event: message_stop\ndata: {\"a\":1}\n\n", true},
		{events, "event: message-end\ndata: {\"a\":1}\n\n", true},
		{events, "event: message_stop\ndata: {\"a\":1}\n", false},
		{events, "event: response.completed\ndata: {}\n\n", true},
		{events, "event: response.incomplete\ndata: {}\n\n", true},
		{events, "event: response.failed\ndata: {}\n\n", true},
		{events, "event: response.incomplete_\ndata: {}\n\n", false},
		{events, "event: response.created\ndata: {}\n\n", false},
		{events, "events: message_stop\n\n", false},
		{events, "data: message_stop\n\n", false},
		{events, "event: [DONE]\n\n", false},
		{lines, "{\"a\":1}\n", false},
		{lines, "data: [DONE]\n\n", false},
		{"text/html", `{"a":1}`, false},
	} {
		for _, length := range []int{0, 1, 2, 3, 7} {
			got := newRead(t, "a", test.contentType, test.body, length).Complete()
			assert.ErrorIf(t, got != test.want, "%s %q, pieces of %d: complete is %t", test.contentType, test.body, length, got)
		}
	}
}

// TestBody_document has the rules for one document: those of the file, and others that are long or have special characters.
func TestBody_document(t *testing.T) {
	checkFile(t, "documents.txt")
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	many := assert.Rounds(20_000, 1_000_000)
	long := strings.Repeat("0123456789", many/10)
	checkReads(t, "application/json", []readCase{
		{"usage.total_tokens", " {\r\n\t\"usage\" : { \"x\":[1,{}], \"total_tokens\" : 42 } } \n", 42, nil},
		{"a", "\ufeff{\"a\":1}", 1, nil},
		{"a", "\xef\xbb{\"a\":1}", 0, ErrInvalidJSON},
		{"a", `{"a":1` + long + `}`, 0, errRange},
		{"a", `{"a":0.` + long + `}`, 1, nil},
		{"a", fmt.Sprintf(`{"a":7%se-%d}`, strings.Repeat("0", many), many), 7, nil},
		{"a", fmt.Sprintf(`{"a":0.%s7e%d}`, strings.Repeat("0", many), many+1), 7, nil},
		{"a\ufffd", `{"a\ud83d":1}`, 1, nil},
		{"a\ufffdb", `{"a\ude00b":1}`, 1, nil},
		{"a\ufffd\ufffd", `{"a\ud83d\ud83d":1}`, 1, nil},
		{"a\ufffdA", `{"a\ud83d\u0041":1}`, 1, nil},
		{"a", `{"` + long + `":1,"a":2}`, 2, nil},
		{strings.Repeat("n", maxName), `{"` + strings.Repeat("n", maxName) + `x":1,"` + strings.Repeat("n", maxName) + `":2}`, 2, nil},
		{strings.Repeat("n", maxName), `{"\u006e` + strings.Repeat("n", maxName) + `":1,"\u006e` + strings.Repeat("n", maxName-1) + `":2}`, 2, nil},
		{"a", `{"x":` + deep(many) + `,"a":1}`, 1, nil},
		{"a", `{"x":"` + long + `\\","y":["\"]","\\"],"a":1}`, 1, nil},
		{"a", `{"x":{"` + strings.Repeat(`\\`, 40) + `":"` + strings.Repeat(`\"`, 40) + `}"},"a":1}`, 1, nil},
		{"a", `{"x":[` + strings.Repeat(`1.5,`, 100) + `[` + strings.Repeat(`-2,`, 50) + `3]],"a":1}`, 1, nil},
		{"a", `{"b":"` + long, 0, ErrInvalidJSON},
		{"a", deep(many)[:many/2*3], 0, ErrInvalidJSON},
	})
}

// TestBody_contentType has what servers call JSON, and what is none.
func TestBody_contentType(t *testing.T) {
	for contentType, want := range map[string]error{
		"application/json":                          nil,
		"Application/JSON; charset=utf-8":           nil,
		" application/json ;charset=utf-8":          nil,
		"application/graphql-response+json":         nil,
		"application/vnd.api+JSON":                  nil,
		"application/+json":                         errType,
		"text/html":                                 errType,
		"text/plain":                                errType,
		"application/json5":                         errType,
		"application/octet-stream":                  errType,
		"":                                          errType,
		"application/x-ndjson":                      nil,
		"application/jsonl":                         nil,
		"application/jsonl; charset=\"utf-8\"; x=y": nil,
	} {
		_, err := newRead(t, "a", contentType, `{"a":1}`, 0).Sum(0, nil)
		assert.ErrorIf(t, !errors.Is(err, want), "%q: got %v, want %v", contentType, err, want)
	}
}

func TestBody_contentEncoding(t *testing.T) {
	for encodings, want := range map[string]error{
		"gzip": errEncoded, "identity": nil, "": nil, "Identity, identity": nil, "identity, br": errEncoded, "identity|zstd": errEncoded,
	} {
		header := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": strings.Split(encodings, "|")}
		_, err := formOf(header)
		assert.ErrorIf(t, !errors.Is(err, want), "%q: got %v, want %v", encodings, err, want)
	}
}

// TestBody_events has event streams with each kind of line.
func TestBody_events(t *testing.T) {
	checkReads(t, "text/event-stream; charset=utf-8", []readCase{
		{"a", "data: {\"a\":1}\n\n", 1, nil},
		{"a", "data:{\"a\":1}\r\n\r\n", 1, nil},
		{"a", "data: {\"a\":1}\r\rdata: {\"a\":2}\r\r", 2, nil},
		{"a", "data: {\"a\":1}\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n", 1, nil},
		{"a", "\ufeffevent: x\nid: 7\nretry: 10\n: comment\ndata: {\"a\":1}\n\n", 1, nil},
		{"a", "data: {\"a\":\ndata: 1\ndata\ndata:\ndata: }\n\n", 1, nil},
		{"a", "data: {\"a\":1\ndata: 2}\n\n", 0, ErrNoNumber},
		{"a", "data: {\"a\":1}\ndata: {\"a\":2}\n\n", 0, ErrNoNumber},
		{"a", "data: {\"a\":1}\n\ndata: {\"a\":2", 1, nil},
		{"a", "data: {\"a\":1}\n\ndata: {\"a\":2}", 2, nil},
		{"a", "data: {\"a\":1}\n\ndata: {\"a\":2,}\n\n", 1, nil},
		{"a", "datax: {\"a\":1}\n\n data: {\"a\":1}\n\nDATA: {\"a\":1}\n\ndat: 1\n\n{\"a\":1}\n\n", 0, ErrNoNumber},
		{"a+b", "data: {\"a\":1,\"b\":5}\n\ndata: {\"b\":9}\n\n", 10, nil},
		{"a|b", "data: {\"b\":1}\n\ndata: {\"a\":2}\n\ndata: {\"b\":3}\n\n", 2, nil},
		{"a", "data: {\"a\":1}\n\ndata: {\"a\":null}\n\n", 1, nil},
		{"a", "data: {\"a\":1}\n\ndata: {\"a\":-1}\n\n", 0, errRange},
		{"a", "", 0, ErrNoNumber},
		{"a", "\n\n\r\r\r\n", 0, ErrNoNumber},
	})
}

func TestBody_lines(t *testing.T) {
	checkReads(t, "application/x-ndjson", []readCase{
		{"a", "{\"a\":1}\n{\"b\":2}\r\n{\"a\":3}\n", 3, nil},
		{"a", "{\"a\":1}\n{\"a\":3}", 3, nil},
		{"a", "\n\n{\"a\":1}\n\n", 1, nil},
		{"a", "{\"a\":1}\n{\"a\":3\n", 1, nil},
		{"a", "{\"a\":1}\nno JSON\n{\"b\":[\n", 1, nil},
		{"a", "\ufeff{\"a\":1}\n", 1, nil},
		{"a+b", "{\"a\":1}\n{\"b\":2}\n", 3, nil},
		{"a", "{\"b\":1}\n", 0, ErrNoNumber},
	})
}

// TestBody_hostile has bodies that never end. No piece of them allocates, and no number is found.
func TestBody_hostile(t *testing.T) {
	sum := assert.NoError(ParseSum("usage.total_tokens|a.1"))(t)
	var plan NumberPlan
	plan.Add(sum)
	for head, more := range map[string]string{
		`{"x":`:                       "[",
		`{"x":[`:                      `{"a":[1,"x"]},`,
		`{"x":"`:                      `\"`,
		`{"`:                          "usage",
		`{"\u0061`:                    `\u0061`,
		`{"usage":{"total_tokens":`:   "1",
		`{"usage":{"total_tokens":1e`: "9",
		`{"usage":{"x":1`:             `,"usage":{"total_tokens":1}`,
		`{"a":[0`:                     ",[]",
		`{`:                           " ",
		`no JSON`:                     `{"usage":{"total_tokens":1}}`,
	} {
		for _, contentType := range []string{"application/json", "text/event-stream", "application/x-ndjson"} {
			b := plan.NewReader(http.Header{"Content-Type": {contentType}})
			if contentType == "text/event-stream" {
				b.Write([]byte("data: "))
			}
			b.Write([]byte(head))
			piece := []byte(strings.Repeat(more, 1+(64<<10)/len(more)))
			allocations := testing.AllocsPerRun(10, func() { b.Write(piece) })
			assert.ErrorIf(t, allocations > 0, "%s %q and %q: %v allocations for a piece", contentType, head, more, allocations)
			b.End()
			n, err := b.Sum(0, nil)
			assert.ErrorIf(t, n != 0 || err == nil, "%s %q and %q: got %d, %v; want none", contentType, head, more, n, err)
		}
	}
}
