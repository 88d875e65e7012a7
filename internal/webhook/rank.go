package webhook

// rank says which events go first, and keep room, when more come than the receiver takes. Clients can cause any number of
// events, so that theirs are the last.
type rank int

// The ranks, the first of which goes first.
const (
	// OfRedis are outages, their ends and lost data.
	OfRedis rank = iota

	// OfPolicies are policies that no request meets, which are as many as there are policies.
	OfPolicies

	// ofClients are thresholds and bans. [Dispatcher.TellOfClient] tells of them.
	ofClients
)

const (
	// mostDeliveries is how many events wait at once, in about 2 MB, of which ownOfRedis are kept for those of that rank.
	// Clients have at most half of the rest.
	mostDeliveries = 1024
	ownOfRedis     = 128
	mostOfClients  = (mostDeliveries - ownOfRedis) / 2

	// deliveriesAtOnce is how many events are sent at once. A receiver that hangs holds those of clients for long, which is
	// why each rank before has one more.
	deliveriesAtOnce = 6
)

// deliveryLanes returns the lanes of all ranks.
func deliveryLanes() []lane[*delivery] {
	return []lane[*delivery]{
		OfRedis:    {most: mostDeliveries, atOnce: deliveriesAtOnce},
		OfPolicies: {most: mostDeliveries - ownOfRedis, atOnce: deliveriesAtOnce - 1},
		ofClients:  {most: mostOfClients, atOnce: deliveriesAtOnce - 2},
	}
}
