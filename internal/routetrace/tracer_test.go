package routetrace

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// addsHeader is a handler that adds a field to the response before it calls the next one.
type addsHeader struct{ seen int }

func (a *addsHeader) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	w.Header().Add("X-Added", "x")
	a.seen = len(w.Header()["X-Added"])
	return next.ServeHTTP(w, r)
}

// TestTracer_Run_again holds what replay relies on: millions of requests use one tracer.
func TestTracer_Run_again(t *testing.T) {
	mutates := new(addsHeader)
	plan := &Plan{Routes: []Route{{Steps: []Step{{Mutates: mutates}}}}}
	tracer := new(Tracer)
	for range 3 {
		if _, err := tracer.Run(plan, httptest.NewRequest(http.MethodGet, "/", nil)); err != nil || mutates.seen != 1 {
			t.Fatalf("%d fields of the response, %v; want 1", mutates.seen, err)
		}
	}
}
