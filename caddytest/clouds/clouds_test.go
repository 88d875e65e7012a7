// Package clouds tests a Caddy with the sources of all clouds.
package clouds

import (
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
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/redis-ratelimit/caddy-redis-ratelimit"
	_ "github.com/redis-ratelimit/caddy-redis-ratelimit/credentials/aws"
	_ "github.com/redis-ratelimit/caddy-redis-ratelimit/credentials/azure"
	_ "github.com/redis-ratelimit/caddy-redis-ratelimit/credentials/gcp"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// TestMain makes the program of the tests the Caddy under test too. It is the tests if it has their flags.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		caddycmd.Main()
		return
	}
	if err := os.Setenv("CADDY_BINARY", os.Args[0]); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// secret is what the services of these tests answer, and nothing may show.
const secret = "hunter2"

// service answers all requests with a status and a text. A status of 0 never answers.
func service(t *testing.T, status int, text string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked, ended := new(atomic.Int32), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if status == 0 {
			<-ended
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, text) // or the client is gone
	}))
	t.Cleanup(func() {
		close(ended)
		server.Close()
	})
	return server.URL, asked
}

// onAWS, onAzure and onGoogle make a service the metadata of a machine.
func onAWS(url string) []string { return []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + url} }

func onAzure(url string) []string {
	return []string{"IDENTITY_ENDPOINT=" + url, "IDENTITY_HEADER=header"}
}

func onGoogle(url string) []string {
	return []string{"GCE_METADATA_HOST=" + strings.TrimPrefix(url, "http://")}
}

// byRole takes the identity of a role from a service.
func byRole(t *testing.T, url string) []string {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	assert.Must(t, os.WriteFile(token, []byte(secret), 0o600))
	return []string{"AWS_ROLE_ARN=arn:aws:iam::123456789012:role/app", "AWS_WEB_IDENTITY_TOKEN_FILE=" + token, "AWS_ENDPOINT_URL_STS=" + url}
}

// byAccount takes the identity of a service account's file from a service.
func byAccount(t *testing.T, url string) []string {
	t.Helper()
	key := assert.NoError(rsa.GenerateKey(rand.Reader, 2048))(t)
	text := assert.NoError(json.Marshal(map[string]string{
		"type": "service_account", "client_email": "a@example.com", "token_uri": url,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	}))(t)
	path := filepath.Join(t.TempDir(), "account.json")
	assert.Must(t, os.WriteFile(path, text, 0o600))
	return []string{"GOOGLE_APPLICATION_CREDENTIALS=" + path}
}

// azureToken is the answer of a metadata service whose token ends after a while.
func azureToken(lasts time.Duration) string {
	return fmt.Sprintf(`{"access_token":"e30.eyJvaWQiOiJhcHAifQ.%s","expires_on":"%d","resource":"https://redis.azure.com","token_type":"Bearer"}`, secret, time.Now().Add(lasts).Unix())
}

// refusedBySTS is the answer of AWS to a process that may not be a role.
const refusedBySTS = `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>1</RequestId></ErrorResponse>`

// sources are the options of each cloud.
var sources = map[string]string{"aws": "aws {\nregion eu-central-1\ncluster main\nuser app\n}", "azure": "azure", "gcp": "gcp"}

// TestCheck_clouds has clouds that give no login, and a Redis that refuses the one that they give. Each is one finding.
func TestCheck_clouds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "another")
	const unasked, refused = 3, 2
	at := func(on func(url string) []string, status int, text string) func(t *testing.T) []string {
		return func(t *testing.T) []string {
			t.Helper()
			url, _ := service(t, status, text)
			return on(url)
		}
	}
	by := func(from func(t *testing.T, url string) []string, status int, text string) func(t *testing.T) []string {
		return func(t *testing.T) []string {
			t.Helper()
			url, _ := service(t, status, text)
			return from(t, url)
		}
	}
	nowhere := func(on func(url string) []string) func(t *testing.T) []string {
		return func(*testing.T) []string { return on("http://127.0.0.1:1") }
	}
	const refusal = "WRONGPASS"
	for _, c := range []struct {
		cloud, name string
		env         func(t *testing.T) []string
		code        int
		want        string
	}{
		{"aws", "unreachable metadata", nowhere(onAWS), unasked, "credentials: AWS gives this process no identity: "},
		{"aws", "slow metadata", at(onAWS, 0, ""), unasked, "credentials: AWS gives this process no identity in time; "},
		{"aws", "no role", at(onAWS, http.StatusNotFound, ""), unasked, "credentials: AWS gives this process no identity: "},
		{"aws", "no right to the role", by(byRole, http.StatusForbidden, fmt.Sprintf(refusedBySTS, "AccessDenied", "Not authorized")), unasked, "credentials: AWS refuses an identity: AccessDenied: Not authorized"},
		{"aws", "a clock that is off", by(byRole, http.StatusBadRequest, fmt.Sprintf(refusedBySTS, "ExpiredTokenException", "Token expired")), unasked, "credentials: AWS refuses an identity: ExpiredTokenException: Token expired"},
		{"aws", "a wrong region", func(*testing.T) []string {
			return []string{"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=" + secret}
		}, refused, refusal},
		{"azure", "unreachable metadata", nowhere(onAzure), unasked, "credentials: Entra ID gives this process no token in time; "},
		{"azure", "slow metadata", at(onAzure, 0, ""), unasked, "credentials: Entra ID gives this process no token in time; "},
		{"azure", "no identity", at(onAzure, http.StatusBadRequest, secret), unasked, "credentials: Entra ID gives this process no token: status 400"},
		{"azure", "a clock that is off", at(onAzure, http.StatusOK, azureToken(-time.Minute)), unasked, "credentials: what the provider has returned has ended already; set this machine's clock"},
		{"azure", "no user of the cache", at(onAzure, http.StatusOK, azureToken(time.Hour)), refused, refusal},
		{"gcp", "unreachable metadata", nowhere(onGoogle), unasked, "credentials: Google gives this process no token; "},
		{"gcp", "slow metadata", at(onGoogle, 0, ""), unasked, "credentials: Google gives this process no token in time; "},
		{"gcp", "no account", at(onGoogle, http.StatusNotFound, secret), unasked, "credentials: Google gives this process no token; "},
		{"gcp", "no scope", at(onGoogle, http.StatusForbidden, secret), unasked, "credentials: Google refuses a token: status 403; "},
		{"gcp", "a clock that is off", by(byAccount, http.StatusBadRequest, `{"error":"invalid_grant","error_description":"`+secret+`"}`), unasked, "credentials: Google refuses a token: status 400; "},
		{"gcp", "no role", at(onGoogle, http.StatusOK, `{"access_token":"`+secret+`","expires_in":3600,"token_type":"Bearer"}`), refused, refusal},
	} {
		t.Run(c.cloud+" "+c.name, func(t *testing.T) {
			t.Parallel()
			option := "redis {\naddress " + server.Addr + " \ncredentials " + sources[c.cloud] + "\n}"
			file := caddytest.WriteCaddyfile(t, "{\nredis_ratelimit {\n"+option+"\n}\n}\n:8080 {\n"+caddytest.LimitedSite+"\n}\n")
			e := caddytest.RunRatelimit(t, c.env(t), "check", "--config", file, "--json")
			var findings []struct{ Check, Result, Detail, Advice string }
			assert.Must(t, json.Unmarshal([]byte(e.Stdout), &findings))
			if len(findings) != 2 || findings[1].Check != "key_prefix" || findings[0].Check != "reachable" || findings[0].Result != "failed" || !strings.Contains(findings[0].Detail, c.want) || e.Code != c.code || e.Stderr != "" {
				t.Errorf("want code %d and %q; got %v", c.code, c.want, e)
			}
			if c.want == refusal && !strings.HasSuffix(findings[0].Advice, "of a source of credentials check settings, rights and this machine's clock") {
				t.Errorf("got the advice %s", findings[0].Advice)
			}
			caddytest.CheckHidden(t, "check", e.String(), secret)
		})
	}
}

var (
	snippets   = regexp.MustCompile("\n```caddyfile-snippet\n((?s:.*?))```\n")
	nameOfOne  = regexp.MustCompile(`(?m)^\tcredentials (\w+)`)
	authority  = "/etc/caddy/memorystore-ca.pem"
	cloudsPage = "../../docs/clouds.md"
)

// TestDocuments_clouds loads each Caddyfile of the page, which asks no service.
func TestDocuments_clouds(t *testing.T) {
	t.Parallel()
	page := assert.NoError(os.ReadFile(cloudsPage))(t)
	url, asked := service(t, http.StatusOK, "")
	env := append(append(onAWS(url), onAzure(url)...), onGoogle(url)...)
	shown := map[string]bool{}
	for _, found := range snippets.FindAllStringSubmatch(string(page), -1) {
		name := nameOfOne.FindStringSubmatch(found[1])
		assert.FatalIf(t, name == nil, "no source of credentials in\n%s", found[1])
		shown[name[1]] = true
		option := strings.ReplaceAll(found[1], authority, redistest.NewAuthority(t).CA)
		option = "\t\t" + strings.ReplaceAll(strings.TrimSpace(option), "\n", "\n\t\t")
		caddytest.CheckCaddyfile(t, "{\n\tredis_ratelimit {\n"+option+"\n\t}\n}\n\n:8080 {\n\tredis_ratelimit {remote_host} 2 24h\n}\n", env)
	}
	assert.ErrorIf(t, len(shown) != len(sources), "%s shows %v; want all of %v", cloudsPage, shown, sources)
	assert.Equal(t, asked.Load(), 0, "the number of requests to the clouds")
}
