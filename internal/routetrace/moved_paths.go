package routetrace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
)

// This file is about limits for paths that no request has any more, since rewrite or try_files in front has changed it.

// movedPaths is what is known of the paths that requests had in front of a handler.
type movedPaths struct {
	moves []move

	// any says that requests may have any path: a handler in front may have written one that is not known.
	any bool
}

// move is that a handler in front writes another path.
type move struct {
	by     string                  // the directive
	around []caddyhttp.MatcherSets // of the routes around that have matchers, the outermost first, without the handler's own route
	seen   int                     // how many of the matchers around a limit have been asked before
	here   bool                    // the handler is one of the route whose handlers requests go through

	// from are the patterns of all paths that the handler moves; all: every path, files: every path but those of files. Otherwise
	// and without patterns it is not known which paths are moved.
	from       caddyhttp.MatchPath
	all, files bool

	to     string // what the new path begins with
	toFile bool   // that is the whole path
}

// maxMoves is how many moves are kept of those in front, so that a list of many takes no longer than it is.
const maxMoves = 64

// noteMove notes what a handler makes of paths. An application that is asked afterwards for a file that is there, as php_fastcgi
// does it, stands behind limits.
func (f *flow) noteMove(h *handler) {
	r, is := h.module.(*rewrite.Rewrite)
	path, _, _ := strings.Cut(uriOf(r), "?")
	changed := is && (path != "" || r.StripPathPrefix != "" || r.StripPathSuffix != "" || len(r.URISubstring) > 0 || len(r.PathRegexp) > 0)
	switch m, known := f.moveBy(r, path); {
	case known && len(f.moved.moves) < maxMoves:
		f.moved.moves = append(slices.Clip(f.moved.moves), m)
	case path == fileOfURI && keepsPaths(filesTried(f.own)):
	case changed, h.Name == "invoke", isForeign(h.module):
		f.moved.any = true
	}
}

func uriOf(r *rewrite.Rewrite) string {
	if r == nil {
		return ""
	}
	return r.URI
}

// moveBy returns the move of a rewrite to a path; false: what becomes of paths is not known.
func (f *flow) moveBy(r *rewrite.Rewrite, path string) (m move, known bool) {
	m = move{by: "rewrite", around: f.within, seen: len(f.within), here: true, all: true}
	if len(f.own) > 0 {
		m.around = f.within[:len(f.within)-1]
	}
	switch {
	case r == nil || r.StripPathPrefix+r.StripPathSuffix != "" || len(r.URISubstring)+len(r.PathRegexp) > 0:
		return m, false
	case path == fileOfURI:
		m.by, m.all, m.to, m.toFile = "try_files", false, lastFile(filesTried(f.own)), true
		return m, m.to != ""
	case !strings.HasPrefix(path, "/"):
		return m, false
	}
	begin, _, isOpen := strings.Cut(path, "{")
	m.to, m.toFile = begin, !isOpen
	return m, !strings.ContainsAny(begin, "%#") && (m.toFile || !strings.Contains(begin, ".php/"))
}

// fileOfURI is what try_files rewrites to.
const fileOfURI = "{http.matchers.file.relative}"

// requestedPath is the path of requests, as try_files has it.
const requestedPath = "{http.request.uri.path}"

// filesTried returns the files that the matchers of try_files try; none where files are chosen otherwise.
func filesTried(own caddyhttp.MatcherSets) []string {
	if len(own) != 1 || len(own[0]) != 1 {
		return nil
	}
	tried, is := own[0][0].(*fileserver.MatchFile)
	if !is || tried.TryPolicy != "" && !strings.HasPrefix(tried.TryPolicy, "first_exist") {
		return nil
	}
	return tried.TryFiles
}

// keepsPaths reports whether try_files tries nothing but paths themselves, as files or folders.
func keepsPaths(tried []string) bool {
	return len(tried) > 0 && all(tried, func(file string) bool { return strings.TrimSuffix(file, "/") == requestedPath })
}

// lastFile returns the file that try_files tries for all paths at last; empty where there is none.
func lastFile(tried []string) string {
	if len(tried) == 0 || !keepsPaths(tried[:len(tried)-1]) && len(tried) > 1 {
		return ""
	}
	if last := tried[len(tried)-1]; strings.HasPrefix(last, "/") && !strings.ContainsAny(last, `{*?[=\`) {
		return last
	}
	return ""
}

// leaveRoute has the moves of a route of a list be those in front of the next one, whose paths the route's own matchers have
// selected. What is known in front of the route is before.
func (m *movedPaths) leaveRoute(routes []route, number int, before *flow) {
	r, isCertain := &routes[number], isForMoves(routes, number)
	moves := slices.Clone(m.moves)
	for i := range moves {
		made := &moves[i]
		if made.seen = min(made.seen, len(before.within)); i < len(before.moved.moves) {
			continue
		}
		switch {
		case !isCertain || len(made.around) > len(before.within):
			made.all, made.files, made.from = false, false, nil
		case made.here && made.by == "try_files":
			made.files = triesPaths(routes, number)
		case made.here && len(r.matchers) > 0:
			made.all, made.from = false, onlyPaths(r.matchers)
		}
		made.here = false
	}
	m.moves = moves
}

// triesPaths reports whether the paths themselves are tried as files before the last one of a route: by the route or one in front in
// its group.
func triesPaths(routes []route, number int) bool {
	return slices.ContainsFunc(routes[:number+1], func(r route) bool {
		return r.group == routes[number].group && slices.Contains(filesTried(r.matchers), requestedPath)
	})
}

// onlyPaths returns the patterns of matchers that ask for the path alone; none where they ask for something else.
func onlyPaths(sets caddyhttp.MatcherSets) (patterns caddyhttp.MatchPath) {
	for _, set := range sets {
		if len(set) != 1 {
			return nil
		}
		paths, is := set[0].(*caddyhttp.MatchPath)
		if !is {
			return nil
		}
		patterns = append(patterns, *paths...)
	}
	return patterns
}

// isForMoves reports whether all requests that come to a list and have the paths of one of its routes go through that route, or
// through another rewrite: the routes of its group in front, of which a request takes one, have nothing else.
func isForMoves(routes []route, number int) bool {
	group := routes[number].group
	return group == "" || !slices.ContainsFunc(routes[:number+1], func(r route) bool {
		return r.group == group && slices.ContainsFunc(r.handlers, func(h handler) bool { return h.Name != "rewrite" })
	})
}

// warnOfMoves warns of a limit for paths that have been moved.
func (f *flow) warnOfMoves(s *Subject, place place) {
	if f.moved.any || len(f.moved.moves) == 0 {
		return
	}
	const text = "a limit is for %s, but %s in front of it has changed that path to %s%s; put both into a route, the limit first"
	for i := range f.moved.moves {
		m := &f.moved.moves[i]
		if len(m.around) > len(f.within) || commonRoutes(m.around, f.within) < len(m.around) {
			continue
		}
		for _, sets := range append(slices.Clone(f.within[min(m.seen, len(f.within)):]), s.Matches...) {
			gone := f.movedOf(m, sets)
			if len(gone) == 0 {
				continue
			}
			unless, to := "", m.to
			if m.files {
				unless = ", unless there is such a file"
			}
			if !m.toFile {
				to += "..."
			}
			f.found.add(place, fmt.Sprintf(text, strings.Join(gone, ", "), m.by, to, unless))
			return
		}
	}
}

// movedOf returns the patterns that matchers ask for, if a move has taken all of their paths away; none otherwise.
func (f *flow) movedOf(m *move, sets caddyhttp.MatcherSets) (gone []string) {
	for _, set := range sets {
		i := slices.IndexFunc(set, func(matcher any) bool {
			paths, is := matcher.(*caddyhttp.MatchPath)
			return is && len(*paths) > 0 && all(*paths, func(p string) bool { return m.takes(p) && !f.isTarget(p) })
		})
		if i < 0 {
			return nil
		}
		paths, _ := set[i].(*caddyhttp.MatchPath)
		gone = AppendNew(gone, *paths...)
	}
	return gone
}

// isTarget reports whether the path that a move in front has written may have a pattern.
func (f *flow) isTarget(pattern string) bool {
	return slices.ContainsFunc(f.moved.moves, func(m move) bool { return m.mayHave(pattern) })
}

// cutPattern returns the text of a pattern in lower case, whether more may follow, and whether that is all of the pattern.
func cutPattern(pattern string) (text string, more, isPlain bool) {
	text, more = strings.CutSuffix(strings.ToLower(pattern), "*")
	return text, more, strings.HasPrefix(text, "/") && !strings.ContainsAny(text, `*?[{%\`)
}

// takes reports whether the handler certainly moves all paths of a pattern. A file that is there keeps its path; a name without
// an extension is hardly one's.
func (m *move) takes(pattern string) bool {
	text, more, isPlain := cutPattern(pattern)
	switch {
	case !isPlain:
		return false
	case m.all:
		return true
	case m.files:
		return !more && text != "/" && !strings.Contains(text[strings.LastIndexByte(text, '/'):], ".") && !strings.HasSuffix(text, "/")
	}
	return slices.ContainsFunc(m.from, func(from string) bool {
		begin, open, isPlain := cutPattern(from)
		return isPlain && (open && strings.HasPrefix(text, begin) || !open && !more && text == begin)
	})
}

// mayHave reports whether a path that the handler has written may have a pattern, in any form that routers take for it.
func (m *move) mayHave(pattern string) bool {
	text, more, isPlain := cutPattern(pattern)
	to, bare := strings.ToLower(m.to), strings.TrimRight(text, "/")
	folder, _, isIndex := strings.Cut(to, "/index.")
	switch {
	case !isPlain:
		return true
	case !m.toFile:
		return strings.HasPrefix(text, to) || more && strings.HasPrefix(to, text)
	case more && strings.HasPrefix(to+"/", text), isIndex && bare == folder:
		return true
	}
	return bare == strings.TrimRight(to, "/") || strings.HasPrefix(to, text+".")
}
