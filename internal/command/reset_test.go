package command

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

func TestReset_says_where_shares_were_forgotten(t *testing.T) {
	for want, test := range map[string]struct {
		report     adminapi.ResetReport
		everywhere bool
	}{
		"1 share forgotten":                                                  {adminapi.ResetReport{Deleted: 1}, true},
		"19 shares forgotten on this node alone":                             {adminapi.ResetReport{DeletedHere: 19}, false},
		"0 shares forgotten on this node alone":                              {adminapi.ResetReport{}, false},
		"2 shares forgotten in a part of Redis; the rest could not be asked": {adminapi.ResetReport{Deleted: 2, DeletedHere: 19}, false},
	} {
		if got := forgotten(test.report, test.everywhere); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
