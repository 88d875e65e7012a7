package requestvalue

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// Path returns the value of a path that is percent-decoded once, as routers compare paths: letters in one case, without
// empty and "." segments, parameters behind ";", a slash at the end, the script of a front controller and what follows
// another script of PHP, without what stands for the data of a page, and without an extension. ".." resolves as in RFC 3986. Escapes
// that are left are decoded, too, as Astro does. The path is unreadable if ten times are not enough, and where a server that ends it at
// a script or a parameter first has another value. The value of a value is itself.
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
	value, reason := appendValue(space[:0], path)
	if reason != bodyvalue.ReasonNone || strings.IndexByte(path, '%') < 0 {
		return valueOf(string(value), reason)
	}
	views, isWhole := decodedViews(path)
	if !isWhole {
		return bodyvalue.Unreadable(bodyvalue.ReasonPath)
	}
	for i := 1; i < len(views); i++ {
		// Where a server ends a path at a script or a parameter before it decodes, and another one decodes first, they see two paths.
		cut, _ := decodedAgain(string(value), views[i].decodings-views[i-1].decodings)
		again, _ := appendValue(nil, cut)
		if value, reason = appendValue(nil, views[i].path); reason == bodyvalue.ReasonNone && !bytes.Equal(again, value) {
			reason = bodyvalue.ReasonPath
		}
		if reason != bodyvalue.ReasonNone {
			break
		}
	}
	return valueOf(string(value), reason)
}

// appendValue appends what a path is compared as, by a router that decodes it no more.
func appendValue(to []byte, path string) ([]byte, bodyvalue.UnreadableReason) {
	folded, reason := appendSegments(to, path)
	for before := -1; before != len(folded); {
		before = len(folded)
		folded = dropScripts(cutData(folded)) // a script may stand behind data, and data behind a script
	}
	if folded = cutExtension(folded); len(folded) == 0 {
		folded = append(folded, '/')
	}
	return folded, reason
}

// plainPath are the bytes of a path that no router changes.
var plainPath = func() (t [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_~.") {
		t[c] = true
	}
	return t
}()

// isPlainPath reports whether no router takes a path for another one, but for the dots in its segments: its bytes are plain,
// no segment is empty, is ".", ".." or a script of PHP, and the end is none of [dataOfPage].
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
	return !dots || !strings.Contains(path, "/.") && !strings.Contains(path, ".php") && !strings.HasSuffix(path, "data") &&
		!strings.HasSuffix(path, "data.json")
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
// extensions; with and without the scripts of front controllers; and each of these as servers see it that decode the path again,
// since one may end it at a script or a parameter before another decodes. Bytes that [Path] cannot read are dropped, as by the
// regular expressions of FastAPI and Dancer, which take /login%0a for /login. It returns none where a router sees the path in no other
// form, or in none.
func PathForms(path string) (forms []string) {
	if isPlainPath(path) {
		return nil
	}
	views, _ := decodedViews(path)
	for _, view := range views {
		readable := readablePath(view.path)
		if readable == "" || readable[0] != '/' {
			continue
		}
		folded, _ := appendSegments(make([]byte, 0, len(readable)), readable)
		folded = cutData(folded)
		for _, form := range []string{rooted(endAtScript(folded)), rooted(dropScripts(folded))} { // the second one moves bytes
			if !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// maxDecodings is how often a path is decoded again, as often as by Astro, which decodes until nothing is left.
const maxDecodings = 10

// decodedView is a path as a server sees it that decodes it so many times more.
type decodedView struct {
	path      string
	decodings int
}

// decodedViews returns a path as it is, decoded once and twice more, as by servers in a row, and until nothing is left, each if that
// is another one. It is not whole if ten decodings leave escapes.
func decodedViews(path string) (views []decodedView, isWhole bool) {
	views = append(make([]decodedView, 0, 4), decodedView{path, 0})
	for _, decodings := range []int{1, 2, maxDecodings} {
		last := views[len(views)-1]
		decoded, found := decodedAgain(last.path, decodings-last.decodings)
		if !found {
			return views, true
		}
		views = append(views, decodedView{decoded, decodings})
	}
	_, found := unescaped(views[len(views)-1].path)
	return views, !found
}

// decodedAgain returns a text that is decoded so many times, or until nothing is left, and whether it has an escape.
func decodedAgain(text string, times int) (decoded string, found bool) {
	decoded, found = unescaped(text)
	for more := found; more && times > 1; times-- {
		decoded, more = unescaped(decoded)
	}
	return decoded, found
}

// unescaped returns a text with each escape decoded once, and whether it has one. A percent sign without two hexadecimal digits
// stands for itself.
func unescaped(text string) (decoded string, found bool) {
	i := strings.IndexByte(text, '%')
	if i < 0 {
		return text, false
	}
	octets := append(make([]byte, 0, len(text)), text[:i]...)
	for i < len(text) {
		octet, isEscape := bodyvalue.Unescape(text[i:])
		if isEscape {
			found = true
			i += bodyvalue.EscapeLength
		} else {
			octet = text[i]
			i++
		}
		octets = append(octets, octet)
	}
	if !found {
		return text, false
	}
	return string(octets), true
}

// dataOfPage is what the clients of frameworks append to the path of a page to have its data, or run its action: SvelteKit's, Qwik
// City's, and three of React Router's.
var dataOfPage = [][]byte{[]byte("/__data.json"), []byte("/q-data.json"), []byte("/_root.data"), []byte("/_.data"), []byte(".data")}

// cutData drops what stands for the data of a page.
func cutData(path []byte) []byte {
	for i := 0; i < len(dataOfPage); i++ {
		if cut, found := bytes.CutSuffix(path, dataOfPage[i]); found && !endsInDots(cut) {
			path, i = bytes.TrimRight(cut, "/"), -1 // what is left may end so too
		}
	}
	return path
}

// endsInDots reports whether a path ends in a segment that means another one.
func endsInDots(path []byte) bool {
	return bytes.HasSuffix(path, []byte("/.")) || bytes.HasSuffix(path, []byte("/.."))
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
