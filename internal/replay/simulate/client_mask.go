package simulate

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
)

// clientMask is a filter ip_mask of a log, for the address of clients. A configuration does not say which of its logs a file
// is: the filter counts only if all clients in it are networks.
type clientMask struct {
	bits4, bits6 int // kept of addresses

	masked  int64 // requests of networks
	refuted bool  // there was an address that the filter would have changed
}

// masks returns the different filters of the clients in a configuration's logs.
func (c *loggingConfig) masks() (all []clientMask) {
	c.all(func(e *logEncoder) {
		var fields map[string]json.RawMessage
		var filter struct {
			Name  string `json:"filter"`
			Bits4 int    `json:"ipv4_cidr"`
			Bits6 int    `json:"ipv6_cidr"`
		}
		if json.Unmarshal(e.Fields, &fields) != nil || json.Unmarshal(fields["request>client_ip"], &filter) != nil || filter.Name != "ip_mask" {
			return
		}
		if mask := (clientMask{bits4: filter.Bits4, bits6: filter.Bits6}); !slices.Contains(all, mask) {
			all = append(all, mask)
		}
	})
	return all
}

// look looks at the client of a request in the log.
func (m *clientMask) look(client string) {
	if m.refuted {
		return
	}
	address, err := netip.ParseAddr(client)
	if err != nil {
		return
	}
	bits := m.bits6
	if address.Is4() {
		bits = m.bits4
	}
	network, err := address.Prefix(bits)
	switch {
	case err != nil || bits == address.BitLen(): // the filter keeps the whole address
	case network.Addr() == address:
		m.masked++
	default:
		m.masked, m.refuted = 0, true
	}
}

// text is the filter in the words of a Caddyfile.
func (m *clientMask) text() string { return fmt.Sprintf("ip_mask %d %d", m.bits4, m.bits6) }
