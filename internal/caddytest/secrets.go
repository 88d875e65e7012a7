package caddytest

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// forms returns the forms of a secret in a log, a response or an error.
func forms(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	return []string{secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), url.PathEscape(secret),
		url.UserPassword("u", secret).String()[2:]}
}

// CheckSecrets checks that the log and /config/ have no value of the environment.
func CheckSecrets(t *testing.T, n *Node, env []string) {
	t.Helper()
	log, config := n.Log.String(), n.Send(t, "GET", n.Admin+"/config/", "").Body
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		if strings.Contains(name, "PASSWORD") || strings.Contains(name, "SECRET") {
			CheckHidden(t, "the log", log, value)
			CheckHidden(t, "/config/", config, value)
		}
	}
}

// CheckHidden checks that a text has no form of a secret.
func CheckHidden(t *testing.T, place, text, secret string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if slices.ContainsFunc(forms(secret), func(form string) bool { return strings.Contains(line, form) }) {
			t.Errorf("%s shows the secret %q: %s", place, secret, line)
		}
	}
}

// Password has every special character of URLs, Caddyfiles and placeholders.
const Password = `p@ss:w/o?r#d%41{env.HOME}&=+ "\'`
