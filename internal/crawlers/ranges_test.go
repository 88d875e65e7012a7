package crawlers

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// TestParseRanges holds how many ranges each form has, or what is wrong with it.
func TestParseRanges(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"google":      {`{"prefixes":[{"ipv6Prefix":"2001:4860:4801:10::/64"},{"ipv4Prefix":"66.249.64.0/27"}]}`, "2"},
		"clouds":      {`{"prefixes":[{"ip_prefix":"15.177.0.0/18","service":"ROUTE53_HEALTHCHECKS"}]}`, "1"},
		"ias":         {`{"publicIPs":[{"ipv4":"44.1.2.3"}]}`, "1"},
		"array":       {`["52.70.240.171","2600:1f18::/56"]`, "2"},
		"stripe":      {`{"WEBHOOKS":["3.18.12.63"]}`, "1"},
		"CRLF":        {"216.144.248.16\r\n216.144.248.17\r\n2607:ff68:107::3\r\n", "3"},
		"geofeed":     {"# places\n31.13.24.0/24,US,US-CA,,\n2a03:2880::/32,US,,,\n", "2"},
		"BOM":         {"\ufeff192.0.2.0/24\n", "1"},
		"BOM of JSON": {"\ufeff[\"192.0.2.0/24\"]\n", "1"},
		"host bits":   {"192.0.2.77/24", "1"},
		"mapped":      {"::ffff:192.0.2.0/120", "1"},
		"within":      {"192.0.2.0/24 192.0.2.9\n192.0.2.7\n192.0.2.0/24", "1"},
		"version":     {`{"version":"1.2.3.4","prefixes":[{"ipv4Prefix":"192.0.2.0/24"}]}`, "1"},
		"empty":       {"", "it has no address and no range"},
		"blank":       {"\n\n# nothing\n", "it has no address and no range"},
		"{}":          {"{}", "it has no address and no range"},
		"no prefixes": {`{"creationTime":"2026-11-01T00:00:00","prefixes":[]}`, "it has no address and no range"},
		"date alone":  {`{"creationTime":"2026-11-01T00:00:00"}`, "it has no address and no range"},
		"half":        {`{"creationTime":"2026-11-01T00:00:00","prefixes":[{"ipv6Pre`, "it begins as JSON and is none, or half of it"},
		"HTML":        {"<!DOCTYPE html><html><body>404</body></html>", "line 1 begins with no address and no range"},
		"all":         {`{"prefixes":[{"ipv4Prefix":"0.0.0.0/0"}]}`, "the range 0.0.0.0/0 is too wide for a crawler"},
		"wide IPv6":   {"2000::/3", "the range 2000::/3 is too wide for a crawler"},
		"bad member":  {`{"prefixes":[{"ipv4Prefix":"66.249.64.0/33"}]}`, "a member whose name ends with prefix has no range"},
		"cloud": {
			`{"prefixes":[{"ipv4Prefix":"34.0.0.0/9"}]}`,
			"its ranges have 8388608 addresses of IPv4, more than a crawler: it is the list of a cloud, with its customers",
		},
		"leading zero": {"066.249.64.1", "line 1 begins with no address and no range"},
		"dash":         {"192.0.2.0/24\n192.0.2.1-192.0.2.9", "line 2 begins with no address and no range"},
		"mapped wide":  {"::ffff:0.0.0.0/90", "line 1 begins with no address and no range"},
	} {
		got := ""
		if r, err := ParseRanges([]byte(test.text)); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(r.Len())
		}
		assert.Equal(t, got, test.want, "the ranges of %s", name)
	}
	_, err := ParseRanges([]byte(strings.Repeat("192.0.2.1\n", mostRanges+1)))
	assert.ErrorIf(t, err == nil, "more than %d ranges are accepted", mostRanges)
}

func TestRanges_Contains(t *testing.T) {
	r := assert.NoError(ParseRanges([]byte("10.1.0.0/16\n10.1.2.0/24\n192.0.2.7\n2001:db8::/32\n1::/16")))(t)
	for text, want := range map[string]bool{
		"10.0.255.255": false, "10.1.0.0": true, "10.1.3.0": true, "10.1.255.255": true, "10.2.0.0": false, "192.0.2.6": false, "192.0.2.7": true,
		"192.0.2.8": false, "2001:db8::1": true, "2001:db9::1": false, "255.255.255.255": false, "1::1": true, "::1": false,
	} {
		assert.Equal(t, r.Contains(netip.MustParseAddr(text)), want, "whether %s is in a range", text)
	}
}

func FuzzParseRanges(f *testing.F) {
	f.Add([]byte(`{"prefixes":[{"ipv4Prefix":"192.0.2.0/24"}]}`))
	f.Add([]byte("192.0.2.0/24,US\n2001:db8::/32 # places"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRanges(text)
		if err != nil {
			return
		}
		for i := range r.first {
			assert.ErrorIf(t, !r.Contains(r.first[i]) || !r.Contains(r.last[i]), "the range from %v to %v lacks an end", r.first[i], r.last[i])
			assert.ErrorIf(t, r.last[i].Compare(r.first[i]) < 0, "the range from %v to %v is turned", r.first[i], r.last[i])
			assert.ErrorIf(t, i > 0 && r.first[i].Compare(r.last[i-1]) <= 0, "the range from %v overlaps", r.first[i])
		}
	})
}

// rangeFile is a file of a test.
type rangeFile struct {
	t    *testing.T
	path string
	*File
}

func newRangeFile(t *testing.T, text string) *rangeFile {
	t.Helper()
	f := &rangeFile{t: t, path: filepath.Join(t.TempDir(), "ranges.txt")}
	f.replace(text)
	f.File = assert.NoError(OpenFile(f.path))(t)
	return f
}

// replace writes the file anew, as mv does.
func (f *rangeFile) replace(text string) {
	f.t.Helper()
	assert.Must(f.t, os.WriteFile(f.path+".new", []byte(text), 0o600))
	assert.Must(f.t, os.Rename(f.path+".new", f.path))
}

// looks holds what the next look finds, and how many ranges count then.
func (f *rangeFile) looks(what string, changed bool, problem string, ranges int) {
	f.t.Helper()
	found, got := f.Look(), ""
	if found.Problem != nil {
		got = found.Problem.Error()
	}
	assert.Equal(f.t, found.Changed, changed, "whether the ranges are new: %s", what)
	assert.Equal(f.t, got, problem, "the problem: %s", what)
	assert.Equal(f.t, f.Len(), ranges, "the ranges: %s", what)
}

func TestFile_Look(t *testing.T) {
	f := newRangeFile(t, "192.0.2.0/24\n198.51.100.0/24")
	f.looks("nothing is new", false, "", 2)
	f.replace("192.0.2.0/24")
	f.looks("replaced, first look", false, "", 2)
	f.looks("replaced, second look", true, "", 1)
	f.replace("")
	f.looks("emptied, first look", false, "", 1)
	f.looks("emptied, second look", false, "it has no address and no range", 1)
	f.looks("emptied, third look", false, "", 1)
	f.replace("192.0.2.0/24\n198.51.100.0/24\n203.0.113.0/24")
	f.looks("right again, first look", false, "", 1)
	f.looks("right again, second look", true, "", 3)
	assert.Must(t, os.Remove(f.path))
	f.looks("removed, first look", false, "no such file or directory", 3)
	f.looks("removed, second look", false, "", 3)
	f.replace("192.0.2.0/24")
	f.looks("back, first look", false, "", 3)
	f.looks("back, second look", true, "", 1)
	f.replace("192.0.2.0/")
	f.looks("half written, first look", false, "", 1)
	f.replace("192.0.2.0/24\n192.0.3.0/24")
	f.looks("whole, first look", false, "", 1)
	f.looks("whole, second look", true, "", 2)
}

// TestFile_old has an old file verify, and make nothing forged.
func TestFile_old(t *testing.T) {
	f := newRangeFile(t, "192.0.2.0/24")
	inside, outside := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("198.51.100.7")
	assert.Equal(t, f.Has(outside), Forged, "an address outside of a new file")
	f.now = func() time.Time { return time.Now().Add(OldAfter + time.Hour) }
	assert.Equal(t, f.Has(inside), Verified, "an address in an old file")
	assert.Equal(t, f.Has(outside), Unknown, "an address outside of an old file")
	assert.Equal(t, f.Look().Old, true, "whether the first look tells of it")
	assert.Equal(t, f.Look().Old, false, "whether the second look tells of it")
}

func TestOpenFile_errors(t *testing.T) {
	folder := t.TempDir()
	large := filepath.Join(folder, "large")
	assert.Must(t, os.WriteFile(large, make([]byte, largestFile+1), 0o600))
	for path, want := range map[string]string{
		filepath.Join(folder, "none"): "no such file or directory", folder: "it is no file", large: "it is larger than 4 MiB",
	} {
		_, err := OpenFile(path)
		assert.ErrorIf(t, err == nil || err.Error() != want, "%s: %v, want %s", path, err, want)
	}
}
