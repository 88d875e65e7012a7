package answer

import (
	"net/http"
	"net/url"
	"testing"
)

// discard is a response that goes nowhere.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header          { return d.header }
func (*discard) WriteHeader(int)                {}
func (*discard) Write(data []byte) (int, error) { return len(data), nil }

// BenchmarkForm is the price of recognizing a client and of writing the answer, by what the client sends.
func BenchmarkForm(b *testing.B) {
	r := refusals(b)["limited"]
	for _, c := range []struct {
		name   string
		header http.Header
	}{
		{"text/no header", http.Header{}},
		{"text/browser", http.Header{"Accept": {"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}}},
		{"json", http.Header{"Accept": {"application/json, text/plain, */*"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: c.header}
			w := &discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				answerAuto.Form(q, r).Write(w, q, r, nil)
			}
		})
	}
}
