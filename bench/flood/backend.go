package main

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// backend is a server of workers behind a queue, as of PHP-FPM: it goes on working for clients that have left, and a worker
// is held until its answer is written.
type backend struct {
	address string
	server  *http.Server
	jobs    chan *job
	stopped chan struct{} // closed by stop

	mu   sync.Mutex
	work map[string]time.Duration // by class, since the last call of take
}

// job is a request that waits for a worker.
type job struct {
	class string
	cost  time.Duration

	worked  chan struct{} // closed when the answer can be written
	written chan struct{} // closed when it is
}

// classHeader tells the backend whose work a request is.
const classHeader = "X-Flood-Class"

// newBackend starts a backend on a free port.
func newBackend() (*backend, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &backend{
		address: listener.Addr().String(), jobs: make(chan *job, queue), stopped: make(chan struct{}), work: map[string]time.Duration{},
	}
	b.server = &http.Server{Handler: b}
	for range workers {
		go b.serveJobs()
	}
	go b.server.Serve(listener) //nolint:errcheck // it ends with stop
	return b, nil
}

// stop ends the backend. Its workers end with the jobs that they have.
func (b *backend) stop() {
	close(b.stopped)
	_ = b.server.Close() // the clients are gone
}

func (b *backend) serveJobs() {
	for {
		select {
		case j := <-b.jobs:
			b.serve(j)
		case <-b.stopped:
			return
		}
	}
}

func (b *backend) serve(j *job) {
	time.Sleep(j.cost)
	close(j.worked)
	<-j.written
	b.mu.Lock()
	defer b.mu.Unlock()
	b.work[j.class] += j.cost
}

// take returns the work since the last call.
func (b *backend) take() map[string]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	work := b.work
	b.work = map[string]time.Duration{}
	return work
}

// costOf returns the work that a path takes: a search is ten pages.
func costOf(path string) time.Duration {
	if strings.HasPrefix(path, "/search") {
		return 10 * service
	}
	return service
}

// mark begins each page of the backend, by which clients know it.
const mark = "PAGE"

var (
	text = mark + strings.Repeat("<p>words of a page of a shop</p>\n", 400) // 13 kB
	big  = mark + strings.Repeat("x", 8<<20)
)

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j := &job{r.Header.Get(classHeader), costOf(r.URL.Path), make(chan struct{}), make(chan struct{})}
	if !b.queue(j) {
		http.Error(w, "the queue is full", http.StatusBadGateway)
		return
	}
	select {
	case <-j.worked:
	case <-b.stopped:
		return
	}
	defer close(j.written)
	answer := text
	if r.URL.Path == bigPath {
		answer = big
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	io.WriteString(w, answer)
}

// queue reports whether there was a place for a job.
func (b *backend) queue(j *job) bool {
	select {
	case b.jobs <- j:
		return true
	default:
		return false
	}
}
