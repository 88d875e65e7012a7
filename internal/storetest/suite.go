package storetest

import "testing"

// Run holds stores to vectors and edges. A new store is right when it passes, agrees with another one in [Agree] and
// [AgreeOnLeases], and passes [LeasesNeverAdmitMore].
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open Open)
	}{
		{"published_vectors", publishedVectorsHold}, {"queue", queuesHold}, {"reserve", reservesHold},
		{"reserve_ban", reservesBeginNoBan}, {"reserve_enormous", enormousReservesNeverPass},
		{"changed_settings", settingsChange}, {"states_apart", statesStayApart}, {"denied_charges_nothing", denialsChargeNothing},
		{"ban_vectors", banVectorsHold}, {"ban_began", bansBegin}, {"ban_denied_with_others", bansDenyWithOthers},
		{"ban_counted", bansCount},
		{"log_oracle", logFollowsTextbook}, {"log_expiry", logExpires}, {"log_modulus", logWraps},
		{"log_refund_tail", logRefundsTail}, {"log_charge_without_room", logChargesWithoutRoom},
		{"refund_vectors", refundVectorsHold}, {"refund_flood", refundsOfFlood}, {"refund_any_order", refundsInAnyOrder},
		{"calendar_periods", periodsHold}, {"calendar_zone_changes", zonesChange},
		{"calendar_start_changes", startsChange},
		{"lease_vectors", leaseVectorsHold}, {"lease_reserve", leasesLeaveReserve},
		{"look_vectors", looksTakeNothing}, {"look_beside_take", looksBesideTakes}, {"look_ban", looksAreBanned},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}
