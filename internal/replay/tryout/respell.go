package tryout

import (
	"slices"
	"strings"
)

// part is a part of a request that the table spells: a group of spellings, and what stands for the words of the table.
type part struct {
	group string
	name  string // of the header, cookie or parameter
	value string // in place of the table's; empty: the table's own
}

// respelling is a request whose value is spelled in another way.
type respelling struct {
	*request
	shown   string // what differs, for people
	servers []string
}

// pair is the request that is used up, and its other spellings.
type pair struct {
	usual    *request
	spelled  []respelling
	spelling string // the text of the table's usual request
}

// pairs returns the usual requests of a part with the spellings of the table. Spellings that Caddy refuses are left out.
func (p part) pairs(base *request) (all []pair) {
	for _, s := range Spellings() {
		if s.Group != p.group {
			continue
		}
		at := slices.IndexFunc(all, func(known pair) bool { return known.spelling == s.Usual })
		if at < 0 {
			usual, _, ok := p.apply(base, s.Usual, s.Usual)
			if !ok {
				continue
			}
			all = append(all, pair{usual: usual, spelling: s.Usual})
			at = len(all) - 1
		}
		usual := all[at].usual
		spelled, shown, ok := p.apply(usual, s.Spelled, s.Usual)
		if ok && (spelled.target != usual.target || spelled.host != usual.host || !sameHeader(spelled, usual)) {
			all[at].spelled = append(all[at].spelled, respelling{spelled, shown, s.Servers})
		}
	}
	return all
}

func sameHeader(a, b *request) bool {
	if len(a.header) != len(b.header) {
		return false
	}
	for name, values := range a.header {
		if !slices.Equal(values, b.header[name]) {
			return false
		}
	}
	return true
}

// apply returns a request with a text of the table, which spells a usual one, and what of it differs from others.
func (p part) apply(base *request, text, usual string) (r *request, shown string, ok bool) {
	lines := strings.Split(text, "\r\n")
	target, lines := lines[0], lines[1:]
	if folded := strings.Join(lines, "\r\n"); strings.Contains(folded, "\r\n ") || strings.Contains(folded, "\r\n\t") {
		lines = []string{folded} // of one field
	}
	switch p.group {
	case groupPath, groupScript:
		target, ok = carryPath(target, usual, base.path())
		if !ok {
			return nil, "", false
		}
		if query := base.query(); !strings.ContainsAny(target, "?#") {
			target += query
		} else if query != "" {
			target += "&" + query[1:]
		}
		r, ok = base.read(target, base.host, nil)
		return r, base.method + " " + target, ok
	case groupHost:
		line := lines[0]
		if !strings.HasPrefix(line, "Host: ") || len(lines) > 1 || target != tableTarget {
			return nil, "", false
		}
		name, port, hasPort := strings.Cut(base.host, ":")
		host, found := hostWord.carry(line[len("Host: "):], name)
		if !found {
			return nil, "", false
		}
		if hasPort && !strings.Contains(host, ":") {
			host += ":" + port
		}
		r, ok = base.read(base.target, host, nil)
		return r, line[:len("Host: ")] + host, ok
	case groupQuery:
		rest := p.carryValue(strings.TrimPrefix(target, tableTarget))
		rest, found := queryWord.carry(rest, p.name)
		if !found {
			return nil, "", false
		}
		r, ok = base.read(base.path()+rest, base.host, nil)
		return r, rest, ok
	}
	return p.applyLines(base, target, lines)
}

// applyLines returns a request with lines of the header.
func (p part) applyLines(base *request, target string, lines []string) (r *request, shown string, ok bool) {
	bare := base.clone()
	target = base.target + strings.TrimPrefix(target, tableTarget)
	name := groupAuthorization
	switch p.group {
	case groupHeader:
		name = p.name
	case groupCookie:
		name = "Cookie"
	}
	bare.header.Del(name)
	carried := slices.Clone(lines)
	for i, line := range carried {
		field, value, found := strings.Cut(line, ":")
		if !found {
			return nil, "", false
		}
		if p.group == groupHeader {
			field = carryFieldName(field, p.name)
		}
		if value = p.carryValue(value); p.group == groupCookie {
			value, _ = cookieWord.carry(value, p.name)
		}
		carried[i] = field + ":" + value
	}
	r, ok = bare.read(p.carryValue(target), base.host, carried)
	shown = strings.Join(carried, "; ")
	if shown == "" {
		shown = target
	}
	return r, shown, ok
}

// carryFieldName returns the name of a field as the table spells its own.
func carryFieldName(spelled, name string) string {
	switch {
	case spelled == tableHeader || !strings.EqualFold(strings.TrimSpace(spelled), tableHeader):
		return strings.Replace(spelled, tableHeader, name, 1)
	case strings.ToLower(spelled) == spelled:
		return strings.ToLower(name)
	}
	return strings.ToUpper(name)
}

// carryValue puts the value of the part in the place of the table's.
func (p part) carryValue(text string) string {
	if p.value == "" {
		return text
	}
	text, _ = valueWord.carry(text, p.value)
	return text
}

var (
	hostWord, queryWord    = newSpelledWord(tableHost), newSpelledWord(tableQuery)
	cookieWord, valueWord  = newSpelledWord(tableCookie), newSpelledWord(tableValue)
	loginWord, itemsWord   = newSpelledWord("login"), newSpelledWord("items")
	scriptWord, parentWord = newSpelledWord("login.php"), newSpelledWord("/api")
)

// carryPath returns a path that is spelled as the table spells a usual one: its last segment as that of the table, the segments in front
// as they are, or, with a usual path of two segments, the first of them as that of the table.
func carryPath(spelled, usual, path string) (carried string, ok bool) {
	if path == usual {
		return spelled, true
	}
	at := strings.LastIndexByte(path, '/') + 1
	front, last := path[:at], path[at:]
	if last == "" {
		return "", false
	}
	switch usual {
	case "/login":
		carried, ok = loginWord.carryBehind(spelled, front[1:], last)
		return carried, ok && strings.HasPrefix(spelled, "/")
	case "/login.php":
		carried, ok = scriptWord.carryBehind(spelled, front[1:], last)
		return carried, ok && strings.HasPrefix(spelled, "/")
	}
	if carried, ok = itemsWord.carry(spelled, last); !ok || front == "/" {
		return "", false
	}
	return parentWord.carry(carried, strings.TrimSuffix(front, "/"))
}
