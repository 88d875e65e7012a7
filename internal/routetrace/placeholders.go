package routetrace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	caddymap "github.com/caddyserver/caddy/v2/modules/caddyhttp/map"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// This file is about placeholders that limits go by, and that no handler sets as it is meant.

// note notes which placeholders a handler sets.
func (f *findings) note(handler caddyhttp.MiddlewareHandler) {
	switch handler := handler.(type) {
	case *caddymap.Handler:
		f.mapped = append(f.mapped, handler.Destinations...)
	case *caddyhttp.VarsMiddleware:
		f.vars = slices.AppendSeq(f.vars, maps.Keys(*handler))
	default:
		f.foreign = f.foreign || isForeign(handler)
	}
}

// meant returns what is meant by a placeholder that Caddy does not have: in a Caddyfile and in JSON; empty for any
// other name.
func meant(name string) (caddyfile, inJSON string) {
	if slices.Contains([]string{"user", "username", "user_id", "user.id"}, name) {
		return "{http.auth.user.id}", "{http.auth.user.id}"
	}
	for _, plural := range []string{"cookies.", "headers."} {
		if rest, found := strings.CutPrefix(name, plural); found {
			word := strings.TrimSuffix(plural, "s.") + "." + rest
			return "{" + word + "}", "{http.request." + word + "}"
		}
	}
	return rule.MeantOfBody(name)
}

// mapOutputs are outputs for regular expressions that have a placeholder, by the destination of the map in front: Caddy replaces no
// placeholder in these.
type mapOutputs map[string]mapOutput

type mapOutput struct{ input, output string }

// placeholderInOutput finds a placeholder in an output of map, and no group of the regular expression, which follows a dollar sign.
var placeholderInOutput = regexp.MustCompile(`(?:^|[^$\\])\{[a-z_]+[.][\w.:-]+\}`)

// with returns the outputs with those of a handler, whose destinations replace others.
func (m mapOutputs) with(module caddyhttp.MiddlewareHandler) mapOutputs {
	handler, is := module.(*caddymap.Handler)
	if !is {
		return m
	}
	all := mapOutputs{}
	maps.Copy(all, m)
	for i, destination := range handler.Destinations {
		delete(all, destination)
		for _, mapping := range handler.Mappings {
			if mapping.InputRegexp == "" || i >= len(mapping.Outputs) {
				continue
			}
			if output, is := mapping.Outputs[i].(string); is && placeholderInOutput.MatchString(output) {
				all[destination] = mapOutput{mapping.InputRegexp, output}
				break
			}
		}
	}
	return all
}

// warnOfPlaceholders warns of placeholders of a limit, and notes those that nothing may set.
func (f *flow) warnOfPlaceholders(s *Subject, place place) {
	for _, name := range s.Placeholders {
		if strings.HasPrefix(name, userPrefix) {
			f.read(earlyRead{place: place, name: name, user: true})
			continue
		}
		if o, found := f.outputs[name]; found {
			f.found.add(place, fmt.Sprintf("the limit reads {%s}, which map sets to the text %s for ~%s: Caddy replaces no placeholder in the "+
				"output of a regular expression; write a group of it there, such as $1, or an input without ~", name, rule.ShortNames(o.output), o.input))
		}
		f.found.reads = append(f.found.reads, finding{place, name})
	}
}

// addMisspelled warns of a placeholder that no handler sets, and that is one edit from one that a handler sets.
func (f *findings) addMisspelled(read finding) {
	const text = "the limit reads {%s}, which nothing sets, so that it is always empty; write %s, which %s sets"
	name, isVariable := strings.CutPrefix(read.text, variablePrefix)
	set, by := f.mapped, "map"
	if isVariable {
		set, by = f.vars, "vars"
	}
	switch first, _, _ := strings.Cut(name, "."); {
	case isVariable && slices.Contains(set, name):
	case !isVariable && slices.Contains([]string{"http", "env", "file", "system", "time", "tls"}, first):
	case isVariable && (slices.Contains(ownVariables, name) || strings.Contains(strings.Join(set, ""), "{")):
	default:
		i := slices.IndexFunc(set, func(other string) bool { return isOneEdit(name, other) })
		if i < 0 {
			return
		}
		shown, meant := name, "{"+set[i]+"}"
		if isVariable {
			shown, meant = "vars."+name, "{vars."+set[i]+"}, in JSON {"+variablePrefix+set[i]+"}"
		}
		f.add(read.place, fmt.Sprintf(text, shown, meant, by))
	}
}

// variablePrefix begins the placeholders of variables. Caddy itself sets ownVariables, and handlers beside vars.
const variablePrefix = "http.vars."

var ownVariables = strings.Fields("client_ip trusted_proxy root fs log_skip access_logger_names start_time uuid trace_id span_id unhandled")

// isOneEdit reports whether one name becomes another one by a letter more, less or other, or by two that change their places.
func isOneEdit(a, b string) bool {
	const shortest = 3
	if len(a) > len(b) {
		a, b = b, a
	}
	begin := 0
	for begin < len(a) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < len(a)-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	a, between := a[begin:len(a)-end], b[begin:len(b)-end]
	switch {
	case a == between || len(b) < shortest:
		return false
	case len(a) < 2:
		return len(between) == 1
	}
	last := len(a) - 1
	return len(a) == len(between) && a[0] == between[last] && a[last] == between[0] && a[1:last] == between[1:last]
}

// addUnset warns of placeholders that no handler sets, with the names of other products or misspelled ones.
func (f *findings) addUnset() {
	const never = "the limit reads {%s}, which nothing sets, so that it is always empty; write %s, or set it by map"
	mapped := map[string]bool{}
	for _, name := range f.mapped {
		mapped[name] = true
	}
	for _, read := range f.reads {
		name := read.text
		if f.foreign || mapped[name] {
			continue
		}
		caddyfile, inJSON := meant(name)
		switch {
		case caddyfile == "":
			f.addMisspelled(read)
			continue
		case slices.Contains(f.vars, name):
			caddyfile = "{vars." + name + "}, in JSON {http.vars." + name + "}"
		case caddyfile != inJSON:
			caddyfile += ", in JSON " + inJSON
		}
		f.add(read.place, fmt.Sprintf(never, name, caddyfile))
	}
}

// PlacesOf returns the places of the handlers that name a placeholder, each once and without limits, which know their own.
func PlacesOf(name string, trees map[string]*Tree) (places []string) {
	text := []byte("{" + name + "}")
	names := func(module any) bool {
		written, err := json.Marshal(module)
		return err == nil && bytes.Contains(written, text)
	}
	for _, server := range slices.Sorted(maps.Keys(trees)) {
		eachHandler(trees[server].lists, func(h *handler, at place) bool {
			if at.Server = trees[server].text(server); h.limiting == nil && names(h.module) {
				places = AppendNew(places, at.String())
			}
			return true
		})
	}
	return places
}
