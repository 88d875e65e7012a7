package accesslog

import (
	"fmt"
	"strings"
	"testing"
)

const responseLine = `{"ts":1750000000,"request":{"client_ip":"1.2.3.4"},"size":1,"status":200,"resp_headers":` +
	`{"X-Login":["failed"],"x-cost":["5","\u0031\"0"],"Set-Cookie":["REDACTED"],"Server":"Caddy","Vary":[]}}` + "\n"

func TestEntry_ResponseHeader(t *testing.T) {
	log := responseLine + clfLine(1, "a") + strings.Replace(caddyLine(`"2025-06-15T15:06:42Z"`, "a"), "resp_headers", "other", 1)
	for _, tt := range []struct {
		name  string
		asked bool
		want  string
	}{
		{"asked for", true, `map[Server:[Caddy] Set-Cookie:[REDACTED] X-Cost:[5 1"0] X-Login:[failed]]`},
		{"not asked for", false, "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, _ := readAll(t, Options{Files: []string{"-"}, Stdin: strings.NewReader(log), Responses: tt.asked})
			if len(entries) != 3 {
				t.Fatalf("%d entries", len(entries))
			}
			for i, want := range []string{tt.want, "map[]", "map[]"} {
				if got := entries[i].ResponseHeader(); got == nil || fmt.Sprint(got) != want {
					t.Errorf("entry %d: got %v, want %s", i, got, want)
				}
			}
		})
	}
}
