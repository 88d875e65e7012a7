package main

import (
	"net/netip"
	"slices"
	"strings"
)

// known is a disagreement that does no harm.
type known struct {
	reason string
	kind   kind
	groups []group
	holds  func(d *disagreement) bool
}

// harmless are the disagreements that do no harm. Any other fails a run, and so does one of these that is not met any more.
var harmless = []known{
	{
		reason: "a token in the query, which {header.Authorization} is not asked for: the recipe for such applications writes {credential}",
		kind:   absent, groups: []group{authorizations},
		holds: func(d *disagreement) bool {
			return d.policy == "{header.Authorization}" && strings.Contains(d.inputs[0].target, "?access_token=")
		},
	},
	{
		reason: "two quotes with nothing between them, which is no session",
		kind:   absent, groups: []group{cookies},
		holds: func(d *disagreement) bool { return d.values[0] == `""` },
	},
	{
		reason: "the server's own address, which Starlette has of a Host that it takes for none: no client chooses what is read",
		kind:   twoKeys, groups: []group{hosts},
		holds: ownAddress,
	},
	{
		reason: "an address of IPv4 in another form, which Node's URL has in the usual one: a site that is reached by such hosts is reached by " +
			"any, so that {host} bounds nothing there",
		kind: twoKeys, groups: []group{hosts},
		holds: func(d *disagreement) bool {
			address, err := netip.ParseAddr(d.values[0])
			return d.reader == "host URL" && err == nil && address.Is4()
		},
	},
	{
		reason: "the server's own address beside hosts that it reads, as above",
		kind:   joined, groups: []group{hosts},
		holds: ownAddress,
	},
	{
		reason: "letters of the other case, which databases take for one: who writes either knows the secret",
		kind:   joined, groups: []group{authorizations, jwts, apiKeys, cookies, queries, hosts},
		holds: func(d *disagreement) bool { return strings.EqualFold(d.values[0], d.values[1]) },
	},
	{
		reason: "letters of the other case in a path, which some routers take for one; write raw_key where ids differ by case",
		kind:   joined, groups: []group{paths, scripts},
		holds: func(d *disagreement) bool { return strings.EqualFold(d.values[0], d.values[1]) },
	},
	{
		reason: "a token behind another scheme or other blanks, which other readers drop: who writes either knows the secret",
		kind:   joined, groups: []group{authorizations, jwts},
		holds: same(lastWord),
	},
	{
		reason: "another end of a JWT's signature, behind the 40 letters that count: no one can sign so",
		kind:   joined, groups: []group{jwts},
		holds: same(func(text string) string { return signedPart(lastWord(text)) }),
	},
	{
		reason: "a password, which {credential.user} leaves out",
		kind:   joined, groups: []group{logins},
		holds: func(d *disagreement) bool {
			return d.policy == "{credential.user}" && same(user)(d)
		},
	},
	{
		reason: "a login with blanks, marks or letters of the other case, or what follows a colon in its password: databases, or other " +
			"readers, take them for one",
		kind: joined, groups: []group{logins},
		holds: same(func(text string) string {
			_, password, _ := strings.Cut(text, "|")
			password, _, _ = strings.Cut(password, ":")
			return user(text) + "|" + password
		}),
	},
	{
		reason: "a cookie that is quoted or percent-encoded, with blanks, marks or letters of the other case, as other readers decode it: who " +
			"writes either knows the session",
		kind: joined, groups: []group{cookies},
		holds: same(plainCookie),
	},
	{
		reason: "a cookie that is sent twice, of which hapi makes a list",
		kind:   joined, groups: []group{cookies},
		holds: func(d *disagreement) bool { return slices.Contains(d.values[:], `["abc","abc"]`) },
	},
	{
		reason: "a parameter with blanks, marks or letters of the other case, which databases take for one, or percent-encoded, for nginx's " +
			"variables: who writes either knows the secret",
		kind: joined, groups: []group{queries},
		holds: same(plainParameter),
	},
	{
		reason: "a host with its port, a dot at its end, or an address of IPv6 in another form, as other readers have it",
		kind:   joined, groups: []group{hosts},
		holds: same(plainHost),
	},
	{
		reason: "a path with a slash, a parameter or an extension at its end, or percent-encoded, as other routers have it; write raw_key " +
			"where ids have extensions",
		kind: joined, groups: []group{paths, scripts},
		holds: same(plainPath),
	},
}

// ownAddress reports whether a reader has the server's own address.
func ownAddress(d *disagreement) bool {
	return d.server.Name == "fastapi" && slices.Contains(d.values[:], "127.0.0.1")
}

// same returns what reports whether a form of both values is the same.
func same(form func(text string) string) func(d *disagreement) bool {
	return func(d *disagreement) bool { return form(d.values[0]) == form(d.values[1]) }
}

// reasonFor returns why a disagreement does no harm, or "".
func reasonFor(d *disagreement) string {
	for _, k := range harmless {
		if k.kind == d.kind && slices.Contains(k.groups, d.group) && k.holds(d) {
			return k.reason
		}
	}
	return ""
}
