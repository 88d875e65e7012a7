package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// askWithin bounds one request.
const askWithin = 30 * time.Second

// errRefused is the error of a request that was not answered with an object.
var errRefused = errors.New("refused")

// ask sends a request, and decodes an answer of status 200. All others are refusals.
func ask(r *frameworks.Running, request []byte, answer any) error {
	connection, err := net.Dial("tcp", r.Address)
	if err != nil {
		return r.OrEnded(err)
	}
	defer func() { _ = connection.Close() }()             // nothing is left to be sent
	_ = connection.SetDeadline(time.Now().Add(askWithin)) // a TCP connection has deadlines
	if _, err := connection.Write(request); err != nil {
		return r.OrEnded(errRefused)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer within %v", askWithin)
	case err != nil:
		return r.OrEnded(errRefused)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if response.StatusCode != http.StatusOK {
		return errRefused
	}
	if err != nil || json.Unmarshal(body, answer) != nil {
		return fmt.Errorf("no object: %.80q", body)
	}
	return nil
}

// readings are what readers have of inputs, by reader and number of the input.
type readings map[string]map[int]string

// add adds what readers have of an input. Nothing, an empty text, and a text that was no UTF-8 are no values.
func (r readings) add(number int, answer map[string]any) {
	for reader, value := range answer {
		text, isText := value.(string)
		if !isText && value != nil {
			encoded, _ := json.Marshal(value) // it was decoded
			text = string(encoded)
		}
		if text == "" || strings.ContainsRune(text, '\ufffd') {
			continue
		}
		if r[reader] == nil {
			r[reader] = map[int]string{}
		}
		r[reader][number] = text
	}
}

// readAll asks a server for all inputs through a Caddy.
func (s *server) readAll(proxy *frameworks.Running, inputs []input) (readings, error) {
	all := readings{}
	for number := range inputs {
		in := &inputs[number]
		if !s.isAsked(in.group) {
			continue
		}
		asked := s.pathsFor(in.group)
		if in.group >= paths {
			asked = asked[:1]
		}
		for _, path := range asked {
			var answer map[string]any
			if err := ask(proxy, in.request(path), &answer); errors.Is(err, errRefused) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", in.name(), err)
			}
			all.add(number, answer)
		}
	}
	return all, nil
}
