package accesslog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

func TestReader_several_files(t *testing.T) {
	write := func(name string, seconds ...int) string {
		var log strings.Builder
		for _, s := range seconds {
			log.WriteString(clfLine(s, "a"))
		}
		return writeFile(t, name, []byte(log.String()))
	}
	for _, tt := range []struct {
		name  string
		files []string
		stdin string
		want  string
	}{
		{"side by side", []string{write("a", 1, 3, 5), write("b", 2, 4, 6)}, "", "1 2 3 4 5 6"},
		{"one after the other", []string{write("a", 1, 2), write("b", 3, 4), write("c", 5)}, "", "1 2 3 4 5"},
		{"named the wrong way round", []string{write("b", 3, 4), write("a", 1, 2)}, "", "1 2 3 4"},
		{"the beginning is not its first line", []string{write("a", 1, 2, 3), write("b", 9, 2, 1)}, "", "1 1 2 2 3 9"},
		{"with stdin", []string{write("a", 1, 3), "-"}, clfLine(2, "a") + clfLine(4, "a"), "1 2 3 4"},
		{"with an empty one", []string{write("a"), write("b", 1)}, "", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries, s := readAll(t, Options{Files: tt.files, Stdin: strings.NewReader(tt.stdin)})
			got := order(entries)
			redistest.ErrorIf(t, got != tt.want || s.Late != 0, "got %s, %d late; want %s", got, s.Late, tt.want)
		})
	}
}

func TestReader_open_files(t *testing.T) {
	var files []string
	for day := range 20 {
		files = append(files, writeFile(t, fmt.Sprint(day), []byte(clfLine(10*day, "a")+clfLine(10*day+9, "a"))))
	}
	r, err := Open(Options{Files: files})
	redistest.Must(t, err)
	for {
		if _, err = r.Next(); err != nil {
			break
		}
		redistest.FatalIf(t, r.open.Len() > 2, "%d files are open", r.open.Len())
	}
	s := r.Summary()
	redistest.ErrorIf(t, s.Entries != 40, "%d entries", s.Entries)
}
