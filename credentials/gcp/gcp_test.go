package gcp

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// tokens is a service that returns tokens, or a status, after a pause.
func tokens(t *testing.T, status int, pause time.Duration) *httptest.Server {
	t.Helper()
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-time.After(pause):
		case <-ended:
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, `{"access_token":"hunter2","expires_in":3600,"token_type":"Bearer"}`)
	}))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	return server
}

// machine is a metadata service, of a machine whose service account is the identity.
func machine(t *testing.T, status int, pause time.Duration) {
	t.Helper()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(tokens(t, status, pause).URL, "http://"))
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
}

// account is a file of a service account.
func account(t *testing.T, status int, pause time.Duration) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@example.com", "token_uri": tokens(t, status, pause).URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	path := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
}

var identities = map[string]func(t *testing.T, status int, pause time.Duration){"machine": machine, "account": account}

func TestLogin(t *testing.T) {
	for name, begin := range identities {
		t.Run(name, func(t *testing.T) {
			begin(t, http.StatusOK, 0)
			login, err := Credentials{}.Login(t.Context())
			if left := time.Until(login.End); err != nil || login.Username != "" || login.Password != "hunter2" || left < 59*time.Minute || left > time.Hour {
				t.Errorf("got end in %v; %v", left, err)
			}
		})
	}
}

func TestLogin_failing(t *testing.T) {
	for name, begin := range identities {
		for failure, c := range map[string]struct {
			status int
			pause  time.Duration
			want   string
		}{
			"refused": {http.StatusForbidden, 0, "Google refuses a token: status 403; "},
			"slow":    {http.StatusOK, time.Minute, "Google gives this process no token in time; "},
		} {
			t.Run(name+" "+failure, func(t *testing.T) {
				begin(t, c.status, c.pause)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := Credentials{}.Login(ctx)
				if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("got %v, want %s", err, c.want)
				}
			})
		}
	}
}

func TestLogin_without_an_identity(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none"))
	if _, err := (Credentials{}).Login(t.Context()); err == nil || err.Error() != errNone.Error() {
		t.Errorf("got %v", err)
	}
}

func TestCredentials_refused(t *testing.T) {
	for _, text := range []string{"gcp x", "gcp {\nuser x\n}"} {
		if err := new(Credentials).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}
