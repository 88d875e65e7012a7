package main

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// This file has the forms of values by which known.go compares those that share a key.

// plain returns a text without case, marks and blanks at its ends. Readers that have the bytes of UTF-8 as letters of
// ISO-8859-1 mean the same text.
func plain(text string) string {
	var bytes []byte
	for _, r := range text {
		if r > 0xff {
			return bodyvalue.FoldKey(text)
		}
		bytes = append(bytes, byte(r))
	}
	if utf8.Valid(bytes) {
		text = string(bytes)
	}
	return bodyvalue.FoldKey(text)
}

// lastWord returns a token without what stands before its last blank, and without padding.
func lastWord(text string) string {
	words := strings.Fields(text)
	return strings.ToLower(strings.TrimRight(words[max(0, len(words)-1)], "="))
}

// signedPart returns a JWT with the first 40 letters of its signature.
func signedPart(token string) string {
	begin := strings.LastIndexByte(token, '.') + 1
	return token[:min(len(token), begin+40)]
}

// user returns the user of a login.
func user(login string) string {
	name, _, _ := strings.Cut(login, "|")
	return strings.TrimPrefix(plain(name), "\ufeff")
}

// plainCookie returns a cookie as the most tolerant reader has it.
func plainCookie(text string) string {
	text = strings.ReplaceAll(unescaped(strings.Trim(text, "\" \t")), "+", " ")
	return plain(strings.Trim(text, `" `))
}

// plainParameter returns a parameter, which nginx's variables have as it is written, as other readers have it.
func plainParameter(text string) string { return plain(unescaped(text)) }

// unescaped returns a text of a query decoded, if it can be.
func unescaped(text string) string {
	if decoded, err := url.QueryUnescape(text); err == nil {
		return decoded
	}
	return text
}

// plainHost returns a host without its port and the dots at its end.
func plainHost(text string) string {
	if address, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return address.WithZone("").String()
	}
	if end := strings.LastIndexByte(text, ':'); end >= 0 {
		text = text[:end]
	}
	if address, err := netip.ParseAddr(strings.Trim(strings.Replace(text, "%25", "%", 1), "[]")); err == nil {
		return address.WithZone("").String()
	}
	return strings.ToLower(strings.TrimRight(text, "."))
}

// plainPath returns what a router has of a path without what other routers drop.
func plainPath(text string) string {
	if decoded, err := url.PathUnescape(text); err == nil {
		text = decoded
	}
	route, id, _ := strings.Cut(text, " ")
	id, _, _ = strings.Cut(id, ";")
	id, _, _ = strings.Cut(strings.Trim(id, "/"), ".")
	return route + " " + plain(id)
}
