package redisratelimit

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCharge_of_response_bytes_takes_no_fallback(t *testing.T) {
	for _, charge := range []string{`"response_bytes","charge":5`, `"{response_bytes}","charge":7`, `"{response_bytes}"`} {
		ctx, end := newContext(t, "")
		_, err := ctx.LoadModuleByID("http.handlers.redis_ratelimit",
			json.RawMessage(`{"policies":[{"limit":10,"window":"1m","charge_from":`+charge+`}]}`))
		if err == nil || !strings.Contains(err.Error(), "takes no fallback") {
			t.Errorf("%s: got error %v, want one about the fallback", charge, err)
		}
		end()
	}
}
