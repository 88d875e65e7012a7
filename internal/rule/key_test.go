package rule

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"pgregory.net/rapid"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// exact are prefixes that leave every address whole.
var exact = Prefixes{IPv4: 32, IPv6: 128}

// keyRequest is a request from an address, and a replacer that knows these placeholders.
func keyRequest(clientIP string, values map[string]string) (*http.Request, *caddy.Replacer) {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	vars := map[string]any{caddyhttp.ClientIPVarKey: clientIP}
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
	repl := caddy.NewEmptyReplacer()
	repl.Map(func(name string) (any, bool) {
		value, found := values[name]
		return value, found
	})
	return r, repl
}

// keyOf makes the key of a template whose placeholders are {p.0}, {p.1} and so on.
func keyOf(t testing.TB, template string, values ...string) string {
	t.Helper()
	return keysOf(t, template)(values...)
}

// keysOf makes a key of each of many tuples of values.
func keysOf(t testing.TB, template string) func(values ...string) string {
	t.Helper()
	parsed := assert.NoError(ParseKey(template, exact))(t)
	named := map[string]string{}
	r, repl := keyRequest("192.0.2.1", named)
	return func(values ...string) string {
		for i, value := range values {
			named[fmt.Sprint("p.", i)] = value
		}
		return parsed.key(&request{Request: r, repl: repl}).String()
	}
}

func TestKey_encodes_what_could_be_mistaken(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, test := range []struct {
		name, template string
		values         []string
		want           string
	}{
		{"plain", "{p.0}", []string{"jane"}, "jane"},
		{"braces and percent", "{p.0}", []string{"{a}%41"}, "%7Ba%7D%2541"},
		{"other bytes stay", "{p.0}", []string{"\x00\n\xff|:é"}, "\x00\n\xff|:é"},
		{"other bytes stay among others", "{p.0}|{p.1}", []string{"\x00\n\x7f\x80\xff:é", "%"}, "\x00\n\x7f\x80\xff:é|%25"},
		{"a separator", "{p.0}|{p.1}", []string{"a|b", "c"}, "a%7Cb|c"},
		{"a separator on the other side", "{p.0}|{p.1}", []string{"a", "b|c"}, "a|b%7Cc"},
		{"no separator", "{p.0}{p.1}", []string{"a", "b"}, "a%+b"},
		{"a literal before", "user:{p.0}", []string{"user:1"}, "user:%75%73%65%72%3A1"},
		{"literal braces", `\{{p.0}\}`, []string{"a"}, "%(a%)"},
		{"a literal percent", "%{p.0}", []string{"%"}, "%%%25"},
		{"a literal hexadecimal digit", "{p.0}7{p.1}", []string{"7", "C"}, "%377C"},
		{"literals alone", "all", nil, "all"},
		{"placeholders in values stay text", "{p.0}", []string{"{env.HOME}"}, "%7Benv.HOME%7D"},
		{"as long as may be", "{p.0}", []string{long}, long},
		{"an empty value", "{p.0}", []string{""}, ""},
		{"an empty value among others", "a:{p.0}:{p.1}", []string{"x", ""}, ""},
		{"an unknown placeholder", "{p.9}", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := keyOf(t, test.template, test.values...)
			assert.ErrorIf(t, got != test.want, "got %q, want %q", got, test.want)
		})
	}
}

func TestKey_over_128_bytes_is_known_by_its_hash(t *testing.T) {
	long := strings.Repeat("x", 128)
	first, second := keyOf(t, "{p.0}", long+"a"), keyOf(t, "{p.0}", long+"b")
	assert.ErrorIf(t, first == second, "two long values have the key %q", first)
	hashed := keyOf(t, "{p.0}", strings.Repeat("{", 128)) // which gets long by encoding
	for _, key := range []string{first, second, hashed, keyOf(t, "a{p.0}", long)} {
		assert.ErrorIf(t, len(key) != len("%~")+64 || !strings.HasPrefix(key, "%~"), "got %q, want %s and 64 digits", key, "%~")
	}
	forged := keyOf(t, "{p.0}", first)
	assert.ErrorIf(t, forged == first, "a client that sends %q gets that key", first)
}

// pieces draws the parts of a template: literals, and placeholders as "".
func pieces(t *rapid.T) []string {
	literal := rapid.StringOfN(rapid.RuneFrom([]rune(`|:%{}a7Cc~+(ip`)), 1, 3, -1)
	parts := rapid.SliceOfN(rapid.OneOf(literal, rapid.Just("")), 2, 6).Draw(t, "parts")
	count := 0
	return slices.DeleteFunc(parts, func(part string) bool {
		if part == "" {
			count++
		}
		return part == "" && count > 3
	})
}

// templateOf writes the parts as a key's text. The second result is the number of placeholders.
func templateOf(parts []string) (template string, placeholders int) {
	for _, part := range parts {
		if part == "" {
			template += fmt.Sprintf("{p.%d}", placeholders)
			placeholders++
			continue
		}
		template += strings.NewReplacer("{", `\{`, "}", `\}`).Replace(part)
	}
	return template, placeholders
}

// TestKey_is_injective makes the keys of all short values of a few characters, the literals' own
// among them, and finds no two alike.
func TestKey_is_injective(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := pieces(rt)
		template, placeholders := templateOf(parts)
		if _, err := ParseKey(template, exact); err != nil { // such as a text that is the name of a placeholder
			rt.Skip()
		}
		letters := append([]string{"%", "7"}, strings.Split(strings.Join(parts, ""), "")...)
		alphabet := rapid.SliceOfNDistinct(rapid.SampledFrom(letters), 2, 3, rapid.ID[string]).Draw(rt, "alphabet")
		var values []string
		for _, first := range alphabet {
			values = append(values, first)
			for _, second := range alphabet {
				values = append(values, first+second)
			}
		}
		keyOf, seen := keysOf(t, template), map[string][]string{}
		for tuple := range tuples(values, placeholders) {
			key := keyOf(tuple...)
			if other, found := seen[key]; found {
				rt.Fatalf("template %q gives %q and %q the same key %q", template, other, tuple, key)
			}
			seen[key] = tuple
		}
	})
}

// tuples lists all combinations of that many values.
func tuples(values []string, count int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		total := 1
		for range count {
			total *= len(values)
		}
		for i := range total {
			tuple := make([]string, count)
			for j := range tuple {
				tuple[j] = values[i%len(values)]
				i /= len(values)
			}
			if !yield(tuple) {
				return
			}
		}
	}
}

// TestKey_keeps_nothing_of_the_text_that_it_is_cut_from makes keys of a few bytes of long cookie lines,
// as Caddy's placeholders are.
func TestKey_keeps_nothing_of_the_text_that_it_is_cut_from(t *testing.T) {
	key := assert.NoError(ParseKey("{p.0}", exact))(t)
	const line, keys = 64 << 10, 1000
	kept := make([]string, 0, keys)
	before := heap()
	for i := range keys {
		cookie := fmt.Sprintf("%08d", i) + strings.Repeat("; and more", line/10)
		r, repl := keyRequest("192.0.2.1", map[string]string{"p.0": cookie[:8]})
		kept = append(kept, key.key(&request{Request: r, repl: repl}).String())
	}
	grown := heap() - before
	assert.ErrorIf(t, grown > keys*line/10, "%d keys of %d bytes keep %d bytes", keys, len(kept[0]), grown)
	runtime.KeepAlive(kept)
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestAddress_is_cut_to_its_prefix(t *testing.T) {
	for _, test := range []struct {
		address  string
		prefixes Prefixes
		want     string
	}{
		{"192.0.2.77", Prefixes{32, 64}, "192.0.2.77"},
		{"192.0.2.77", Prefixes{24, 64}, "192.0.2.0/24"},
		{"192.0.2.77", Prefixes{0, 64}, "0.0.0.0/0"},
		{"2001:db8:1:2:3:4:5:6", Prefixes{32, 64}, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3:4:5:6", Prefixes{32, 128}, "2001:db8:1:2:3:4:5:6"},
		{"2001:DB8:0::6", Prefixes{32, 128}, "2001:db8::6"},
		{"2001:db8:1:2:3:4:5:6", Prefixes{32, 0}, "::/0"},
		{"2001:db8:1:2:3:4:5:6", Prefixes{32, 47}, "2001:db8::/47"},
		{"::ffff:192.0.2.77", Prefixes{32, 64}, "192.0.2.77"},
		{"::ffff:192.0.2.77", Prefixes{16, 64}, "192.0.0.0/16"},
		{"::ffff:c000:24d", Prefixes{32, 64}, "192.0.2.77"},
		{"fe80::1%eth0", Prefixes{32, 64}, "fe80::/64"},
		{"fe80::1%eth0", Prefixes{32, 128}, "fe80::1"},
		{"64:ff9b::192.0.2.77", Prefixes{32, 64}, "192.0.2.77"},
		{"64:ff9b::192.0.2.77", Prefixes{24, 64}, "192.0.2.0/24"},
		{"64:FF9B::C000:24D", Prefixes{32, 128}, "192.0.2.77"},
		{"64:ff9b::192.0.2.77%eth0", Prefixes{32, 64}, "192.0.2.77"},
		{"64:ff9b::1:192.0.2.77", Prefixes{32, 64}, "64:ff9b::/64"},
		{"::ffff:0:192.0.2.77", Prefixes{32, 64}, "192.0.2.77"},
		{"::ffff:1:192.0.2.77", Prefixes{32, 64}, "::/64"},
		{"::192.0.2.77", Prefixes{32, 64}, "::/64"},
		{"2002:c000:24d::1", Prefixes{32, 64}, "192.0.2.77"},
		{"2002:c000:24d:5:6:7:8:9", Prefixes{16, 64}, "192.0.0.0/16"},
		{"2003:c000:24d::1", Prefixes{32, 64}, "2003:c000:24d::/64"},
		{"64:ff9b:1::192.0.2.77", Prefixes{32, 64}, "64:ff9b:1::c000:24d"},
		{"64:ff9b:1:2:3:4:5:6", Prefixes{24, 48}, "64:ff9b:1:2:3:4:5:6"},
		{"64:ff9b:2::1", Prefixes{32, 64}, "64:ff9b:2::/64"},
		{"", Prefixes{32, 64}, ""},
		{"@", Prefixes{24, 64}, "@"},
		{"no:address", Prefixes{24, 64}, "no:address"},
	} {
		assert.Equal(t, test.prefixes.Shorten(test.address), test.want, "%q with %+v", test.address, test.prefixes)
	}
}

// TestAddress_in_an_address_is_of_the_internet has IPv4 addresses that no client of the internet has within the networks
// of IPv6, beside the nearest ones that clients have. Those of the first kind must not count as the client that has them.
func TestAddress_in_an_address_is_of_the_internet(t *testing.T) {
	for ipv4, counts := range map[string]bool{
		"0.0.0.0": false, "0.255.255.255": false, "1.0.0.0": true,
		"9.255.255.255": true, "10.0.0.1": false, "11.0.0.0": true,
		"100.63.255.255": true, "100.64.0.0": false, "100.127.255.255": false, "100.128.0.0": true,
		"126.255.255.255": true, "127.0.0.1": false, "128.0.0.0": true,
		"169.253.255.255": true, "169.254.169.254": false, "169.255.0.0": true,
		"172.15.255.255": true, "172.16.0.1": false, "172.31.255.255": false, "172.32.0.0": true,
		"192.167.255.255": true, "192.168.0.1": false, "192.169.0.0": true,
		"223.255.255.255": true, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
	} {
		bytes := assert.NoError(netip.ParseAddr(ipv4))(t).As4()
		sixToFour := netip.AddrFrom16([16]byte{0: 0x20, 1: 0x02, 2: bytes[0], 3: bytes[1], 4: bytes[2], 5: bytes[3], 15: 1})
		for address, network := range map[string]string{
			"64:ff9b::" + ipv4: "64:ff9b::/64",
			"::ffff:0:" + ipv4: "::/64",
			sixToFour.String(): netip.PrefixFrom(sixToFour, 64).Masked().String(),
			"::ffff:" + ipv4:   ipv4, // not translated: the machine's own form of an IPv4 connection
		} {
			want := network
			if counts {
				want = ipv4
			}
			assert.Equal(t, Prefixes{IPv4: 32, IPv6: 64}.Shorten(address), want, "%s", address)
		}
	}
}

// TestAddress_is_cut_wherever_it_stands_in_a_key has both placeholders of an address in one key.
func TestAddress_is_cut_wherever_it_stands_in_a_key(t *testing.T) {
	template := assert.NoError(ParseKey("{http.vars.client_ip}|{http.request.remote.host}|{p.0}", Prefixes{IPv4: 24, IPv6: 64}))(t)
	r, repl := keyRequest("2001:db8::1:2:3:4", map[string]string{"http.request.remote.host": "192.0.2.77", "p.0": "192.0.2.77"})
	got, want := template.key(&request{Request: r, repl: repl}).String(), "2001:db8::/64|192.0.2.0/24|192.0.2.77"
	assert.ErrorIf(t, got != want, "got %q, want %q", got, want)
}

// TestAddress_of_several_policies is cut to the prefix of each policy of a request.
func TestAddress_of_several_policies(t *testing.T) {
	r, _ := keyRequest("192.0.2.77", nil)
	q := &request{Request: r}
	for bits, want := range map[int]string{32: "192.0.2.77", 24: "192.0.2.0/24", 16: "192.0.0.0/16"} {
		template := assert.NoError(ParseKey("{http.vars.client_ip}", Prefixes{IPv4: bits, IPv6: 64}))(t)
		for range 2 {
			assert.Equal(t, template.key(q).String(), want, "cut to %d bits", bits)
		}
	}
}

func TestAddress_alone_needs_no_replacer(t *testing.T) {
	template := assert.NoError(ParseKey("{http.vars.client_ip}", Prefixes{IPv4: 32, IPv6: 64}))(t)
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "": ""} {
		r, _ := keyRequest(address, nil)
		assert.Equal(t, template.key(&request{Request: r}).String(), want, "from %q", address)
	}
}

// TestAddress_in_place_of_an_empty_key_is_no_values_key tries what a client might send.
func TestAddress_in_place_of_an_empty_key_is_no_values_key(t *testing.T) {
	template := assert.NoError(ParseKey("{p.0}", exact))(t)
	r, _ := keyRequest("192.0.2.1", nil)
	stand := template.addressKey(r).String()
	want := addressMark + "192.0.2.1"
	assert.ErrorIf(t, stand != want, "got %q, want %q", stand, want)
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.Just(stand), rapid.Just("192.0.2.1"),
			rapid.StringOfN(rapid.RuneFrom([]rune("%ip:192.0")), -1, 16, -1)).Draw(rt, "value")
		if key := keyOf(t, "{p.0}", value); key == stand {
			rt.Errorf("the value %q has the key %q of an address", value, key)
		}
	})
	other, _ := keyRequest("192.0.2.2", nil)
	assert.ErrorIf(t, template.addressKey(other).String() == stand, "two addresses share the key")
}
