package routetrace

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/gate"
)

// TestProxies finds what the proxies of a server may do, in blocks and error routes too.
func TestProxies(t *testing.T) {
	for site, want := range map[string]gate.Proxies{
		"respond hello":                                   {},
		"reverse_proxy localhost:9000":                    {},
		"php_fastcgi localhost:9000":                      {},
		"reverse_proxy localhost:9000 {\nlb_retries 1\n}": {Retry: true},
		"handle /a/* {\nreverse_proxy localhost:9000 {\nlb_try_duration 1s\n}\n}":                        {Retry: true},
		"reverse_proxy localhost:9000 {\nlb_retries 1\nmethod POST\n}":                                   {Retry: true, Repeat: true},
		"forward_auth localhost:9000 {\nuri /auth\ncopy_headers Remote-User\n}":                          {Pass: true},
		"reverse_proxy localhost:9000 {\nhandle_response {\ncopy_response\n}\n}":                         {Pass: true},
		"reverse_proxy localhost:9000 {\nhandle_response {\nrewrite /x\nfile_server\n}\n}":               {Pass: true, Answer: true},
		"handle_errors {\nreverse_proxy localhost:9000 {\nhandle_response {\nrespond sorry\n}\n}\n}":     {Pass: true, Answer: true},
		"reverse_proxy localhost:9000 {\n@none status 404\nreplace_status @none 200\n}\nrespond /a b":    {},
		"forward_auth localhost:9000 {\nuri /auth\n}\nreverse_proxy localhost:9000 {\nlb_retries 2\n}\n": {Pass: true, Retry: true},
	} {
		assert.Equal(t, new(Trees).Proxies(adapt(t, ":80 {\n"+site+"\n}")), want, "%s", site)
	}
}
