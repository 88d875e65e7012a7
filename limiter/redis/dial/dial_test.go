package dial

import (
	"context"
	"crypto/tls"
	"reflect"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

type provider struct{ name string }

func (p provider) Identity() string                               { return p.name }
func (provider) Login(context.Context) (credentials.Login, error) { return credentials.Login{}, nil }

// TestOptions_internal fills every field, and finds each in the options that decide.
func TestOptions_internal(t *testing.T) {
	t.Parallel()
	onLogin, loadTLS := func(error) {}, func() (*tls.Config, error) { return nil, nil } //nolint:nilnil // is not called
	o := Options{
		Mode: Cluster, Addresses: []string{"a:1"}, Master: "m", Username: "u", Password: "p", SentinelUsername: "su", SentinelPassword: "sp",
		DB: 3, Credentials: provider{"c"}, SentinelCredentials: provider{"sc"}, OnLogin: onLogin, TLS: &tls.Config{ServerName: "s", MinVersion: tls.VersionTLS12},
		LoadTLS: loadTLS, PoolSize: 7, Timeout: time.Second,
	}
	got, want := reflect.ValueOf(o.internal()), reflect.ValueOf(o)
	for i := range got.NumField() {
		name := got.Type().Field(i).Name
		field := want.FieldByName(name)
		assert.FatalIf(t, !field.IsValid() || field.IsZero(), "%s is not filled", name)
		if field.Kind() == reflect.Func {
			assert.Equal(t, got.Field(i).Pointer(), field.Pointer(), "%s", name)
			continue
		}
		assert.ErrorIf(t, !reflect.DeepEqual(got.Field(i).Interface(), field.Convert(got.Field(i).Type()).Interface()), "%s is %v", name, got.Field(i))
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"rediss://alice:secret@redis.example.com/4", "unix://:secret@/run/redis.sock?db=2"} {
		o, err := ParseURL(url)
		assert.Must(t, err)
		want, err := dial.ParseURL(url)
		assert.Must(t, err)
		assert.ErrorIf(t, !reflect.DeepEqual(o.internal(), want), "%s is %+v", url, o)
	}
	_, err := ParseURL("http://alice:secret@host")
	assert.ErrorIf(t, err == nil, "a web address is no Redis")
}
