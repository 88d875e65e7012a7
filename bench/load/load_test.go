package load

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

func TestClient_Run_takes_requests_in_turn(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path]++
		if r.URL.Path == "/denied" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write([]byte(strings.Repeat("x", 1500)))
	}))
	t.Cleanup(server.Close)
	c, err := Dial(strings.TrimPrefix(server.URL, "http://"), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var requests [][]byte
	for _, path := range []string{"/a", "/b", "/denied"} {
		requests = append(requests, []byte("GET "+path+" HTTP/1.1\r\nHost: test\r\n\r\n"))
	}
	for run := range 2 { // of requests 0 to 6 and 7 to 13 every third is denied
		got, err := c.Run(requests, 7)
		if err != nil || got.Failed != 0 || got.Denied != 2 || got.P50 <= 0 || got.Elapsed < got.P50 {
			t.Errorf("run %d: got %+v, %v", run, got, err)
		}
	}
	if asked["/a"] != 5 || asked["/b"] != 5 || asked["/denied"] != 4 {
		t.Errorf("the server was asked %v", asked)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		response string
		status   int
		whole    bool
	}{
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: x\r\n\r\nok", 200, true},
		{"HTTP/1.1 429 Too Many Requests\r\nServer: x\r\nContent-Length: 0\r\n\r\n", 429, true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", 200, false},
		{"HTTP/1.1 200 OK\r\nContent-Le", 0, false},
	}
	for _, test := range tests {
		if status, whole, err := parse([]byte(test.response)); status != test.status || whole != test.whole || err != nil {
			t.Errorf("%q: got %d, %v, %v", test.response, status, whole, err)
		}
	}
	if _, _, err := parse([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")); err == nil {
		t.Error("no error for a response without a length")
	}
}
