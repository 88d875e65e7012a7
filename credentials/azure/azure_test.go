package azure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// metadata is the service for managed identities of an App Service. Its tokens last for a while.
func metadata(t *testing.T, status int, pause, lasts time.Duration, claims string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
		}
		if r.Header.Get("X-Identity-Header") != "header" || r.URL.Query().Get("resource") != "https://redis.azure.com" || status != http.StatusOK {
			w.WriteHeader(max(status, http.StatusBadRequest))
			return
		}
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".hunter2"
		_ = json.NewEncoder(w).Encode(map[string]string{
			"access_token": token, "expires_on": strconv.FormatInt(time.Now().Add(lasts).Unix(), 10), "resource": "https://redis.azure.com", "token_type": "Bearer",
		})
	}))
	t.Cleanup(server.Close)
	t.Setenv("IDENTITY_ENDPOINT", server.URL)
	t.Setenv("IDENTITY_HEADER", "header")
}

func TestLogin(t *testing.T) {
	metadata(t, http.StatusOK, 0, time.Hour, `{"oid":"object"}`)
	login, err := new(Credentials).Login(t.Context())
	if left := time.Until(login.End); err != nil || login.Username != "object" || !strings.HasSuffix(login.Password, ".hunter2") || left < 59*time.Minute || left > time.Hour {
		t.Errorf("got user %s, end in %v; %v", login.Username, left, err)
	}
}

// TestLogin_failing has a metadata service that refuses, is slow, or returns what is no token for Redis.
func TestLogin_failing(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		pause  time.Duration
		claims string
		want   string
	}{
		"refused":      {http.StatusForbidden, 0, "", "Entra ID gives this process no token: status 403"},
		"slow":         {http.StatusOK, time.Minute, "", "Entra ID gives this process no token in time; "},
		"no object ID": {http.StatusOK, 0, `{"oid":1}`, "the token of Entra ID has no object ID"},
	} {
		t.Run(name, func(t *testing.T) {
			metadata(t, c.status, c.pause, time.Hour, c.claims)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := (&Credentials{ClientID: name}).Login(ctx) // the SDK caches tokens by the ID
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestCredentials_refused(t *testing.T) {
	for text, want := range map[string]string{"azure x": "azure takes no values", "azure {\nuser x\n}": "azure: write client_id", "azure {\nclient_id {env.NO_SUCH}\n}": "client_id: a placeholder"} {
		c := new(Credentials)
		err := c.UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
		if err == nil {
			err = c.Provision(caddy.Context{Context: t.Context()})
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
