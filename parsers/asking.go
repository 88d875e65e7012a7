package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// askWithin bounds one request.
const askWithin = 20 * time.Second

// ask sends a sample to a way of reading.
func ask(r *frameworks.Running, s *sample, way, asked string) (answer, error) {
	connection, err := net.Dial("tcp", r.Address)
	if err != nil {
		return answer{}, r.OrEnded(err)
	}
	defer func() { _ = connection.Close() }()             // nothing is left to be sent
	_ = connection.SetDeadline(time.Now().Add(askWithin)) // a TCP connection has deadlines
	sent := make(chan struct{})
	go func() {
		_, _ = connection.Write(request(s, way, asked)) // a server may refuse before it has read all
		close(sent)
	}()
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return unanswered(r, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	_ = response.Body.Close() // it was read
	if err != nil {
		return unanswered(r, err)
	}
	return parseAnswer(response.StatusCode, string(body))
}

// unanswered returns a refusal for a connection that the server has closed without an answer. A server that has ended, or
// takes too long, is an error: the corpus has nothing that should lead to that.
func unanswered(r *frameworks.Running, err error) (answer, error) {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return answer{}, fmt.Errorf("no answer within %v", askWithin)
	}
	if err := r.OrEnded(nil); err != nil {
		return answer{}, err
	}
	return answer{answerRefused, "connection closed"}, nil
}

// request returns a request as it is sent.
func request(s *sample, way, asked string) []byte {
	var b bytes.Buffer
	b.WriteString("POST /" + way)
	if s.query != "" {
		b.WriteString("?" + s.query)
	}
	b.WriteString(" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Asked: " + asked + "\r\n")
	for _, t := range s.types {
		b.WriteString("Content-Type: " + t + "\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(s.body)) + "\r\n\r\n" + s.body)
	return b.Bytes()
}
