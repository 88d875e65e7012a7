package command

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

func TestResetText(t *testing.T) {
	for want, test := range map[string]struct {
		report     adminapi.ResetReport
		everywhere bool
	}{
		"1 quota reset":                                                  {adminapi.ResetReport{Deleted: 1}, true},
		"19 quotas reset on this node alone":                             {adminapi.ResetReport{DeletedHere: 19}, false},
		"0 quotas reset on this node alone":                              {adminapi.ResetReport{}, false},
		"2 quotas reset in a part of Redis; the rest could not be asked": {adminapi.ResetReport{Deleted: 2, DeletedHere: 19}, false},
	} {
		if got := resetText(test.report, test.everywhere); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
