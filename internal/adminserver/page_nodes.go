package adminserver

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// pageNode names the node that answers.
func (p *Process) pageNode() adminapi.PageNode {
	node := adminapi.PageNode{Name: p.nodeName()}
	node.Version, node.Caddy = adminapi.ModuleVersions()
	addresses, _ := net.InterfaceAddrs() // without any the page shows none
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			node.Address = prefix.Addr().String()
			break
		}
		if node.Address == "" {
			node.Address = prefix.Addr().String()
		}
	}
	return node
}

// pageNodes adds up what the policies of all nodes have met lately, as JSON. Other nodes are asked by Redis.
func (s *Server) pageNodes(stores *storepool.Stores) json.RawMessage {
	nodes := []map[string]storepool.Lately{stores.Memory.Names.Lately()}
	report := adminapi.PageNodes{Answered: 1, Known: 1}
	if stores.Redis == nil {
		report.Alone = "no redis is configured"
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), dial.ConnectBudget+storepool.SurveyPatience)
		defer cancel()
		others, err := s.latelyElsewhere(ctx, stores)
		if err != nil && len(others) == 0 {
			report.Alone = adminapi.UnavailableText(err)
		}
		nodes = append(nodes, others...)
		report.Answered = len(nodes)
		report.Known = max(1+stores.Redis.Survey.Others(), report.Answered)
	}
	report.Sums = map[string]adminapi.PageLately{}
	for name, sum := range storepool.SumLately(nodes) {
		if _, found := s.Policies[name]; found {
			report.Sums[name] = adminapi.PageLately(sum)
		}
	}
	text, _ := json.Marshal(report) // of numbers and texts there always is some
	return text
}

// latelyElsewhere asks the other nodes what their policies have met lately. An answer in another form is left out.
func (s *Server) latelyElsewhere(ctx context.Context, stores *storepool.Stores) (nodes []map[string]storepool.Lately, err error) {
	if err := s.Stores.Overrides.Decides(ctx); err != nil {
		return nil, err
	}
	answers, err := stores.Redis.Survey.Ask(ctx, storepool.LatelyOfAll)
	for _, answer := range answers {
		if lately, foreign := storepool.DecodeLately(answer); foreign == nil {
			nodes = append(nodes, lately)
		}
	}
	return nodes, err
}
