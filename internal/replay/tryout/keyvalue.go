package tryout

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/rule"
)

// keyValue is a placeholder of a key, as a Caddyfile writes it without braces, cut before the name of a header, cookie or value.
type keyValue struct{ kind, name string }

// keyValues returns the placeholders of a rule's key.
func keyValues(r *rule.Rule) (all []keyValue) {
	for _, full := range r.Key.Placeholders() {
		short := strings.Trim(rule.ShortNames("{"+full+"}"), "{}")
		kind, name, _ := strings.Cut(short, ".")
		if short == "credential.user" {
			kind, name = short, ""
		}
		all = append(all, keyValue{kind, name})
	}
	return all
}

// text returns the placeholder with braces.
func (v keyValue) text() string {
	if v.name == "" {
		return "{" + v.kind + "}"
	}
	return "{" + v.kind + "." + v.name + "}"
}

// isMade reports whether requests can be made that have the value.
func (v keyValue) isMade() bool {
	return slices.Contains([]string{"client_ip", "remote", "remote_host", "header", "cookie", "query", "json", "form", "path", "uri", "host",
		"hostport", "method", "credential", "credential.user", "labels", "dir", "file", "re"}, v.kind)
}

// The clients that values are made for: the one whose quota is used up, and another one.
const (
	firstClient = iota
	otherClient
)

var (
	madeTexts     = [2]string{tableValue, "def"}
	madeLogins    = [2]string{"alice:pw", "bob:pw"}
	madeAccounts  = [2]string{"alice@example.com", "bob@example.com"}
	madeAddresses = [2]string{"198.51.100.7", "203.0.113.9"}
)

// addressHeaders have addresses of clients, as proxies write them.
var addressHeaders = []string{"X-Forwarded-For", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "X-Client-Ip", "Fastly-Client-Ip"}

// give gives a request the value of a client. Values that the request has stay, but of the other client.
func (v keyValue) give(r *request, client int) {
	stays := client == firstClient
	switch v.kind {
	case "header":
		if name := http.CanonicalHeaderKey(v.name); !stays || r.header.Get(name) == "" {
			r.header.Set(name, madeHeader(name, client))
		}
	case "credential":
		if !stays || r.header.Get("Authorization")+r.header.Get(tableHeader) == "" {
			r.header.Del(tableHeader)
			r.header.Set("Authorization", "Bearer "+madeTexts[client])
		}
	case "credential.user":
		if _, _, isLogin := (&http.Request{Header: r.header}).BasicAuth(); !stays || !isLogin {
			r.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(madeLogins[client])))
		}
	case "cookie":
		if !stays || !r.hasCookie(v.name) {
			r.setCookie(v.name, madeTexts[client])
		}
	case "query":
		if v.name != "" && (!stays || !r.hasQuery(v.name)) {
			r.setQuery(v.name, madeTexts[client])
		}
	}
}

// madeHeader returns the value of a header.
func madeHeader(name string, client int) string {
	switch {
	case name == "Authorization" || name == "Proxy-Authorization":
		return "Bearer " + madeTexts[client]
	case slices.Contains(addressHeaders, name):
		return madeAddresses[client]
	}
	return madeTexts[client]
}

// bodyFor returns a body that has the values of a key for a client, and its type; nil: the key has no value of a body.
func bodyFor(values []keyValue, options []string, client int) (body []byte, contentType string) {
	document, form := map[string]any{}, url.Values{}
	if slices.Contains(options, "weight") || slices.Contains(options, "limit") { // of a language model, or of calls
		document = map[string]any{"model": "m", "max_tokens": 10, "messages": []any{map[string]any{"role": "user", "content": "x"}}}
	}
	for _, v := range values {
		switch v.kind {
		case "json":
			at := document
			path := strings.Split(v.name, ".")
			for _, name := range path[:len(path)-1] {
				inner, _ := at[name].(map[string]any)
				if inner == nil {
					inner = map[string]any{}
					at[name] = inner
				}
				at = inner
			}
			at[path[len(path)-1]] = madeAccounts[client]
		case "form":
			form.Set(v.name, madeAccounts[client])
		}
	}
	switch {
	case len(document) > 0:
		body, _ = json.Marshal(document) // texts, numbers and objects
		return body, "application/json"
	case len(form) > 0:
		return []byte(form.Encode()), "application/x-www-form-urlencoded"
	}
	return nil, ""
}

// parts returns the parts of a request that the table spells and that the key is made of.
func (v keyValue) parts(r *request, given http.Header) (parts []part) {
	switch v.kind {
	case "header":
		if name := http.CanonicalHeaderKey(v.name); name != "Authorization" && name != "Proxy-Authorization" {
			return []part{{group: groupHeader, name: name, value: r.header.Get(name)}}
		}
		return credentialParts(given)
	case "credential":
		if given.Get(tableHeader) == "" {
			parts = credentialParts(given)
		}
		return append(parts, part{group: groupHeader, name: tableHeader, value: given.Get(tableHeader)})
	case "credential.user":
		return []part{{group: groupBasic}}
	case "cookie":
		parts = []part{{group: groupCookie, name: v.name}}
		if cookie, err := (&http.Request{Header: given}).Cookie(v.name); err == nil {
			parts[0].value = cookie.Value
		}
		return parts
	case "query":
		if v.name != "" {
			values, _ := url.ParseQuery(strings.TrimPrefix(r.query(), "?")) // as in setQuery
			return []part{{group: groupQuery, name: v.name, value: values.Get(v.name)}}
		}
	case "host", "hostport":
		return []part{{group: groupHost}}
	}
	return nil
}

// credentialParts returns the parts of Authorization, for the one that is given if one is.
func credentialParts(given http.Header) []part {
	text := given.Get("Authorization")
	token, isBearer := strings.CutPrefix(text, "Bearer ")
	switch {
	case isBearer:
		return []part{{group: groupAuthorization, value: token}}
	case text != "":
		return nil
	}
	return []part{{group: groupAuthorization}, {group: groupJWT}, {group: groupBasic}}
}
