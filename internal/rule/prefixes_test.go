package rule

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

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
		{"", Prefixes{32, 64}, ""},
		{"@", Prefixes{24, 64}, "@"},
		{"no:address", Prefixes{24, 64}, "no:address"},
	} {
		got := test.prefixes.Shorten(test.address)
		redistest.ErrorIf(t, got != test.want, "%q with %+v: got %q, want %q", test.address, test.prefixes, got, test.want)
	}
}

// TestAddress_is_cut_wherever_it_stands_in_a_key has both placeholders of an address in one key.
func TestAddress_is_cut_wherever_it_stands_in_a_key(t *testing.T) {
	template, err := ParseKey("{http.vars.client_ip}|{http.request.remote.host}|{p.0}", Prefixes{IPv4: 24, IPv6: 64})
	redistest.Must(t, err)
	r, repl := keyRequest("2001:db8::1:2:3:4", map[string]string{"http.request.remote.host": "192.0.2.77", "p.0": "192.0.2.77"})
	got, want := template.Key(r, repl).String(), "2001:db8::/64|192.0.2.0/24|192.0.2.77"
	redistest.ErrorIf(t, got != want, "got %q, want %q", got, want)
}

func TestAddress_alone_needs_no_replacer(t *testing.T) {
	template, err := ParseKey("{http.vars.client_ip}", Prefixes{IPv4: 32, IPv6: 64})
	redistest.Must(t, err)
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "": ""} {
		r, _ := keyRequest(address, nil)
		got := template.Key(r, nil).String()
		redistest.ErrorIf(t, got != want, "from %q: got %q, want %q", address, got, want)
	}
}

// TestAddress_in_place_of_an_empty_key_is_no_values_key tries what a client might send.
func TestAddress_in_place_of_an_empty_key_is_no_values_key(t *testing.T) {
	template, err := ParseKey("{p.0}", exact)
	redistest.Must(t, err)
	r, _ := keyRequest("192.0.2.1", nil)
	stand := template.AddressKey(r).String()
	want := addressMark + "192.0.2.1"
	redistest.ErrorIf(t, stand != want, "got %q, want %q", stand, want)
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.Just(stand), rapid.Just("192.0.2.1"),
			rapid.StringOfN(rapid.RuneFrom([]rune("%ip:192.0")), -1, 16, -1)).Draw(rt, "value")
		if key := keyOf(t, "{p.0}", value); key == stand {
			rt.Errorf("the value %q has the key %q of an address", value, key)
		}
	})
	other, _ := keyRequest("192.0.2.2", nil)
	redistest.ErrorIf(t, template.AddressKey(other).String() == stand, "two addresses share the key")
}
