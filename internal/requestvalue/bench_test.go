package requestvalue

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// BenchmarkRead reads values as clients send them: `go test -bench Read ./internal/requestvalue`.
func BenchmarkRead(b *testing.B) {
	const jwt = "Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ." +
		"SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
	name, parameter := ParseName("session"), ParseName("token")
	cookies := []string{"_ga=GA1.2.1234567890.1700000000; theme=dark; session=3q1h8w5q0k2z7b9; lang=en; csrftoken=Ab12"}
	for _, bench := range []struct {
		name string
		read func() bodyvalue.Value
	}{
		{"header", func() bodyvalue.Value { return Header([]string{"sk-live-1234567890abcdef"}) }},
		{"header/capitals", func() bodyvalue.Value { return Header([]string{"SK-live-1234567890abcdef"}) }},
		{"bearer", func() bodyvalue.Value {
			return authorization("Bearer sk-proj-1234567890abcdef1234567890abcdef1234567890a")
		}},
		{"jwt", func() bodyvalue.Value { return authorization(jwt) }},
		{"basic", func() bodyvalue.Value { return authorization("Basic YWxpY2U6cHc=") }},
		{"cookie", func() bodyvalue.Value { return Cookie(cookies, name) }},
		{"query", func() bodyvalue.Value { return Query("page=2&sort=name&token=abcdef0123456789&lang=en", parameter) }},
		{"path", func() bodyvalue.Value { return Path("/api/v1/users/list") }},
		{"path/capitals", func() bodyvalue.Value { return Path("/Api/v1/users/list.json") }},
		{"host", func() bodyvalue.Value { return Host("shop.example.com") }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bench.read()
			}
		})
	}
}
