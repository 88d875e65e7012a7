package report

import (
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay"
)

func TestWrite_unread_lines(t *testing.T) {
	const pointer = "Not all of the log was read as it should be"
	for _, tt := range []struct {
		log  replay.LogReport
		want string
	}{
		{replay.LogReport{Lines: 9}, "All of them could be read."},
		{replay.LogReport{Lines: 9, Malformed: 2, First5: []replay.BadLine{{Where: "a:1", Reason: "cut off", Text: "bad text"}}}, "bad text"},
		{replay.LogReport{Lines: 9, Late: 3}, "stood too far behind"},
		{replay.LogReport{Lines: 9, Files: []replay.FileReport{{Name: "a.gz", Error: "unexpected end"}}}, "unexpected end"},
	} {
		text := pageText(t, &replay.Result{Log: tt.log})
		if strings.Count(text, tt.want) != 1 || strings.Contains(text, pointer) != incomplete(tt.log) {
			t.Errorf("%+v: %q does not stand once, or the pointer is wrong", tt.log, tt.want)
		}
	}
}
