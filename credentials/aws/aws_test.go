package aws

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestSign compares tokens with ones that another implementation of Signature Version 4 has made, and with those of
// signedByHand.
func TestSign(t *testing.T) {
	signer := sdk.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: "a/session+token="}
	for _, c := range []struct {
		given *Credentials
		want  string
	}{
		{&Credentials{Region: "eu-central-1", Cluster: "main", User: "app", Service: "elasticache", Serverless: false}, "main/?Action=connect&User=app&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Feu-central-1%2Felasticache%2Faws4_request&X-Amz-Date=20260102T030405Z&X-Amz-Expires=900&X-Amz-Security-Token=a%2Fsession%2Btoken%3D&X-Amz-SignedHeaders=host&X-Amz-Signature=885645dad1f2747a0114a2a50b7b761621848375f333efa7b283ee27074aafcc"},
		{&Credentials{Region: "us-east-1", Cluster: "my-cache", User: "app user", Service: "elasticache", Serverless: true}, "my-cache/?Action=connect&ResourceType=ServerlessCache&User=app%20user&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Fus-east-1%2Felasticache%2Faws4_request&X-Amz-Date=20260102T030405Z&X-Amz-Expires=900&X-Amz-Security-Token=a%2Fsession%2Btoken%3D&X-Amz-SignedHeaders=host&X-Amz-Signature=59251f8b73c6818f0c1fb3170deb9b83f1d9adda144a39c775662c524176abf6"},
		{&Credentials{Region: "ap-southeast-2", Cluster: "shop", User: "app", Service: "memorydb", Serverless: false}, "shop/?Action=connect&User=app&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Fap-southeast-2%2Fmemorydb%2Faws4_request&X-Amz-Date=20260102T030405Z&X-Amz-Expires=900&X-Amz-Security-Token=a%2Fsession%2Btoken%3D&X-Amz-SignedHeaders=host&X-Amz-Signature=fbbbc49c0cce454aff52558ec27b3d003f606303b762832f860d0ab3fa7fe8fa"},
	} {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		got, err := c.given.sign(t.Context(), signer, at)
		if err != nil || parts(t, got) != parts(t, c.want) {
			t.Errorf("%s: got %s, %v; want %s", c.given.Identity(), got, err, c.want)
		}
		if want := signedByHand(c.given, signer, at); parts(t, got) != parts(t, want) {
			t.Errorf("%s: got %s; the description gives %s", c.given.Identity(), got, want)
		}
	}
}

// TestSign_by_hand compares tokens of random users, sessions and moments with those of signedByHand.
func TestSign_by_hand(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, 1+random.IntN(40))
		for i := range b {
			b[i] = byte(random.IntN(256))
		}
		return string(b)
	}
	for range 2000 {
		c := example()
		c.User, c.Serverless = text(), random.IntN(2) == 0
		signer := sdk.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: text()}
		if random.IntN(2) == 0 {
			signer.SessionToken = text()
		}
		at := time.Unix(random.Int64N(4e9), 0).UTC()
		got, err := c.sign(t.Context(), signer, at)
		if want := signedByHand(c, signer, at); err != nil || parts(t, got) != parts(t, want) {
			t.Fatalf("got %s, %v; want %s", got, err, want)
		}
	}
}

// signedByHand returns the token by the description of Signature Version 4 alone: the canonical request, the text that
// is signed, and a key for the day, the region and the service.
func signedByHand(c *Credentials, signer sdk.Credentials, at time.Time) string {
	moment := at.Format("20060102T150405Z")
	day := moment[:8]
	scope := strings.Join([]string{day, c.Region, c.Service, "aws4_request"}, "/")
	pairs := []string{
		"Action=connect", "User=" + escaped(c.User), "X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Credential=" + escaped(signer.AccessKeyID+"/"+scope),
		"X-Amz-Date=" + moment, "X-Amz-Expires=900", "X-Amz-SignedHeaders=host",
	}
	if signer.SessionToken != "" {
		pairs = append(pairs, "X-Amz-Security-Token="+escaped(signer.SessionToken))
	}
	if c.Serverless {
		pairs = append(pairs, "ResourceType=ServerlessCache")
	}
	slices.Sort(pairs)
	query := strings.Join(pairs, "&")
	canonical := strings.Join([]string{"GET", "/", query, "host:" + c.Cluster + "\n", "host", fmt.Sprintf("%x", sha256.Sum256(nil))}, "\n")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", moment, scope, fmt.Sprintf("%x", sha256.Sum256([]byte(canonical)))}, "\n")
	key := []byte("AWS4" + signer.SecretAccessKey)
	for _, word := range []string{day, c.Region, c.Service, "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(word)) // never fails
		key = mac.Sum(nil)
	}
	return fmt.Sprintf("%s/?%s&X-Amz-Signature=%x", c.Cluster, query, key)
}

// escaped escapes all bytes but letters, digits and -._~, as signatures need it.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte("-._~", c) >= 0 || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' {
			_ = b.WriteByte(c) // never fails
		} else {
			_, _ = fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// parts returns what a token holds, whatever the order of its query.
func parts(t *testing.T, token string) string {
	t.Helper()
	host, query, _ := strings.Cut(token, "/?")
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Error(err)
	}
	return host + " " + values.Encode()
}

// metadata is the metadata service of an instance, which answers with a status.
func metadata(t *testing.T, status int, pause time.Duration) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
		}
		switch path := r.URL.Path; {
		case path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			_, _ = fmt.Fprint(w, "session")
		case status != http.StatusOK:
			w.WriteHeader(status)
		case strings.HasSuffix(path, "/security-credentials/"):
			_, _ = fmt.Fprint(w, "role")
		case strings.HasSuffix(path, "/role"):
			_ = json.NewEncoder(w).Encode(map[string]any{"Code": "Success", "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "hunter2", "Token": "t", "Expiration": time.Now().Add(time.Hour)})
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	onInstance(t, server.URL)
}

// onInstance makes a metadata service the only source of identities.
func onInstance(t *testing.T, address string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_SERVICE_ENDPOINT": address, "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "false", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
}

func example() *Credentials {
	return &Credentials{Region: "eu-central-1", Cluster: "main", User: "app", Service: "elasticache"}
}

func TestLogin(t *testing.T) {
	metadata(t, http.StatusOK, 0)
	login, err := example().Login(t.Context())
	if left := time.Until(login.End); err != nil || login.Username != "app" || left < lifetime-time.Minute || left > lifetime ||
		!strings.HasPrefix(login.Password, "main/?Action=connect&User=app&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F") || strings.Contains(login.Password, "hunter2") {
		t.Errorf("got user %s, end in %v, password %s; %v", login.Username, left, login.Password, err)
	}
}

// TestLogin_failing has a metadata service that fails, is slow, or is not there. Each login ends with the context.
func TestLogin_failing(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T){
		"no role":     func(t *testing.T) { metadata(t, http.StatusNotFound, 0) },
		"failing":     func(t *testing.T) { metadata(t, http.StatusInternalServerError, 0) },
		"slow":        func(t *testing.T) { metadata(t, http.StatusOK, time.Minute) },
		"unreachable": func(t *testing.T) { onInstance(t, "http://127.0.0.1:1") },
	} {
		t.Run(name, func(t *testing.T) {
			begin(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := example().Login(ctx)
			if err == nil || !strings.HasPrefix(err.Error(), "AWS gives this process no identity") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCredentials_refused(t *testing.T) {
	for text, want := range map[string]string{
		"region Frankfurt\ncluster main\nuser app":                                  "region: use",
		"region eu-central-1\ncluster main.abc.euc1.cache.amazonaws.com\nuser app":  "cluster: use the name",
		"region eu-central-1\ncluster main":                                         "user: name",
		"region eu-central-1\ncluster main\nuser app\nservice redis":                "service: use",
		"region eu-central-1\ncluster main\nuser app\nservice memorydb\nserverless": "serverless: only",
		"region {env.NO_SUCH}\ncluster main\nuser app":                              "region: a placeholder",
		"regions eu-central-1":                                                      "aws: write",
		"serverless yes":                                                            "aws: write",
		"region a b":                                                                "aws: write",
	} {
		c := new(Credentials)
		err := c.UnmarshalCaddyfile(caddyfile.NewTestDispenser("aws {\n" + text + "\n}"))
		if err == nil {
			err = c.Provision(caddy.Context{Context: t.Context()})
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
