package replay

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestWriteTable_units(t *testing.T) {
	policy := PolicyResult{Name: "p", Limit: 5, Window: time.Minute}
	for units, want := range map[*Units]string{
		nil: "",
		{Offered: 30_000, Admitted: 20_000, Denied: 10_000}:                              "  30,000 units offered, 20,000 admitted, 10,000 denied (33.3 %)\n",
		{Offered: 30, Admitted: 20, DeniedByOthers: 10}:                                  "20 admitted, 0 denied (0 %), 10 denied by other policies\n",
		{Offered: 3, Admitted: 3, Charged: 5_000, Refunded: 2}:                           "  3 units offered, 3 admitted, 0 denied (0 %); after responses 5,000 charged, 2 refunded: 5,001 used\n",
		{Offered: math.MaxInt64, Admitted: math.MaxInt64, Charged: 9, Refunded: 1 << 62}: ": 4,611,686,018,427,387,903 used\n",
	} {
		policy.Units = units
		if text := tableOf(t, &Result{Policies: []PolicyResult{policy}}); !strings.Contains(text, want) || units == nil && strings.Contains(text, "unit") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestUnits_sum_stays(t *testing.T) {
	var u Units
	for range 3 {
		u.add(&Decision{Weight: 1 << 62, Taken: true, Charged: 1 << 62})
		u.add(&Decision{Weight: 1 << 62, Denied: true})
	}
	if u != (Units{Offered: math.MaxInt64, Admitted: math.MaxInt64, Denied: math.MaxInt64, Charged: math.MaxInt64}) {
		t.Errorf("%+v", u)
	}
}
