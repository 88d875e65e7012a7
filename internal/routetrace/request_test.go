package routetrace

import (
	"net/url"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestLocalAddress(t *testing.T) {
	for _, test := range []struct {
		listen    []string
		url, want string
	}{
		{[]string{":8080"}, "http://192.0.2.1:8080/", "192.0.2.1:8080"},
		{[]string{":8080"}, "http://[2001:db8::1]:8080/", "[2001:db8::1]:8080"},
		{[]string{":8080"}, "http://example.com:8080/", "[::]:8080"},
		{[]string{":8080"}, "/", "[::]:8080"},
		{[]string{"127.0.0.1:8080"}, "/", "127.0.0.1:8080"},
		{[]string{"127.0.0.1:80", "127.0.0.1:443"}, "https://example.com/", "127.0.0.1:443"},
		{[]string{"127.0.0.1:8000-8009"}, "http://example.com:8005/", "127.0.0.1:8005"},
		{[]string{"unix//run/site.sock"}, "/", "/run/site.sock"},
		{nil, "/", "[::]:0"},
	} {
		target, err := url.Parse(test.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := localAddress(&caddyhttp.Server{Listen: test.listen}, target).String(); got != test.want {
			t.Errorf("%v, %s: got %s, want %s", test.listen, test.url, got, test.want)
		}
	}
}
