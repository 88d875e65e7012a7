package redisratelimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

func init() {
	caddy.RegisterModule(Admin{})
}

// Admin answers questions about the limits of the running configuration at Caddy's admin endpoint,
// below /redis_ratelimit/. Keys travel in bodies, because Caddy logs admin URLs.
type Admin struct{}

// CaddyModule returns the Caddy module information.
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api." + appName, New: func() caddy.Module { return new(Admin) }}
}

// Routes returns the routes of the API.
func (Admin) Routes() []caddy.AdminRoute {
	const base = "/" + appName + "/"
	return []caddy.AdminRoute{
		{Pattern: base + "policies", Handler: answers(http.MethodGet, (*App).servePolicies)},
		{Pattern: base + "state", Handler: answers(http.MethodPost, (*App).serveState)},
		{Pattern: base + "reset", Handler: answers(http.MethodPost, (*App).serveReset)},
		{Pattern: base + "top", Handler: answers(http.MethodGet, (*App).serveTop)},
		{Pattern: base + "explain", Handler: answers(http.MethodPost, (*App).serveExplain)},
	}
}

// maxQuestion bounds the body of a request, in bytes.
const maxQuestion = 1 << 20

// answers makes a route of a question to the running app. What it returns is written as JSON, with the
// status 503 where the answer says that Redis could not be asked.
func answers(method string, ask func(a *App, r *http.Request) (answer any, undecided bool, err error)) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: fmt.Errorf("method %s: use %s", r.Method, method)}
		}
		app := running.newest()
		if app == nil {
			return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("the running configuration has no %s", appName)}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxQuestion)
		answer, undecided, err := ask(app, r)
		if err != nil {
			return apiError(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if undecided {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return json.NewEncoder(w).Encode(answer)
	}
}

// badInputError is what is wrong with a question.
type badInputError struct{ text string }

func (e badInputError) Error() string { return e.text }

func badInput(format string, args ...any) error { return badInputError{fmt.Sprintf(format, args...)} }

// unknownPolicyError is a policy that the running configuration does not have.
type unknownPolicyError struct{ name string }

func (e unknownPolicyError) Error() string {
	return fmt.Sprintf("policy %q: the running configuration has none of this name", e.name)
}

// apiError gives an error its status.
func apiError(err error) error {
	status := http.StatusInternalServerError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		status, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the body is over %d bytes", tooLarge.Limit)
	case errors.As(err, new(badInputError)):
		status = http.StatusBadRequest
	case errors.As(err, new(unknownPolicyError)):
		status = http.StatusNotFound
	}
	return caddy.APIError{HTTPStatus: status, Err: err}
}

// readQuestion reads the JSON of a body, which must be all that is there. The JSON library would put
// other characters in the place of bytes that are none.
func readQuestion(r *http.Request, question any) error {
	body, err := io.ReadAll(r.Body)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return err
	case err != nil:
		return badInput("the body cannot be read: %v", err)
	case !utf8.Valid(body):
		return badInput(`the body is not UTF-8; write such bytes of a key as \xNN`)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(question); err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("something follows after it")
	}
	return badInput("the body is not the JSON that is expected: %v", err)
}

// registeredNamed is the policy of a name.
func (a *App) registeredNamed(name string) (registeredPolicy, error) {
	claimed, found := a.registered[name]
	if !found {
		return claimed, unknownPolicyError{name}
	}
	return claimed, nil
}

// readQuota reads which share a question is about. Without a key it is the whole policy.
func (a *App) readQuota(r *http.Request) (claimed registeredPolicy, key *string, err error) {
	var question adminapi.QuotaRequest
	if err := readQuestion(r, &question); err != nil {
		return claimed, nil, err
	}
	if question.Policy == "" {
		return claimed, nil, badInput("policy: name one")
	}
	if claimed, err = a.registeredNamed(question.Policy); err != nil || !question.Key.Given {
		return claimed, nil, err
	}
	parsed, err := adminapi.ParseKeyText(question.Key.Text)
	if err != nil {
		return claimed, nil, badInput("%v", err)
	}
	return claimed, &parsed, nil
}

// hint helps who gives a client's whole address where the policy counts by its prefix.
func (r *registeredPolicy) hint(key string) string {
	if prefix := r.identity.shorten(key); prefix != key {
		return "clients' addresses are counted by their prefix here: this one's key is " + prefix
	}
	return ""
}

// servers are those of the running configuration.
func (a *App) servers() map[string]*caddyhttp.Server {
	module, err := a.ctx.AppIfConfigured("http")
	if err != nil {
		return nil
	}
	if app, ok := module.(*caddyhttp.App); ok {
		return app.Servers
	}
	return nil
}

// Interface guards
var _ caddy.AdminRouter = Admin{}
