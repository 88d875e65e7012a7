package limiter

// LeaseFate is what became of units of a lease.
type LeaseFate string

// The fates of leased units.
const (
	LeaseSpent    LeaseFate = "spent"    // by requests
	LeaseReturned LeaseFate = "returned" // given back
	LeaseLapsed   LeaseFate = "lapsed"   // neither; they count as used until they decay
)
