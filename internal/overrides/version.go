package overrides

import (
	"strconv"
	"strings"
)

// version is what the version key says of the entries. The script that changes them makes the number larger
// than all before, so that a Redis that has lost changes, or all keys, shows an older version than the
// nodes know.
type version struct {
	number int64 // Redis's time of the change in microseconds; 0: there was none
	count  int   // of the entries
}

// mostVersion is above all versions: scripts count in doubles, and larger ones would not grow any more.
const mostVersion = 9_005_000_000_000_000

// parseVersion reads the version key. A foreign text is no version.
func parseVersion(text string) (v version) {
	number, count, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n >= mostVersion {
		return version{}
	}
	v.number = n
	v.count, _ = strconv.Atoi(count) // 0 where it is missing
	return v
}

func (v version) text() string { return strconv.FormatInt(v.number, 10) }
