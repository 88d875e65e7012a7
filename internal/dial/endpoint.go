package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// This file uses Clusters that do not say where their nodes are. By cluster-preferred-endpoint-type a node may announce
// no endpoint, because a balancer or a tunnel stands in front: the others are at the host that was asked then, by their
// own ports. In answers that is nil or an empty host; a node that has no name, where names are preferred, says "?".
// https://redis.io/docs/latest/commands/cluster-slots/

// endpointHook completes what a node of a Cluster says of the addresses of others.
type endpointHook struct {
	host string // of the node, as it was asked
}

// completeEndpoints has a client of a node complete what the node answers.
func completeEndpoints(node *goredis.Client) {
	host, _, err := net.SplitHostPort(node.Options().Addr)
	if err == nil {
		node.AddHook(endpointHook{host})
	}
}

// isUnknown reports whether a host stands for none.
func isUnknown(host string) bool { return host == "" || host == "?" }

// DialHook implements goredis.Hook. An address without a host would lead to this machine.
func (endpointHook) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err == nil && isUnknown(host) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errNoEndpoint}
		}
		return next(ctx, network, address)
	}
}

var errNoEndpoint = errors.New("the Cluster does not say at which host")

// ProcessHook implements goredis.Hook.
func (h endpointHook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, command goredis.Cmder) error {
		if asked, ok := command.(*goredis.ClusterSlotsCmd); ok {
			slots, err := h.slots(ctx, next)
			asked.SetVal(slots)
			return err
		}
		return h.completed(next(ctx, command))
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (h endpointHook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, commands []goredis.Cmder) error {
		err := next(ctx, commands)
		for _, command := range commands {
			if err := command.Err(); IsRedirection(err) {
				command.SetErr(h.completed(err))
			}
		}
		return h.completed(err)
	}
}

// completed returns an error, of a redirection with the host that it leads to.
func (h endpointHook) completed(err error) error {
	if !IsRedirection(err) {
		return err
	}
	words := strings.Fields(err.Error()) // MOVED 3999 :6381
	if len(words) != 3 {
		return err
	}
	host, port, failed := net.SplitHostPort(words[2])
	if failed != nil || !isUnknown(host) {
		return err
	}
	words[2] = net.JoinHostPort(h.host, port)
	return redirection(strings.Join(words, " "))
}

// redirection is a MOVED or an ASK.
type redirection string

// Error implements error.
func (r redirection) Error() string { return string(r) }

// RedisError implements [goredis.Error].
func (redirection) RedisError() {}

// slots asks a node for the slots of its Cluster. The client's own reader of the answer takes no nil for a host.
func (h endpointHook) slots(ctx context.Context, send goredis.ProcessHook) ([]goredis.ClusterSlot, error) {
	command := goredis.NewCmd(ctx, "cluster", "slots")
	if err := send(ctx, command); err != nil {
		return nil, err
	}
	ranges, err := command.Slice()
	if err != nil {
		return nil, err
	}
	slots := make([]goredis.ClusterSlot, len(ranges))
	for i := range ranges {
		if slots[i], err = h.slotRange(ranges[i]); err != nil {
			return nil, err
		}
	}
	return slots, nil
}

// slotRange reads the first and the last slot of a range, and behind them its nodes, the master first.
func (h endpointHook) slotRange(reply any) (slot goredis.ClusterSlot, err error) {
	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return slot, fmt.Errorf("%w: a range of slots is %T of %d", errSlots, reply, len(parts))
	}
	first, isFirst := parts[0].(int64)
	last, isLast := parts[1].(int64)
	if !isFirst || !isLast {
		return slot, fmt.Errorf("%w: a range goes from %T to %T", errSlots, parts[0], parts[1])
	}
	slot = goredis.ClusterSlot{Start: int(first), End: int(last), Nodes: make([]goredis.ClusterNode, len(parts)-2)}
	for i := range slot.Nodes {
		if slot.Nodes[i], err = h.node(parts[2+i]); err != nil {
			return slot, err
		}
	}
	return slot, nil
}

var errSlots = errors.New("the answer to CLUSTER SLOTS cannot be read")

// node reads the host of a node, its port, and from Redis 4.0 on its ID, from 7.0 on its other hosts.
func (h endpointHook) node(reply any) (goredis.ClusterNode, error) {
	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return goredis.ClusterNode{}, fmt.Errorf("%w: a node is %T of %d", errSlots, reply, len(parts))
	}
	host, isText := parts[0].(string)
	port, isPort := parts[1].(int64)
	if !isText && parts[0] != nil || !isPort {
		return goredis.ClusterNode{}, fmt.Errorf("%w: a node has %T for its host and %T for its port", errSlots, parts[0], parts[1])
	}
	var node goredis.ClusterNode
	if len(parts) > 2 {
		node.ID, _ = parts[2].(string)
	}
	if len(parts) > 3 {
		node.NetworkingMetadata = metadata(parts[3])
	}
	if host == "?" { // it has no name
		host = node.NetworkingMetadata["ip"]
	}
	if isUnknown(host) {
		host = h.host
	}
	node.Addr = net.JoinHostPort(host, strconv.FormatInt(port, 10))
	return node, nil
}

// metadata reads names and values in turn.
func metadata(reply any) map[string]string {
	parts, _ := reply.([]any)
	read := make(map[string]string, len(parts)/2)
	for i := 0; i+1 < len(parts); i += 2 {
		name, _ := parts[i].(string)
		value, _ := parts[i+1].(string)
		read[name] = value
	}
	return read
}

// Interface guards
var (
	_ goredis.Hook  = endpointHook{}
	_ goredis.Error = redirection("")
)
