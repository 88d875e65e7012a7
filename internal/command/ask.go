package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// ask asks an endpoint of the running Caddy's admin API, and returns the answer. With --json it prints the answer as it
// came. An error ends the command. If its code is exitNoRedis, the report holds the state of this node.
func ask[Question, Answer any](
	i *invocation, e adminapi.Endpoint[Question, Answer], question Question,
) (report Answer, err error) {
	if err := i.checkTexts(); err != nil {
		return report, err
	}
	address, err := i.adminAddress()
	if err != nil {
		return report, err
	}
	target, content, err := e.Write(question)
	if err != nil {
		return report, err
	}
	end := i.shows(func() string { return cmp.Or(i.waitsFor, "waiting for the answer of the Caddy at "+address) })
	status, body, err := request(address, e.Route().Method, target, content)
	end()
	if err != nil {
		return report, err
	}
	if !json.Valid(body) {
		return report, exitf(exitNotAsked, "the Caddy at %s has no endpoint %s: it was built without this module ('caddy list-modules' "+
			"shows what it has), or another program listens there", address, target)
	}
	if i.json {
		i.printJSON(body)
	}
	if err := json.Unmarshal(body, &report); err != nil && status == http.StatusOK {
		return report, exitf(exitNotAsked,
			"the answer of the Caddy at %s is of another version; use the same build for both: %v", address, err)
	}
	return report, refusal(status, body)
}

// textFlags are the flags whose text is sent as JSON, with the form of a byte that is not UTF-8, if the
// flag has such a form.
var textFlags = []struct{ flag, byteForm string }{
	{"key", `: write it \xNN, as 'top' does`}, {"url", ": write it %NN"}, {"policy", ""}, {"header", ""}, {"range", ""},
	{"method", ""}, {"note", ""}, {"for", ""},
}

// checkTexts refuses flags that are not UTF-8. JSON has no form for them and would replace their bytes.
func (i *invocation) checkTexts() error {
	for _, text := range textFlags {
		if f := i.cmd.Flags().Lookup(text.flag); f != nil && !utf8.ValidString(f.Value.String()) {
			return exitf(exitNotAsked, "--%s %q has a byte that is no UTF-8%s", text.flag, f.Value.String(), text.byteForm)
		}
	}
	return nil
}

// adminAddress finds the admin endpoint as 'caddy reload' does.
func (i *invocation) adminAddress() (string, error) {
	if address := i.flag("address"); address != "" {
		return address, nil
	}
	config, file, adapter, err := i.loadConfig()
	if err != nil {
		return "", fmt.Errorf("%w; use --address instead of a configuration", err)
	}
	var adapted struct {
		Admin struct {
			Disabled bool `json:"disabled"`
		} `json:"admin"`
	}
	if json.Unmarshal(config, &adapted) == nil && adapted.Admin.Disabled { // what is no JSON is refused below
		return "", exitf(exitNotAsked, "the configuration switches the admin API off; remove 'admin off', or name another Caddy with --address")
	}
	return caddycmd.DetermineAdminAPIAddress("", config, file, adapter)
}

// request sends a question with a body; nil is none.
func request(address, method, target string, question []byte) (status int, body []byte, err error) {
	var content io.Reader
	if question != nil {
		content = bytes.NewReader(question)
	}
	response, err := caddycmd.AdminAPIRequest(address, method, target, nil, content)
	if err != nil {
		return errorAnswer(address, err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("the answer of the Caddy at %s broke off: %w", address, err)
	}
	return response.StatusCode, body, nil
}

// answeredWith begins the error that Caddy returns for an answer with an error status. The status, a colon
// and the body follow.
const answeredWith = "caddy responded with error: HTTP "

// errorAnswer reads an answer from Caddy's error. Any other error means that there was no answer.
func errorAnswer(address string, err error) (status int, body []byte, noAnswer error) {
	if text, ok := strings.CutPrefix(err.Error(), answeredWith); ok {
		code, text, _ := strings.Cut(text, ": ")
		if status, err := strconv.Atoi(code); err == nil {
			return status, []byte(text), nil
		}
	}
	cause := err.Error()
	if at := strings.Index(cause, "dial "); at >= 0 {
		cause = cause[at:] // without the request's description
	}
	return 0, nil, exitf(exitNotAsked, "no Caddy answers at the admin address %s: start it, or name the address with --address or "+
		"--config (%s)", address, cause)
}

// refusal returns the error of an answer with that status; nil for 200.
func refusal(status int, body []byte) error {
	var answer struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &answer) // an answer of another form holds no reason
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusServiceUnavailable:
		return exitf(exitNoRedis, "Redis cannot be asked: %s", answer.Error)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return exitf(exitNotAsked, "the admin endpoint refuses: %s", answer.Error)
	case status == http.StatusNotFound && strings.HasSuffix(answer.Error, "has no redis_ratelimit"):
		return exitf(exitNotAsked, "%s: no site of it has the directive", answer.Error)
	case status >= 400 && status < 500:
		return exitf(exitRefused, "%s", answer.Error)
	}
	return exitf(exitNotAsked, "the admin endpoint answers with status %d: %s", status, answer.Error)
}

// hasReport reports whether there is a report to show besides an error: an answer, or the state of this
// node during an outage of Redis.
func (i *invocation) hasReport(err error) bool {
	return !i.json && (err == nil || exitCode(err) == exitNoRedis)
}

// printJSON prints JSON line by line. It escapes what does not print, which keeps the value.
func (i *invocation) printJSON(text []byte) {
	for line := range strings.Lines(strings.TrimRight(string(text), "\n") + "\n") {
		i.terminal.Print(display.EscapeJSON(strings.TrimSuffix(line, "\n")) + "\n")
	}
}
