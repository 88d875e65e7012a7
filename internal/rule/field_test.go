package rule

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestField_repeated(t *testing.T) {
	once := httptest.NewRequest(http.MethodGet, "/?token=a&t=token&x=1;y=token", http.NoBody)
	once.Header = http.Header{"X-Key": {"a, b"}, "Cookie": {"session=a; other=session; sess=b"}}
	for _, test := range []struct {
		placeholder, query string
		header             http.Header
	}{
		{"http.request.header.x-key", "", http.Header{"X-Key": {"a", "b"}}},
		{"http.request.header.X-Key", "", http.Header{"X-Key": {"a", ""}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {"SESSION=1; session=a"}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {"session=a", "session=a"}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {"session=a;session = b"}}},
		{"http.request.cookie.session", "", http.Header{"Cookie": {`session="a\b; x=y; session=1`}}}, // Go drops the first
		{"http.request.uri.query.token", "token=a&token=b", nil},
		{"http.request.uri.query.token", "token=a&x=y&t%6fken=b", nil},
		{"http.request.uri.query.token", "token&token=a", nil},
		{"http.request.uri.query.token", "x=y;token=a&token=b", nil}, // Go drops the first
	} {
		twice := httptest.NewRequest(http.MethodGet, "/?"+test.query, http.NoBody)
		twice.Header = test.header
		f := fieldOf(test.placeholder)
		if !f.repeated(twice) {
			t.Errorf("%s stands once in %q, %v", test.placeholder, test.query, test.header)
		}
		if f.repeated(once) || f.repeated(httptest.NewRequest(http.MethodGet, "/", http.NoBody)) {
			t.Errorf("%s stands several times in another request", test.placeholder)
		}
		if allocations := testing.AllocsPerRun(10, func() { f.repeated(once) }); allocations > 0 {
			t.Errorf("a look for %s allocates %v times", test.placeholder, allocations)
		}
	}
}
