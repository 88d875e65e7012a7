package main

import (
	"bytes"
	"net"
	"sync"
)

// message is what a client sent in one piece, before it waited for an answer, and what Redis answered.
type message struct {
	sent     []byte
	answer   []byte
	commands int
	keys     [][]byte // of its scripts
	text     bool     // it has a script's text, not only its hash
}

// marked returns how many keys have a mark in them.
func (m *message) marked(mark string) (n int) {
	for _, key := range m.keys {
		if bytes.Contains(key, []byte(mark)) {
			n++
		}
	}
	return n
}

// unknown reports whether Redis did not have the script of a message, which comes again with its text.
func (m *message) unknown() bool { return bytes.HasPrefix(m.answer, []byte("-NOSCRIPT")) }

// recorder stands between a client and Redis, and keeps the messages that run scripts.
type recorder struct {
	net.Listener
	redis string

	mu       sync.Mutex
	arrived  []*message // some have no answer yet
	answered int        // of them
	gate     chan struct{}
	conns    []net.Conn
}

// record begins to record what is sent to a Redis.
func record(redis string) (*recorder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &recorder{Listener: listener, redis: redis}
	go r.accept()
	return r, nil
}

func (r *recorder) accept() {
	for {
		client, err := r.Accept()
		if err != nil {
			return // the recorder is closed
		}
		server, err := net.Dial("tcp", r.redis)
		if err != nil {
			_ = client.Close() // the client sees that there is no Redis
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		go r.serve(client, server)
	}
}

// Close ends all connections.
func (r *recorder) Close() {
	_ = r.Listener.Close() // no connection is to come
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		_ = conn.Close() // what was recorded is whole
	}
}

// serve passes messages and answers on until a side closes.
func (r *recorder) serve(client, server net.Conn) {
	defer client.Close() //nolint:errcheck // it may be closed already
	defer server.Close() //nolint:errcheck // as above
	commands, answers := newWireReader(client), newWireReader(server)
	for {
		m, ran, err := readMessage(commands)
		if err != nil {
			return
		}
		gate := r.begin(m, ran)
		if _, err := server.Write(m.sent); err != nil {
			return
		}
		var answer []byte
		for range m.commands {
			raw, _, err := answers.next()
			if err != nil {
				return
			}
			answer = append(answer, raw...)
		}
		if gate != nil {
			<-gate
		}
		r.end(m, answer, ran)
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// readMessage reads commands until the client waits. It reports whether one of them runs a script.
func readMessage(commands *wireReader) (m *message, ran bool, err error) {
	m = new(message)
	for m.commands == 0 || commands.Buffered() > 0 {
		raw, words, err := commands.next()
		if err != nil {
			return nil, false, err
		}
		keys, runs := scriptKeys(words)
		ran = ran || runs
		m.sent = append(m.sent, raw...)
		m.commands++
		m.keys = append(m.keys, keys...)
		m.text = m.text || runs && len(words[0]) == len("eval")
	}
	return m, ran, nil
}

// begin keeps a message, and returns what its answer has to wait for.
func (r *recorder) begin(m *message, ran bool) (gate chan struct{}) {
	if !ran {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrived = append(r.arrived, m)
	return r.gate
}

func (r *recorder) end(m *message, answer []byte, ran bool) {
	if !ran {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m.answer = answer
	r.answered++
}

// withhold has the messages that come from now on wait for their answers, until release.
func (r *recorder) withhold() (release func()) {
	gate := make(chan struct{})
	r.mu.Lock()
	r.gate = gate
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.gate = nil
		r.mu.Unlock()
		close(gate)
	}
}

// messages returns those from a number on, and whether all have been answered.
func (r *recorder) messages(from int) (list []*message, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.arrived[from:len(r.arrived):len(r.arrived)], r.answered == len(r.arrived)
}
