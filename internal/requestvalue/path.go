package requestvalue

import (
	"bytes"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// Path returns the value of a path that is percent-decoded once, as routers compare paths: letters in one case, without
// empty and "." segments, parameters behind ";", a slash at the end, the script of a front controller and what follows
// another script of PHP, without what stands for the data of a page, and without an extension. ".." resolves as in RFC 3986. Escapes
// that are left are decoded, too, as Astro does: up to ten times, else the path is unreadable. The value of a value is itself.
//
// An extension is what follows the one dot of the last segment, for Rails takes /login.json for /login. A segment with
// several dots stays: JWTs, addresses and versions are no names with an extension. A path with a control character, or that
// is no UTF-8, is unreadable.
func Path(path string) bodyvalue.Value {
	switch {
	case path == "": // of an absolute URI without a path
		return bodyvalue.Read("/")
	case path == "*", isPlainPath(path) && strings.IndexByte(path, '.') < 0: // the first one is of OPTIONS
		return bodyvalue.Read(path)
	}
	var space [128]byte // of most paths
	path, ok := decodedAgain(path)
	if !ok {
		return bodyvalue.Unreadable(bodyvalue.ReasonPath)
	}
	folded, reason := appendSegments(space[:0], path)
	if reason != bodyvalue.ReasonNone {
		return bodyvalue.Unreadable(reason)
	}
	folded = cutExtension(dropScripts(cutData(folded)))
	if len(folded) == 0 {
		return bodyvalue.Read("/")
	}
	return bodyvalue.Read(string(folded))
}

// plainPath are the bytes of a path that no router changes.
var plainPath = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_~.") {
		t[c] = true
	}
	return t
}()

// isPlainPath reports whether no router takes a path for another one, but for the dots in its segments: its bytes are plain,
// and no segment is empty, is ".", ".." or a script of PHP.
func isPlainPath(path string) bool {
	if len(path) < 2 || path[0] != '/' || path[len(path)-1] == '/' {
		return path == "/"
	}
	dots := false
	for i := 1; i < len(path); i++ {
		c := path[i]
		if !plainPath[c] && (c != '/' || path[i-1] == '/') {
			return false
		}
		dots = dots || c == '.'
	}
	return !dots || !strings.Contains(path, "/.") && !strings.Contains(path, ".php") && !strings.HasSuffix(path, ".data") &&
		!strings.HasSuffix(path, "/__data.json")
}

// appendSegments appends the segments of a path, each behind a slash, as they are compared.
func appendSegments(to []byte, path string) ([]byte, bodyvalue.UnreadableReason) {
	switch {
	case path[0] != '/':
		return to, bodyvalue.ReasonPath
	case hasControl(path):
		return to, bodyvalue.ReasonControl
	case !utf8.ValidString(path):
		return to, bodyvalue.ReasonUTF8
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		switch segment, _, _ = strings.Cut(segment, ";"); segment {
		case "", ".":
		case "..":
			to = to[:max(0, bytes.LastIndexByte(to, '/'))]
		default:
			to = append(to, '/')
			for _, r := range segment {
				to = utf8.AppendRune(to, bodyvalue.FoldRune(r))
			}
		}
	}
	return to, bodyvalue.ReasonNone
}

const frontController = "index.php"

var scriptExtension = []byte(".php")

// dropScripts drops the segments that are the script of a front controller, and ends a path behind any other script of PHP.
func dropScripts(path []byte) []byte {
	return walkScripts(path, frontController)
}

// endAtScript ends a path behind the first script of PHP.
func endAtScript(path []byte) []byte {
	return walkScripts(path, "")
}

// walkScripts drops the scripts of PHP of a name, and ends a path behind the first one of another name. Empty: it drops none.
func walkScripts(path []byte, dropped string) []byte {
	for begin := 0; begin < len(path); {
		end := len(path)
		if i := bytes.IndexByte(path[begin+1:], '/'); i >= 0 {
			end = begin + 1 + i
		}
		name := path[begin+1 : end]
		switch isScript := bytes.HasSuffix(name, scriptExtension); {
		case isScript && string(name) == dropped:
			path = append(path[:begin], path[end:]...)
		case isScript:
			return path[:end]
		default:
			begin = end
		}
	}
	return path
}

// cutExtension drops the extension of the last segment: the one dot in it, where it does not begin the segment, and what
// follows.
func cutExtension(path []byte) []byte {
	begin := bytes.LastIndexByte(path, '/') + 1
	last := path[begin:]
	if dot := bytes.IndexByte(last, '.'); dot > 0 && dot == bytes.LastIndexByte(last, '.') {
		return path[:begin+dot]
	}
	return path
}

// PathForms returns the other forms in which a router may see a path, for matchers: without what [Path] drops, but with
// extensions; the second one also without the scripts of front controllers. Bytes that [Path] cannot read are dropped, as by
// the regular expressions of FastAPI and Dancer, which take /login%0a for /login. ok is false where a router sees the path in
// no other form, or in none.
func PathForms(path string) (form, withoutScripts string, ok bool) {
	if isPlainPath(path) {
		return "", "", false
	}
	if path, ok = decodedAgain(path); !ok {
		return "", "", false
	}
	if path = readablePath(path); path == "" {
		return "", "", false
	}
	folded, reason := appendSegments(make([]byte, 0, len(path)), path)
	if reason != bodyvalue.ReasonNone {
		return "", "", false
	}
	form = rooted(endAtScript(cutData(folded)))
	folded, _ = appendSegments(folded[:0], path)
	return form, rooted(dropScripts(cutData(folded))), true
}

// maxDecodings is how often a path is decoded again, as often as by Astro, which decodes until nothing is left.
const maxDecodings = 10

// decodedAgain returns a path without escapes. A percent sign without two hexadecimal digits stands for itself. It is false if more
// decodings are needed.
func decodedAgain(path string) (decoded string, ok bool) {
	for range maxDecodings {
		if strings.IndexByte(path, '%') < 0 {
			return path, true
		}
		decoded, found := unescaped(path)
		if !found {
			return path, true
		}
		path = decoded
	}
	_, found := unescaped(path)
	return path, !found
}

// unescaped returns a text with each escape decoded once, and whether it has one.
func unescaped(text string) (decoded string, found bool) {
	var b strings.Builder
	for {
		before, behind, isPercent := strings.Cut(text, "%")
		b.WriteString(before)
		if !isPercent {
			return b.String(), found
		}
		text = behind
		octet := []byte{'%'}
		if len(behind) >= 2 {
			if o, err := hex.DecodeString(behind[:2]); err == nil {
				octet, text, found = o, behind[2:], true
			}
		}
		b.Write(octet)
	}
}

// dataOfPage is what the clients of frameworks append to the path of a page to have its data, or run its action: SvelteKit's, and
// three of React Router's.
var dataOfPage = [][]byte{[]byte("/__data.json"), []byte("/_root.data"), []byte("/_.data"), []byte(".data")}

// cutData drops what stands for the data of a page.
func cutData(path []byte) []byte {
	for i := 0; i < len(dataOfPage); i++ {
		if cut, found := bytes.CutSuffix(path, dataOfPage[i]); found {
			path, i = bytes.TrimRight(cut, "/"), -1 // what is left may end so too
		}
	}
	return path
}

// readablePath returns a path without control characters and bytes that are no UTF-8.
func readablePath(path string) string {
	if !hasControl(path) && utf8.ValidString(path) {
		return path
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(path, ""))
}

// rooted returns a path, which is "/" without segments.
func rooted(path []byte) string {
	if len(path) == 0 {
		return "/"
	}
	return string(path)
}

// URI returns the value of a path with the query as it is written. A question mark of the path is encoded, so that none but the
// query stands behind the first one.
func URI(path, query string) bodyvalue.Value {
	v := Path(path)
	if strings.IndexByte(v.Text(), '?') >= 0 {
		v = bodyvalue.Read(strings.ReplaceAll(v.Text(), "?", "%3f"))
	}
	if v.Kind() != bodyvalue.KindText || query == "" {
		return v
	}
	return bodyvalue.Read(v.Text() + "?" + query)
}
