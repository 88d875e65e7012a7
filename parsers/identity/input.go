package main

import (
	"strconv"
	"strings"
)

// group says which part of a request is spelled in many ways.
type group uint8

const (
	authorizations group = iota
	logins               // of Basic
	jwts
	apiKeys
	cookies
	queries
	paths
	scripts // paths of PHP
	hosts
	groups // how many there are
)

// String returns the name of the group in the results.
func (g group) String() string {
	return [groups]string{"Authorization", "Basic", "JWT", "X-Api-Key", "cookie", "query", "path", "script", "host"}[g]
}

// readers are the first words of what readers of a group are called.
func (g group) readers() []string {
	return [groups][]string{
		{"token"}, {"basic"}, {"jwt", "token"}, {"key"}, {"cookie"}, {"query"}, {"route"}, {"script"}, {"host"},
	}[g]
}

// policies are what the module is asked for, in the names of the handler identity_told.
func (g group) policies() []string {
	const header, credential = "{header.Authorization}", "{credential}"
	return [groups][]string{
		{header, credential}, {header, credential, "{credential.user}"}, {header, credential}, {"{header.X-Api-Key}", credential},
		{"{cookie.session}"}, {"{query.token}"}, {"{path}", "path /login", "path /api/items"}, {"{path}", "path /login.php"}, {"{host}"},
	}[g]
}

// matched returns the value of readers that a policy with a matcher has to meet; empty: the policy has a key of its own.
func matched(policy string) string {
	return map[string]string{"path /login": "login", "path /api/items": "items", "path /login.php": "/login.php"}[policy]
}

// input is a request.
type input struct {
	group  group
	target string   // of the request line; ownPath stands for a path that a server has for its readers
	lines  []string // of the header
}

// ownPath begins the target of a request for values, which each server answers.
const ownPath = "/r"

// name returns the part of the request that differs from others, as it is shown.
func (i *input) name() string {
	parts := i.lines
	if rest := strings.TrimPrefix(i.target, ownPath); i.group >= paths && i.group != hosts || rest != "" {
		parts = append([]string{rest}, parts...)
	}
	return quoteShort(strings.Join(parts, "; "))
}

// request returns the request as it is sent, for a path that readers have.
func (i *input) request(path string) []byte {
	target := i.target
	if rest, ok := strings.CutPrefix(target, ownPath); ok && i.group < paths {
		target = path + rest
	}
	lines := append([]string{"GET " + target + " HTTP/1.1"}, i.lines...)
	if i.group != hosts {
		lines = append(lines, "Host: app.example")
	}
	return []byte(strings.Join(append(lines, "Connection: close"), "\r\n") + "\r\n\r\n")
}

// quoteShort quotes a text, and cuts a long one.
func quoteShort(text string) string {
	if len(text) > 100 {
		text = text[:60] + "…" + text[len(text)-20:] + "…" + strconv.Itoa(len(text))
	}
	return strconv.Quote(text)
}
