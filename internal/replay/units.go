package replay

import (
	"fmt"
	"math"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// Units are the units that the requests of a policy asked for. A sum beyond 2^63 - 1 stays there.
type Units struct {
	// Offered are the weights of all requests: Admitted those that were taken, Denied those of the requests that
	// the policy denied, and DeniedByOthers those that were not taken because another policy denied.
	Offered        int64 `json:"offered"`
	Admitted       int64 `json:"admitted"`
	Denied         int64 `json:"denied"`
	DeniedByOthers int64 `json:"denied_by_others"`

	// Charged are the units beyond the weights that were charged after responses, Refunded those of the
	// admitted ones that were refunded.
	Charged  int64 `json:"charged"`
	Refunded int64 `json:"refunded"`
}

// add adds a decision.
func (u *Units) add(d *PolicyDecision) {
	u.Offered = addUnits(u.Offered, d.Weight)
	switch {
	case d.Denied:
		u.Denied = addUnits(u.Denied, d.Weight)
		return
	case !d.Taken:
		u.DeniedByOthers = addUnits(u.DeniedByOthers, d.Weight)
		return
	}
	u.Admitted = addUnits(u.Admitted, d.Weight)
	u.Charged = addUnits(u.Charged, d.Charged)
	u.Refunded = addUnits(u.Refunded, d.Refunded)
}

// used returns what the admitted requests cost in the end.
func (u *Units) used() int64 { return max(0, addUnits(u.Admitted, u.Charged)-u.Refunded) }

func addUnits(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// units prints the units of a policy's requests.
func (p printer) units(u *Units) {
	text := fmt.Sprintf("  %s offered, %s admitted, %s denied (%s)", display.Counted(u.Offered, "unit"), display.Count(u.Admitted),
		display.Count(u.Denied), display.Percent(u.Denied, u.Offered))
	if u.DeniedByOthers > 0 {
		text += fmt.Sprintf(", %s denied by other policies", display.Count(u.DeniedByOthers))
	}
	if u.Charged > 0 || u.Refunded > 0 {
		text += fmt.Sprintf("; after responses %s charged, %s refunded: %s used", display.Count(u.Charged), display.Count(u.Refunded), display.Count(u.used()))
	}
	p.line("%s", text)
}
