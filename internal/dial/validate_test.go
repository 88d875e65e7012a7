package dial

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/credentials"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// TestConnection_Validate expects errors that name fields and quote no text.
func TestConnection_Validate(t *testing.T) {
	t.Parallel()
	const url = "redis://user:hunter2@127.0.0.1:1"
	one := []string{"127.0.0.1:1"}
	for name, c := range map[string]struct {
		options Connection
		want    string
	}{
		"no address":              {Connection{}, "Addresses: name at least one host:port"},
		"an unknown mode":         {Connection{Addresses: one, Mode: "hunter2"}, "Mode: use standalone, sentinel or cluster"},
		"no master":               {Connection{Addresses: one, Mode: Sentinel}, "Master: mode sentinel needs the master's name"},
		"a master alone":          {Connection{Addresses: one, Master: "hunter2"}, "Master: only mode sentinel has one"},
		"two addresses":           {Connection{Addresses: []string{"127.0.0.1:1", "hunter2"}}, "Addresses: mode standalone has one; for several use mode sentinel or cluster"},
		"no port":                 {Connection{Addresses: []string{"hunter2"}}, "Addresses: use host:port, or the absolute path of a socket"},
		"a sentinel's two":        {Connection{Addresses: one, Mode: Sentinel, Master: "m", SentinelPassword: "hunter2", SentinelCredentials: credentials.File("/x")}, "SentinelPassword, SentinelCredentials: leave one of them out"},
		"a URL for its user":      {Connection{Addresses: one, Mode: Sentinel, Master: "m", SentinelUsername: url}, "SentinelUsername: use the name of an ACL user; ParseURL reads URLs"},
		"a sentinel's user":       {Connection{Addresses: one, SentinelUsername: "hunter2"}, "SentinelUsername, SentinelPassword: only mode sentinel has them"},
		"a sentinel's file":       {Connection{Addresses: one, SentinelCredentials: credentials.File("/hunter2")}, "SentinelCredentials: only mode sentinel has it"},
		"password and file":       {Connection{Addresses: one, Password: "hunter2", Credentials: credentials.File("/x")}, "Password, Credentials: leave one of them out"},
		"a database of a cluster": {Connection{Addresses: one, Mode: Cluster, DB: 1}, "DB: mode cluster uses database 0 alone; leave it out"},
		"a negative database":     {Connection{Addresses: one, DB: -1}, "DB -1: use a number from 0"},
		"too many connections":    {Connection{Addresses: one, PoolSize: 65536}, "PoolSize 65536: use a whole number from 1 to 65535"},
		"a negative timeout":      {Connection{Addresses: one, Timeout: -1}, "Timeout -1ns: use a duration above 0"},
		"a port of words":         {Connection{Addresses: []string{"127.0.0.1:1", "127.0.0.1:hunter2"}, Mode: Cluster}, "Addresses 2: the port is no number from 1 to 65535"},
		"a socket of a cluster":   {Connection{Addresses: []string{"/hunter2"}, Mode: Cluster}, "Addresses: mode cluster needs host:port"},
		"two in one value":        {Connection{Addresses: []string{"a,b:1"}}, "Addresses: use host:port; several are values of their own, without commas"},
		"a URL for an address":    {Connection{Addresses: []string{url}}, "Addresses: use host:port, or the absolute path of a socket; ParseURL reads URLs"},
		"a URL for a user":        {Connection{Addresses: one, Username: url}, "Username: use the name of an ACL user; ParseURL reads URLs"},
		"a user alone":            {Connection{Addresses: one, Username: "hunter2"}, "Username: needs a password; in a URL a password alone comes after a colon, redis://:<password>@<host>"},
		"a sentinel's user alone": {Connection{Addresses: one, Mode: Sentinel, Master: "m", SentinelUsername: "hunter2"}, "SentinelUsername: needs a password; in a URL a password alone comes after a colon, redis://:<password>@<host>"},
		"a URL for a master":      {Connection{Addresses: one, Mode: Sentinel, Master: url}, "Master: use the name that the sentinels watch; ParseURL reads URLs"},
	} {
		err := c.options.Validate()
		var field *limiter.FieldError
		assert.ErrorIf(t, !errors.As(err, &field) || err.Error() != c.want || strings.Contains(err.Error(), "hunter2"),
			"%s: got %v, want %s", name, err, c.want)
		isURL := strings.HasSuffix(c.want, "URLs")
		assert.ErrorIf(t, errors.Is(err, ErrUseParseURL) != isURL, "%s: %v is ErrUseParseURL: %v, want %v", name, err, !isURL, isURL)
	}
}

// TestParseURL reads URLs, and quotes none in an error.
func TestParseURL(t *testing.T) {
	t.Parallel()
	const socket, database = "redis URL: the only parameter of a socket is db", "redis URL: the database must be a number from 0"
	const (
		hosts    = "redis URL: names several hosts; set Addresses of dial.Options"
		password = "redis URL: '/', '?' and '#' in user and password are written %2F, %3F and %23; set Password of dial.Options"
		unix     = "redis URL: a socket is written unix:///path/to/redis.sock"
		other    = "redis URL: the parameter "
	)
	for text, want := range map[string]string{
		"redis://":                                `["localhost:6379"] "" "" 0 ""`,
		"redis://user:p%40ss@10.0.0.1:1/3":        `["10.0.0.1:1"] "user" "p@ss" 3 ""`,
		"rediss://:secret@[::1]":                  `["[::1]:6379"] "" "secret" 0 "::1"`,
		"unix:///run/redis.sock":                  `["/run/redis.sock"] "" "" 0 ""`,
		"unix://user:secret@/run/redis.sock?db=2": `["/run/redis.sock"] "user" "secret" 2 ""`,
		"redis://127.0.0.1?hunter2=1":             ErrURLParameters.Error(),
		"redis://127.0.0.1#hunter2":               ErrURLParameters.Error(),
		"redis://127.0.0.1/hunter2":               database,
		"unix:///run/redis.sock?db=-1":            database,
		"unix:///run/redis.sock?word=hunter2":     socket,
		"unix:///run/redis.sock#hunter2":          socket,
		"unix://hunter2":                          "redis URL: a socket is written unix:///path/to/redis.sock",
		"redis://a:1,b:2":                         hosts,
		"redis://:hunter2@a:1,b/0":                hosts,
		"rediss://user:hunter2,x@a,b:2":           hosts,
		"redis://user:hun,ter2@10.0.0.1:1":        `["10.0.0.1:1"] "user" "hun,ter2" 0 ""`,
		"redis://:hunter2#x@10.0.0.1":             password,
		"redis://:12#hunter2@10.0.0.1:1/0":        password,
		"redis://:12?hunter2@10.0.0.1":            password,
		"redis://hunter2?x@10.0.0.1":              password,
		"redis://u:12/hunter2@10.0.0.1":           password,
		"redis://u:hunter2@x#y@10.0.0.1":          password,
		"unix://u:12#hunter2@/run/redis.sock":     password,
		"redis:///run/hunter2.sock":               unix,
		"redis://:hunter2@/run/redis.sock":        unix,
		"valkey://user:p%40ss@10.0.0.1:1/3":       `["10.0.0.1:1"] "user" "p@ss" 3 ""`,
		"valkeys://redis.example":                 `["redis.example:6379"] "" "" 0 "redis.example"`,
		"redis:///3":                              `["localhost:6379"] "" "" 3 ""`,
		"unix:///run/a@b,c.sock":                  `["/run/a@b,c.sock"] "" "" 0 ""`,

		"rediss://10.0.0.1?ssl_cert_reqs=hunter2":  other + "ssl_cert_reqs is one of other clients of Redis; set TLS.VerifyConnection of dial.Options",
		"redis://10.0.0.1?hunter2=x&SSL=true":      other + "ssl is one of other clients of Redis; set TLS of dial.Options",
		"redis://10.0.0.1/0?ssl-ca-certs=hunter2":  other + "ssl-ca-certs is one of other clients of Redis; set TLS.RootCAs of dial.Options",
		"redis://10.0.0.1?password=hunter2":        other + "password is one of other clients of Redis; set Password of dial.Options",
		"redis://10.0.0.1?client_name=hunter2":     other + "client_name is one of other clients of Redis; leave it out",
		"unix:///run/redis.sock?db=1&pool_size=30": other + "pool_size is one of other clients of Redis; set PoolSize of dial.Options",

		"redis:hunter2":                 "redis URL: write // behind the scheme, such as redis://127.0.0.1:6379",
		"http://hunter2":                "redis URL: the scheme must be redis://, rediss:// or unix://",
		"redis://:hunter2%zz@127.0.0.1": "redis URL: cannot be parsed; use redis://, rediss:// or unix://, with '%', '@', '/' and ':' in user and password percent-encoded",
	} {
		o, err := ParseURL(text)
		name := ""
		if o.TLS != nil {
			name = o.TLS.ServerName
		}
		got := fmt.Sprintf("%q %q %q %d %q", o.Addresses, o.Username, o.Password, o.DB, name)
		if err != nil {
			got = err.Error()
		}
		assert.Equal(t, got, want, "%s", text)
		assert.ErrorIf(t, errors.Is(err, ErrURLParameters) != (strings.HasPrefix(want, other) || want == ErrURLParameters.Error()), "%s: %v", text, err)
	}
}
