package rule

import "testing"

func TestExempt_matches_by_the_address_however_it_is_written(t *testing.T) {
	for _, test := range []struct {
		exempt, address string
		want            bool
	}{
		{"10.0.0.0/8", "10.1.1.1", true},
		{"10.0.0.0/8", "::ffff:10.1.1.1", true},
		{"::ffff:10.0.0.0/104", "10.1.1.1", true},
		{"::ffff:10.1.2.3/104", "::ffff:10.1.1.1", true},
		{"::ffff:10.0.0.0/104", "11.1.1.1", false},
		{"::ffff:0:0/96", "203.0.113.7", true},
		{"::ffff:0:0/96", "2001:db8::1", false},
		{"::ffff:10.1.1.1", "10.1.1.1", true},
		{"10.1.1.1", "::ffff:10.1.1.1", true},
		{"2001:db8::/32", "2001:db8::1", true},
		{"fe80::1", "fe80::1%eth0", true},
		{privateRanges, "192.168.7.7", true},
		{privateRanges, "203.0.113.7", false},
	} {
		exempt, err := ParseExempt([]string{test.exempt})
		if err != nil {
			t.Fatalf("%s: %v", test.exempt, err)
		}
		r, _ := keyRequest(test.address, nil)
		if got := (&Set{Exempt: exempt}).IsExempt(r); got != test.want {
			t.Errorf("%s, from %s: got %t, want %t", test.exempt, test.address, got, test.want)
		}
	}
}
