package challenge

import (
	"encoding/hex"
	"testing"
)

// counting is a secret of the bytes 0 to 31.
func counting() (s secret) {
	for i := range s {
		s[i] = byte(i)
	}
	return s
}

// sign and read are what a keeper does with its secret.
func (s *secret) sign(t token, n network) string { return s.newSigner().sign(t, n) }

func (s *secret) read(text string, n network) (token, bool) {
	t, mac, ok := parse(text)
	return t, ok && s.newSigner().isSigned(t, mac, n)
}

// vectors are tokens of that secret.
var vectors = []struct {
	token
	address, text string
}{
	{token{kindTicket, 0xed8e, 1795418711}, "203.0.113.7", "Ae2OAGsD6ldwAuigtEHf6u5c74InT6ZP"},
	{token{kindPass, 0xed8e, 1795422311}, "203.0.113.7", "Au2OAGsD-Gepxsnd36HZOTpUGiaLGZ22"},
	{token{kindPass, 0xed8e, 1795422311}, "::ffff:203.0.113.200", "Au2OAGsD-Gepxsnd36HZOTpUGiaLGZ22"},
	{token{kindTicket, 0, 0}, "2001:db8:1:2::5", "AQAAAAAAAABUFtKZ8JiiyKRVvSrJ0kkG"},
	{token{kindPass, 1, 1795422311}, "@", "AgABAGsD-GffRZ5qDzWYRAkg4sclALub"},
	{token{kindFile, 1, 1795418711}, "203.0.113.7", "AwABAGsD6lftrw0lHFexG6DREDpP6Qtv"},
	{token{kindProvenTicket, 1, 1795418711}, "203.0.113.7", "BAABAGsD6ldPz378aVcHehrob9PHovhC"},
	{token{kindProvenPass, 1, 1795422311}, "203.0.113.7", "BQABAGsD-Gd0UbJn-y_8a8ZsV1gOLvMR"},
}

func TestSecret_vectors(t *testing.T) {
	secret := counting()
	for _, v := range vectors {
		if got := secret.sign(v.token, networkOf(v.address)); got != v.text {
			t.Errorf("%+v of %s: %s, want %s", v.token, v.address, got, v.text)
		}
		if got, ok := secret.read(v.text, networkOf(v.address)); !ok || got != v.token {
			t.Errorf("%s is read as %+v, %v; want %+v", v.text, got, ok, v.token)
		}
	}
	derived := secretOf("secret")
	const want = "cfa78cc319c5a9e1472d4385125ee989dd6de362aa06affb56611272fd9e4665"
	if got := hex.EncodeToString(derived[:]); got != want {
		t.Errorf("hash_keys give %s, want %s", got, want)
	}
}

// TestSecret_read_changed changes each byte of a token to all others, and the token's length, network and secret.
func TestSecret_read_changed(t *testing.T) {
	secret, other := counting(), secretOf("")
	for _, v := range vectors {
		n := networkOf(v.address)
		for i := range v.text {
			for b := range 256 {
				text := []byte(v.text)
				if text[i] = byte(b); string(text) == v.text {
					continue
				}
				if got, ok := secret.read(string(text), n); ok {
					t.Errorf("%q is read as %+v", text, got)
				}
			}
		}
		for _, text := range []string{"", v.text[1:], v.text + "A", v.text + "=", "\n" + v.text[1:]} {
			if got, ok := secret.read(text, n); ok {
				t.Errorf("%q is read as %+v", text, got)
			}
		}
		if _, ok := other.read(v.text, n); ok {
			t.Error("another secret reads the token")
		}
		if _, ok := secret.read(v.text, networkOf("203.0.114.7")); ok {
			t.Error("another network has the token")
		}
	}
}

func TestNetworkOf(t *testing.T) {
	for _, same := range [][2]string{{"203.0.113.0", "203.0.113.255"}, {"2001:db8:1::", "2001:db8:1:ffff::1"}, {"fe80::1%eth0", "fe80::2"}, {"", "x"}} {
		if networkOf(same[0]) != networkOf(same[1]) {
			t.Errorf("%s and %s are two networks", same[0], same[1])
		}
	}
	for _, apart := range [][2]string{{"203.0.113.0", "203.0.112.0"}, {"2001:db8:1::", "2001:db8:2::"}, {"0.0.0.0", "::"}, {"0.0.0.0", "@"}, {"::", "@"}} {
		if networkOf(apart[0]) == networkOf(apart[1]) {
			t.Errorf("%s and %s are one network", apart[0], apart[1])
		}
	}
}
