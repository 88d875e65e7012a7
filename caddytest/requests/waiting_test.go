package requests

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	echo "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// waitsForPlace is a limit of one request of a key, for which others wait.
const waitsForPlace = "redis_ratelimit {\npolicy places {\nkey {query.k}\nmax_concurrent 1\nwait 10m\n}\n}\n"

// beginWaiting sends so many requests, and returns once they wait. The function waits for their responses.
func beginWaiting(t *testing.T, n *caddytest.Node, times int, path string, headers ...string) (responses func() []caddytest.Response) {
	t.Helper()
	held, answers := n.Metric(t, "held_requests"), make(chan []caddytest.Response, 1)
	go func() { answers <- n.Crowd(t, times, path, headers...) }()
	n.CheckMetric(t, "held_requests", held+float64(times))
	return func() []caddytest.Response { return <-answers }
}

// checkNothingRuns waits until no request runs or waits, on this node or in Redis.
func checkNothingRuns(t *testing.T, n *caddytest.Node, key string, places int64) {
	t.Helper()
	n.CheckMetric(t, "held_requests", 0)
	n.CheckMetric(t, `running{policy="places"}`, 0)
	n.WaitForRefund(t, "places", key, places)
}

// TestWaiting_lifetimes has a request wait for one that runs, of each kind and to each end.
func TestWaiting_lifetimes(t *testing.T) {
	caddytest.OnBothStores(t, func(t *testing.T, option, _ string) {
		upstream := caddytest.NewHolder(t)
		n := caddytest.Start(t, caddytest.Config(option, waitsForPlace+"reverse_proxy "+upstream.Addr+" { transport http { keepalive off } }"+showReason))
		for _, path := range []string{"/", "/broken", "/cut", "/stream", "/websocket"} {
			for _, leaves := range []bool{false, true} {
				r := upstream.Begin(t, n, path+"?k=a")
				responses := beginWaiting(t, n, 1, "/quick?k=a")
				n.Get(t, "/quick?k=b").Want(t, http.StatusOK, caddytest.Any) // another key
				if leaves {
					r.Leave()
				} else {
					upstream.EndOne()
				}
				<-r.Ended
				caddytest.CheckQuota(t, responses()[0].Want(t, http.StatusOK, ""), 1, 0)
				checkNothingRuns(t, n, "a", 1)
			}
		}
		first := upstream.Begin(t, n, "/?k=a")
		socket := beginWaitingSocket(t, n)
		last := make(chan caddytest.Response, 1)
		go func() {
			a, err := n.Try(http.MethodHead, n.URL+"/quick?k=a", "")
			if err != nil {
				t.Error(err)
			}
			last <- a
		}()
		n.CheckMetric(t, "held_requests", 2)
		upstream.EndOne()
		<-first.Ended
		assert.Equal(t, <-socket, http.StatusSwitchingProtocols, "the status of the WebSocket that has waited")
		upstream.WaitRunning(t, 1)
		n.CheckMetric(t, "held_requests", 1)
		upstream.EndOne()
		(<-last).Want(t, http.StatusOK, "")
		checkNothingRuns(t, n, "a", 1)
	})
}

// beginWaitingSocket asks for a WebSocket that has to wait, and returns its status.
func beginWaitingSocket(t *testing.T, n *caddytest.Node) (status chan int) {
	t.Helper()
	status = make(chan int, 1)
	request := caddytest.GetRequest(t.Context(), t, n.URL+"/websocket?k=a")
	caddytest.Upgrade(request)
	go func() {
		response, err := n.Client.Transport.RoundTrip(request)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		status <- response.StatusCode
		_, _ = io.Copy(io.Discard, response.Body) // to its end
		_ = response.Body.Close()
	}()
	n.CheckMetric(t, "held_requests", 1)
	return status
}

// TestWaiting_left has clients of HTTP/1.1 leave while they wait. What they have sent of a body says if that is
// noticed at once. In any case the next request starts.
func TestWaiting_left(t *testing.T) {
	upstream := caddytest.NewHolder(t)
	n := caddytest.InProcess(t, waitsForPlace+"reverse_proxy "+upstream.Addr+showReason)
	large := fmt.Sprint("Content-Length: ", 2<<20)
	for name, test := range map[string]struct {
		fields  []string
		body    string
		unasked bool // the rest of the body is not read before the request's turn
	}{
		"nothing":          {},
		"whole body":       {[]string{"Content-Length: 5"}, "hello", false},
		"half a body":      {[]string{"Content-Length: 5"}, "he", false},
		"chunk":            {[]string{"Transfer-Encoding: chunked"}, "5\r\nhello\r\n", true},
		"whole chunks":     {[]string{"Transfer-Encoding: chunked"}, "5\r\nhello\r\n0\r\n\r\n", true},
		"large body":       {[]string{large}, "hello", true},
		"large, whole":     {[]string{large}, strings.Repeat("x", 2<<20), true},
		"large in chunks":  {[]string{"Transfer-Encoding: chunked"}, "200000\r\n" + strings.Repeat("x", 2<<20) + "\r\n", true},
		"large, expecting": {[]string{large, "Expect: 100-continue"}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := upstream.Begin(t, n, "/?k=a")
			c := connect(t, n)
			c.post(t, "/quick?k=a", test.fields...)
			go func() { _, _ = io.WriteString(c, test.body) }() // which may end with the connection
			n.CheckMetric(t, "held_requests", 1)
			next := beginWaiting(t, n, 1, "/quick?k=a")
			assert.Must(t, c.Close())
			if !test.unasked {
				n.CheckMetric(t, "held_requests", 1)
			}
			upstream.EndOne()
			<-r.Ended
			next()[0].Want(t, http.StatusOK, caddytest.Any)
			checkNothingRuns(t, n, "a", 1)
		})
	}
	got := n.Metric(t, `wait_seconds_count{outcome="left",policy="places"}`)
	assert.ErrorIf(t, got < 3, "%v waits ended because their clients left, want those that were noticed", got)
}

// TestWaiting_bodies has bodies reach the backend whole, with which requests have waited: sent at once, late, in parts, and
// after 100 Continue.
func TestWaiting_bodies(t *testing.T) {
	holder := caddytest.NewHolder(t)
	n := caddytest.InProcess(t, waitsForPlace+"reverse_proxy /hold "+holder.Addr+"\nreverse_proxy "+digester(t))
	small, large := strings.Repeat("s", 5000), strings.Repeat("l", 2<<20)
	for name, test := range map[string]struct {
		body    string
		expects bool
		part    int // that is sent before the request's turn
		late    bool
	}{
		"at once":            {body: small, part: len(small)},
		"half":               {body: small, part: 2500, late: true},
		"asked for":          {body: small, expects: true, part: len(small)},
		"asked for, half":    {body: small, expects: true, part: 2500, late: true},
		"large":              {body: large, part: len(large)},
		"large, half":        {body: large, part: 1000, late: true},
		"large, asked for":   {body: large, expects: true, late: true},
		"nothing by then":    {body: small, late: true},
		"large, none before": {body: large, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := holder.Begin(t, n, "/hold?k=a")
			c := connect(t, n)
			fields := []string{fmt.Sprint("Content-Length: ", len(test.body))}
			if test.expects {
				fields = append(fields, "Expect: 100-continue")
			}
			c.post(t, "/?k=a", fields...)
			if test.expects && test.part > 0 {
				assert.Equal(t, c.status(t), http.StatusContinue, "the status before the body")
			}
			sent := make(chan error, 1)
			go func() {
				_, err := io.WriteString(c, test.body[:test.part])
				sent <- err
			}()
			n.CheckMetric(t, "held_requests", 1)
			holder.EndOne()
			<-r.Ended
			if test.late {
				n.CheckMetric(t, "held_requests", 0) // it has its place
			}
			if test.expects && test.part == 0 {
				assert.Equal(t, c.status(t), http.StatusContinue, "the status before the body")
			}
			assert.Must(t, <-sent)
			assert.NoError(io.WriteString(c, test.body[test.part:]))(t)
			response := assert.NoError(http.ReadResponse(c.answers, nil))(t)
			for response.StatusCode == http.StatusContinue { // the proxy passes on what the backend says
				response = assert.NoError(http.ReadResponse(c.answers, nil))(t)
			}
			got := string(assert.NoError(io.ReadAll(response.Body))(t))
			assert.Equal(t, got, fmt.Sprintf("%d %x <nil>", len(test.body), sha256.Sum256([]byte(test.body))), "what the backend got")
			assert.Must(t, c.Close())
			checkNothingRuns(t, n, "a", 1)
		})
	}
}

// TestWaiting_bodyTimeout has the server's time for a body end within the wait. The request leaves the line then.
func TestWaiting_bodyTimeout(t *testing.T) {
	t.Parallel()
	holder := caddytest.NewHolder(t)
	n := caddytest.Start(t, caddytest.Config("servers { timeouts { read_body 1s } }", waitsForPlace+"reverse_proxy "+holder.Addr))
	r := holder.Begin(t, n, "/hold?k=a")
	c := connect(t, n)
	c.post(t, "/?k=a", "Content-Length: 20")
	assert.NoError(io.WriteString(c, "half"))(t)
	assert.Equal(t, c.status(t), http.StatusRequestTimeout, "the status of a body that is late")
	n.CheckMetric(t, "held_requests", 0)
	holder.EndOne()
	<-r.Ended
	checkNothingRuns(t, n, "a", 1)
}

// TestWaiting_versions has clients of each version of HTTP leave the queue, with a part of a body sent, and others start.
func TestWaiting_versions(t *testing.T) {
	t.Parallel()
	upstream := caddytest.NewHolder(t)
	n := startVersions(t, "", waitsForPlace+"reverse_proxy "+upstream.Addr+showReason)
	for name, speaker := range speakers(t) {
		ask(t, speaker, n.url(name)+"/quick?k=b") // the certificate is issued
		client := *n.Node
		client.URL, client.Client = n.url(name), &http.Client{Transport: speaker}
		r := upstream.Begin(t, &client, "/?k=a")
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		reading, writing := io.Pipe()
		body := assert.NoError(http.NewRequestWithContext(ctx, http.MethodPost, n.url(name)+"/quick?k=a", reading))(t)
		body.ContentLength = int64(len("half a body")) // without a length it is left alone
		left := beginToLeave(speaker, body)
		assert.NoError(io.WriteString(writing, "half"))(t)
		n.CheckMetric(t, "held_requests", 1)
		next := make(chan []caddytest.Response, 1)
		go func() { next <- client.Crowd(t, 1, "/quick?k=a") }()
		n.CheckMetric(t, "held_requests", 2)
		leave()
		_ = writing.CloseWithError(io.ErrUnexpectedEOF) // the client of HTTP/1.1 waits for it; it cannot fail
		assert.ErrorIf(t, <-left == nil, "%s: the request was answered", name)
		n.CheckMetric(t, "held_requests", 1)
		upstream.EndOne()
		<-r.Ended
		(<-next)[0].Want(t, http.StatusOK, "")
		checkNothingRuns(t, n.Node, "a", 1)
	}
}

// TestWaiting_grpc has calls wait for one that runs: until it ends, in vain, and in a full queue.
func TestWaiting_grpc(t *testing.T) {
	t.Parallel()
	service := startGRPCService(t)
	n := startVersions(t, "", "redis_ratelimit {\npolicy places {\nkey same\nmax_concurrent 1\nwait 10m 1\n}\n}\nreverse_proxy h2c://"+service.addr)
	for transport := range n.addresses {
		client := n.dial(t, transport, "")
		stream := assert.NoError(client.FullDuplexCall(withKey(t, "a")))(t)
		assert.Must(t, stream.Send(&echo.StreamingOutputCallRequest{}))
		assert.NoError(stream.Recv())(t)
		waited := make(chan error, 1)
		go func() {
			_, err := client.EmptyCall(withKey(t, "a"), &echo.Empty{})
			waited <- err
		}()
		n.CheckMetric(t, "held_requests", 1)
		_, err := client.EmptyCall(withKey(t, "a"), &echo.Empty{})
		s := status.Convert(err)
		assert.ErrorIf(t, s.Code() != codes.ResourceExhausted || s.Message() != "too many calls are running: policy places, retry in 1 s", "%s: got %v", transport, err)
		assert.Must(t, stream.CloseSend())
		assert.Must(t, <-waited)
		checkNothingRuns(t, n.Node, "same", 1)
	}
}
