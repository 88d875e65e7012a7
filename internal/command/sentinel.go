package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// sentinelChannels announce a new master to the client.
var sentinelChannels = []string{"+switch-master", "+replica-reconf-done"}

// trySentinel sends the commands that the module sends a sentinel, and reports whether the sentinel watches
// the master and permits them.
func (p *preflight) trySentinel(ctx context.Context, client goredis.UniversalClient, address string) bool {
	master := p.options.Client.Master
	known, missing := true, []string(nil)
	for _, ask := range []struct {
		name    string
		command []any
	}{
		{"+sentinel|get-master-addr-by-name", []any{"sentinel", "get-master-addr-by-name", master}},
		{"+sentinel|sentinels", []any{"sentinel", "sentinels", master}},
		{"+ping", []any{"ping"}},
	} {
		answer, err := client.Do(ctx, ask.command...).Result()
		if words, ok := answer.([]any); ok && len(words) == 2 && ask.name == "+sentinel|get-master-addr-by-name" {
			p.announced = net.JoinHostPort(fmt.Sprint(words[0]), fmt.Sprint(words[1]))
		}
		switch {
		case isForbidden(err):
			missing = append(missing, ask.name)
		case errors.Is(err, goredis.Nil) || (err != nil && strings.Contains(err.Error(), "No such master")):
			known = false
		case err != nil:
			p.refusedBySentinel(fmt.Errorf("%s: %w", address, err))
			return false
		}
	}
	missing = append(missing, p.tryChannels(ctx, client)...)
	if len(missing) > 0 {
		commands := strings.Join(missing, " ")
		p.failed("permissions", "", "the sentinel "+address+", missing: "+commands, p.grantInSentinel(commands))
	}
	if !known {
		p.failed("master", "", fmt.Sprintf("the sentinel %s watches no master called %s", address, master),
			"set master to a name of its 'sentinel monitor' lines")
	}
	return known && len(missing) == 0
}

// tryChannels returns the permissions that subscribing lacks.
func (p *preflight) tryChannels(ctx context.Context, client goredis.UniversalClient) []string {
	var missing []string
	for _, channel := range sentinelChannels {
		subscription := client.Subscribe(ctx, channel)
		_, err := subscription.ReceiveTimeout(ctx, leastTimeout)
		_ = subscription.Close() // nothing else is read
		switch {
		case err == nil || !isForbidden(err):
		case refusedCommand.MatchString(err.Error()):
			return []string{"+subscribe"}
		default:
			missing = append(missing, "&"+channel)
		}
	}
	return missing
}

// isForbidden reports whether an error says that the user of Redis lacks a permission.
func isForbidden(err error) bool { return err != nil && goredis.HasErrorPrefix(err, "NOPERM") }
