package bodyvalue

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// headOf returns a head of a part with a field of that many bytes, which repeats a text.
func headOf(field, repeated string, size int) string {
	return `Content-Disposition: form-data; name="email"` + "\r\n" + field + strings.Repeat(repeated, (size-len(field))/len(repeated))
}

// TestPlan_Read_longHead has heads as long as they may be, and longer.
func TestPlan_Read_longHead(t *testing.T) {
	var plan FormPlan
	plan.Add(assert.NoError(ParseFieldName("email"))(t))
	form := ContentTypeOf(http.Header{"Content-Type": {"multipart/form-data; boundary=AaB"}})
	before := len(headOf("", "x", 0))
	for size, want := range map[int]string{maxHead: "", maxHead + 1: "part_head", 1 << 20: "part_head"} {
		head := headOf("Content-Type: text/plain", ";", size-before)
		assert.Equal(t, len(head), size, "the length of the head")
		got := plan.Read(form, []byte(formPart(head, "a")+"--AaB--\r\n"))[0]
		assert.Equal(t, got.Reason().String(), want, "the reason for a head of %d bytes", size)
		assert.ErrorIf(t, want == "" && got.Text() != "a", "the value is %q behind a head of %d bytes", got.Text(), size)
	}
}

// BenchmarkPlan_Read_hostile reads 1 MiB that takes long: heads of parts that are as long as they may be.
func BenchmarkPlan_Read_hostile(b *testing.B) {
	const size = 1 << 20
	var plan FormPlan
	plan.Add(assert.NoError(ParseFieldName("email"))(b))
	header := http.Header{"Content-Type": {"multipart/form-data; boundary=AaB"}}
	for _, test := range []struct{ name, field, repeated string }{
		{"semicolons", "Content-Type: text/plain", ";"},
		{"blanks", "Content-Type: text/plain", "; "},
		{"charsets", "Content-Type: text/plain", ";charset=utf8"},
	} {
		part := formPart(headOf(test.field, test.repeated, maxHead-100), "a")
		body := []byte(strings.Repeat(part, size/len(part)) + "--AaB--\r\n")
		b.Run("head="+test.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				plan.Read(ContentTypeOf(header), body)
			}
		})
	}
	header["Content-Type"][0] += strings.Repeat(";", size)
	b.Run("content_type", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			ContentTypeOf(header)
		}
	})
}
