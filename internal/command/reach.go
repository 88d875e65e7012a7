package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/dial"
)

// reach connects and finds the servers that decide. Without one it returns no client and adds findings.
func (p *preflight) reach(ctx context.Context) goredis.UniversalClient {
	o := p.clientOptions()
	mode := cmp.Or(o.Mode, dial.Standalone)
	if !p.tryAddresses(ctx, mode) {
		return nil
	}
	client, err := dial.New(o)
	if err != nil { // impossible after Validate
		p.failed(Configuration, "", err.Error(), "")
		return nil
	}
	if cluster, ok := client.(*goredis.ClusterClient); ok {
		err = p.reachMasters(ctx, cluster)
	} else {
		err = p.reachServer(ctx, client)
	}
	if err != nil {
		_ = client.Close() // it has not connected
		return nil
	}
	p.ok("mode", "", p.modeDetail(mode))
	return client
}

func (p *preflight) modeDetail(mode dial.Mode) string {
	switch answer := len(p.servers); {
	case mode == dial.Sentinel:
		return "sentinel, master " + p.options.Client.Master
	case mode == dial.Cluster && answer < p.masters:
		return fmt.Sprintf("cluster of %d masters, of which %d answer", p.masters, answer)
	case mode == dial.Cluster:
		return fmt.Sprintf("cluster of %d masters", p.masters)
	}
	return string(mode)
}

// tryAddresses sends HELLO to each configured address, and reports whether to continue: one of them is of
// the configured mode, and none of another.
func (p *preflight) tryAddresses(ctx context.Context, mode dial.Mode) bool {
	var errs []error
	good, wrong := 0, 0
	for _, address := range p.options.Client.Addresses {
		o := p.seedOptions(mode, address)
		client, err := dial.New(o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		hello, err := askHello(ctx, client)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", address, p.named(ctx, address, err)))
		case hello["mode"] != "" && hello["mode"] != string(mode):
			wrong++
			p.failed("mode", "", fmt.Sprintf("mode %s is configured, but %s is %s", mode, address, modeNames[hello["mode"]]),
				modeAdvice[hello["mode"]])
		case mode != dial.Sentinel || p.trySentinel(ctx, client, address):
			good++
			p.ok("reachable", "", address)
		default:
			wrong++
		}
		_ = client.Close() // nothing else is asked
	}
	for _, err := range errs {
		switch {
		case good > 0:
			p.warn("reachable", "", err.Error(), "the other addresses suffice; remove this one, or find out why it does not answer")
		case mode == dial.Sentinel:
			p.refusedBySentinel(err)
		default:
			p.refused(err)
		}
	}
	p.unasked = p.unasked && wrong == 0 // a server of another mode has answered
	return good > 0 && wrong == 0
}

// The modes in replies to HELLO, and what to configure for each.
var (
	modeNames = map[string]string{
		"standalone": "a server of its own", "sentinel": "a sentinel", "cluster": "a node of a cluster",
	}
	modeAdvice = map[string]string{
		"standalone": "leave mode out, or set the addresses of another Redis",
		"sentinel":   "set mode sentinel, and master to the name that the sentinels watch",
		"cluster":    "set mode cluster; one node's address is enough",
	}
)

// seedOptions returns the options for one of the addresses alone.
func (p *preflight) seedOptions(mode dial.Mode, address string) dial.Connection {
	o := p.clientOptions()
	o.Addresses, o.Mode, o.Master = []string{address}, dial.Standalone, ""
	if mode == dial.Sentinel {
		o.Username, o.Password, o.Credentials, o.DB = o.SentinelUsername, o.SentinelPassword, o.SentinelCredentials, 0
	}
	o.SentinelUsername, o.SentinelPassword, o.SentinelCredentials = "", "", nil
	return o
}

// reachServer connects to the only server that decides.
func (p *preflight) reachServer(ctx context.Context, client goredis.UniversalClient) error {
	address := p.options.Client.Addresses[0]
	if p.options.Client.Mode == dial.Sentinel {
		address = "the master " + p.options.Client.Master
	}
	hello, err := askHello(ctx, client)
	if err != nil {
		if p.options.Client.Mode == dial.Sentinel && p.announced != "" {
			err = p.named(ctx, p.announced, err)
		}
		err = fmt.Errorf("%s: %w", address, err)
		if p.options.Client.Mode == dial.Sentinel {
			p.refusedByAnnounced(err, p.announced, "the sentinel", "replica-announce-ip of Redis or resolve-hostnames of the sentinels")
		} else {
			p.refused(err)
		}
		return err
	}
	if p.options.Client.Mode == dial.Sentinel {
		p.ok("reachable", "", address)
	}
	p.servers = []checkedServer{{address: address, client: client, hello: hello}}
	return nil
}

var errNoMaster = errors.New("no master of the cluster answers")

// reachMasters connects to every master of a cluster.
func (p *preflight) reachMasters(ctx context.Context, cluster *goredis.ClusterClient) error {
	var mu sync.Mutex
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *goredis.Client) error {
		address := master.Options().Addr
		hello, err := askHello(ctx, master)
		err = p.named(ctx, address, err)
		mu.Lock()
		defer mu.Unlock()
		p.masters++
		if err != nil {
			p.refusedByAnnounced(fmt.Errorf("the master %s: %w", address, err), address,
				"the Cluster", "cluster-announce-ip or cluster-announce-hostname")
			return nil // continue with the others
		}
		p.servers = append(p.servers, checkedServer{address: address, client: master, hello: hello})
		return nil
	})
	switch {
	case err != nil:
		p.refused(err)
		return err
	case p.masters == 0:
		p.failed("mode", "", "a cluster whose nodes have no slots",
			"create the cluster: redis-cli --cluster create, with the addresses of all nodes")
		return errNoMaster
	case len(p.servers) == 0: // each has its finding
		return errNoMaster
	}
	slices.SortFunc(p.servers, func(a, b checkedServer) int { return strings.Compare(a.address, b.address) })
	return nil
}
