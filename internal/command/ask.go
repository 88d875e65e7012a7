package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// adminPath begins the paths of the admin API.
const adminPath = "/redis_ratelimit/"

// ask asks the admin API of the running Caddy and reads the answer into the report. With --json it is
// printed as it came. An error ends the command; where its code is that of a Redis that cannot be asked,
// the report has what the node knows by itself.
func (i *invocation) ask(method, path string, question, report any) error {
	if err := i.checkTexts(); err != nil {
		return err
	}
	address, err := i.adminAddress()
	if err != nil {
		return err
	}
	status, body, err := request(address, method, adminPath+path, question)
	if err != nil {
		return err
	}
	if !json.Valid(body) {
		return exitf(exitNotAsked, "the Caddy at %s has no endpoint %s: it was built without this module ('caddy list-modules' shows what it has), or another program listens there", address, adminPath+path)
	}
	if i.json {
		i.printJSON(body)
	}
	if err := json.Unmarshal(body, report); err != nil && status == http.StatusOK {
		return exitf(exitNotAsked, "the Caddy at %s answers in another way than this command reads; use the same build for both: %v", address, err)
	}
	return refusal(status, body)
}

// askedTexts are the flags with texts that are asked about, and how a byte that is no character is
// written there, if it can be.
var askedTexts = []struct{ flag, byteForm string }{
	{"key", `: write it \xNN, as 'top' does`}, {"url", ": write it %NN"}, {"policy", ""}, {"header", ""}, {"method", ""},
}

// checkTexts refuses texts that are no UTF-8: JSON has no form for them, and would ask about others.
func (i *invocation) checkTexts() error {
	for _, asked := range askedTexts {
		if f := i.cmd.Flags().Lookup(asked.flag); f != nil && !utf8.ValidString(f.Value.String()) {
			return exitf(exitNotAsked, "--%s %q has a byte that is no UTF-8%s", asked.flag, f.Value.String(), asked.byteForm)
		}
	}
	return nil
}

// adminAddress finds the admin endpoint the way that 'caddy reload' does.
func (i *invocation) adminAddress() (string, error) {
	if address := i.flag("address"); address != "" {
		return address, nil
	}
	config, file, adapter, err := i.loadConfig()
	if err != nil {
		return "", fmt.Errorf("%w; --address would do without a configuration", err)
	}
	return caddycmd.DetermineAdminAPIAddress("", config, file, adapter)
}

// request sends a question, nil for none.
func request(address, method, path string, question any) (status int, body []byte, err error) {
	var content io.Reader
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(text)
	}
	response, err := caddycmd.AdminAPIRequest(address, method, path, nil, content)
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

// answeredWith begins the error by which Caddy hands over an answer that is one; the status, a colon and
// the body follow.
const answeredWith = "caddy responded with error: HTTP "

// errorAnswer takes an answer out of Caddy's error. Any other error means that nobody answered.
func errorAnswer(address string, err error) (status int, body []byte, noAnswer error) {
	if text, ok := strings.CutPrefix(err.Error(), answeredWith); ok {
		code, text, _ := strings.Cut(text, ": ")
		if status, err := strconv.Atoi(code); err == nil {
			return status, []byte(text), nil
		}
	}
	cause := err.Error()
	if at := strings.Index(cause, "dial "); at >= 0 {
		cause = cause[at:] // before it stands the request
	}
	return 0, nil, exitf(exitNotAsked, "no Caddy answers at the admin address %s: start it, or name the address with --address or --config (%s)", address, cause)
}

// refusal is the error of an answer with that status, nil where it is none.
func refusal(status int, body []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &said) // an answer of another form has no reason in it
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusServiceUnavailable:
		return exitf(exitNoRedis, "Redis cannot be asked: %s", said.Error)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return exitf(exitNotAsked, "the admin endpoint refuses: %s", said.Error)
	case status == http.StatusNotFound && strings.HasSuffix(said.Error, "has no redis_ratelimit"):
		return exitf(exitNotAsked, "%s: no site of it has the directive", said.Error)
	case status >= 400 && status < 500:
		return exitf(exitRefused, "%s", said.Error)
	}
	return exitf(exitNotAsked, "the admin endpoint answers with status %d: %s", status, said.Error)
}

// knows tells whether there is something to show besides an error: an answer, or what the node knows
// while Redis is away.
func (i *invocation) knows(err error) bool {
	return !i.json && (err == nil || exitCode(err) == exitNoRedis)
}

// printJSON prints JSON as it is, on a terminal without what would not show: a character and its code
// are the same text in JSON.
func (i *invocation) printJSON(text []byte) {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for _, line := range lines {
		if i.terminal.isTerminal() {
			line = printable(line)
		}
		i.terminal.print(line + "\n")
	}
}
