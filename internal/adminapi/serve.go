package adminapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
)

const (
	// maxQuestion bounds the body of a request, in bytes.
	maxQuestion = 1 << 20

	// maxWithData bounds one with a [Data], of which JSON may write each byte in six, as \u0000.
	maxWithData = maxQuestion + 6*MaxData
)

// Serve makes Caddy's route of an endpoint, whose questions a function answers. The answer is undecided where Redis could not
// be asked. It is written as JSON, with the status 503 where it is undecided. A [json.RawMessage] is written as it is.
func (e Endpoint[Question, Answer]) Serve(ask func(*http.Request) (answer Answer, undecided bool, err error)) caddy.AdminRoute {
	return caddy.AdminRoute{Pattern: e.route.Path(), Handler: caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if method := e.route.Method; r.Method != method {
			w.Header().Set("Allow", method)
			return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s: use %s", r.Method, method)}
		}
		r.Body = http.MaxBytesReader(w, r.Body, e.most)
		answer, undecided, err := ask(r)
		if err != nil {
			return apiError(err)
		}
		return writeAnswer(w, answer, undecided)
	})}
}

func writeAnswer(w http.ResponseWriter, answer any, undecided bool) error {
	w.Header().Set("Content-Type", "application/json")
	if undecided {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	if text, ok := answer.(json.RawMessage); ok {
		_, err := w.Write(text)
		return err
	}
	return json.NewEncoder(w).Encode(answer)
}

// apiError gives an error its status, unless it has one.
func apiError(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, new(caddy.APIError)):
		return err
	case errors.As(err, &tooLarge):
		return caddy.APIError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: fmt.Errorf("the body is over %d bytes", tooLarge.Limit)}
	}
	return caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err}
}

// readQuestion reads the JSON object of a body, which must hold nothing else. The JSON library would replace bytes and
// halves of surrogate pairs that are no characters, and of a field that is given twice take the last: text of a client
// that a caller has not escaped could name another client in this way.
func readQuestion(r *http.Request, question any) error {
	body, err := io.ReadAll(r.Body)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case err != nil:
		return BadInput("the body cannot be read: %v", err)
	case !utf8.Valid(body):
		return BadInput(`the body is not UTF-8; write such bytes of a key as \xNN`)
	case hasHalfPair(body):
		return BadInput(`the body has half a surrogate pair, which is no character; write bytes of a key as \xNN`)
	}
	if name := repeatedField(body); name != "" {
		return BadInput("the body has the field %s twice", name)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(question); err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("something follows after it")
	}
	return BadInput("the body is not the JSON that is expected: %v", err)
}

// escapes matches the escapes of JSON strings; its group is half of a surrogate pair alone.
var escapes = regexp.MustCompile(`(?s)\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)`)

// hasHalfPair reports whether an escape is half of a surrogate pair.
func hasHalfPair(body []byte) bool {
	for {
		found := escapes.FindSubmatchIndex(body)
		switch {
		case found == nil:
			return false
		case found[2] >= 0:
			return true
		}
		body = body[found[1]:]
	}
}

// repeatedField returns the name of a field that stands twice in a JSON object, in capital or small letters;
// empty for none, and for what is no object.
func repeatedField(body []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return ""
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return ""
		}
		if name = strings.ToLower(strings.ToUpper(name)); seen[name] { // as the JSON library folds letters
			return strconv.Quote(name)
		}
		seen[name] = true
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return ""
		}
	}
	return ""
}
