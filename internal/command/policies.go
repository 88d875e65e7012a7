package command

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

func policiesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policies",
		Short: "Shows every policy, what it met, and whether the store works",
		Long: `
Shows the versions of the running Caddy, where it counts and whether that store
decides, then every policy: limit, window and whose quota each is, the options
that are set, the handlers that use it, and what this node has counted since it
started. Handlers have their server, addresses, and what requests must be to
come there. A line that begins with ! deserves a look: a policy that no request
has met, and a count_if that matched no response.

With --fail the exit code is 1 if the store does not decide.`,
		Example: `  caddy redis-ratelimit policies
  caddy redis-ratelimit policies --fail`,
		RunE: runs(runPolicies),
	}
	cmd.Flags().Bool("fail", false, "End with code 1 if the store does not decide")
	return cmd
}

func runPolicies(i *invocation) error {
	fail, err := i.cmd.Flags().GetBool("fail")
	if err != nil {
		return err
	}
	report, err := ask(i, adminapi.Policies, adminapi.NoQuestion{})
	if err != nil {
		return err
	}
	if !i.json {
		i.showPolicies(&report)
	}
	if fail && !report.Store.Healthy {
		return exitf(exitNotAsked, "%s does not decide%s: %s", report.Store.Kind, sinceText(&report.Store), report.Store.Error)
	}
	return nil
}

func (i *invocation) showPolicies(report *adminapi.PoliciesReport) {
	i.terminal.Print(display.Wrap("caddy-redis-ratelimit "+report.Version+", Caddy "+report.Caddy, "  "))
	i.terminal.Print(display.Wrap(storeLine(&report.Store), "  "))
	if report.Store.Advice != "" {
		i.terminal.Print(display.Wrap("key_prefix "+report.Store.KeyPrefix+", the default: "+report.Store.Advice, "  "))
	}
	if len(report.Policies) == 0 {
		i.terminal.Print("no policies\n")
	}
	for n := range report.Policies {
		i.terminal.Print("\n")
		block := policyBlock(&report.Policies[n])
		block.Write(i.terminal)
	}
}

// storeLine describes in one line where the counts live and whether that store works.
func storeLine(s *adminapi.StoreReport) string {
	if s.Kind == "memory" {
		return "memory of this process: " + display.Count(s.MemoryKeys) + " of at most " + display.Counted(s.MaxKeys, "key")
	}
	where := s.Kind + " " + s.Mode + " " + strings.Join(s.Addresses, ", ")
	if s.Database != 0 {
		where += " database " + strconv.Itoa(s.Database)
	}
	state := "decides in " + display.Seconds(s.RoundTrip)
	if !s.Healthy {
		state = "does not decide" + sinceText(s) + " (" + s.Error + "); handlers do " + s.FailMode
	}
	if s.Breaker != "" {
		state += "; breaker " + s.Breaker
	}
	if s.NextProbe > 0 {
		state += ", next probe " + inTime(s.NextProbe)
	}
	return where + ": " + state
}

// sinceText says since when a store does not decide; empty: this question has found out.
func sinceText(s *adminapi.StoreReport) string {
	if s.FailingSince == nil {
		return ""
	}
	return " since " + s.FailingSince.UTC().Format("2006-01-02 15:04:05 UTC") + ", for " +
		display.Duration(max(0, time.Since(*s.FailingSince)))
}

// maxHandlers is how many handlers of a policy are listed.
const maxHandlers = 10

// policyBlock describes a policy. Options that all its handlers have alike stand there once.
func policyBlock(p *adminapi.PolicyReport) *display.Block {
	block := &display.Block{Title: p.Name + ": " + p.Sentence()}
	common := p.Common()
	for _, o := range append(p.Options(), common...) {
		if o.Name != "match" {
			block.Add(o.Name, o.Value)
		}
	}
	if p.Running != nil {
		block.Add("running here", display.Count(*p.Running))
	}
	if p.Looking != nil {
		block.Add("looking here", display.Count(*p.Looking))
	}
	if p.Waiting != nil {
		block.Add("waiting here", waitingText(p.Waiting))
	}
	if text := overridesText(p); text != "" {
		block.Add("overrides", text)
	}
	name := "handlers"
	for n := range p.Handlers {
		if n == maxHandlers {
			block.Add("", "and "+strconv.Itoa(len(p.Handlers)-n)+" more; --json lists all")
			break
		}
		block.Add(name, p.Handlers[n].Text(common))
		name = "" // once
	}
	addCounts(block, &p.SinceStart)
	return block
}

// waitingText says how many requests wait on a node, and for how long.
func waitingText(w *adminapi.WaitingReport) string {
	text := display.Count(w.Requests)
	if w.Requests > 0 {
		text += ", the oldest for " + display.Seconds(w.Oldest)
	}
	return text
}

// leastResponses is how many responses a count_if must have judged for it to be odd that it matched none.
const leastResponses = 100

// addCounts adds what a policy has met.
func addCounts(block *display.Block, c *adminapi.CountsReport) {
	if c.Met == 0 {
		block.AddMarked("since start", "never met")
		return
	}
	parts := []string{
		display.Counted(c.Met, "request") + " met", display.Count(c.Denied) + " denied",
		display.Count(c.WouldBeDenied) + " would be denied", display.Count(c.Counted) + " counted",
	}
	if c.Looked != nil {
		parts = append(parts, display.Count(*c.Looked)+" looked")
	}
	if c.ReserveDenied != nil {
		parts = append(parts, display.Count(*c.ReserveDenied)+" denied by the reserve")
	}
	for _, other := range []struct {
		requests int64
		became   string
	}{{c.DeniedByOther, "denied by other policies"}, {c.FailedOpen, "let through without a decision"},
		{c.FailedClosed, "refused without a decision"}} {
		if other.requests > 0 {
			parts = append(parts, display.Count(other.requests)+" "+other.became)
		}
	}
	block.Add("since start", strings.Join(parts, ", "))
	if c.CountIf == nil || c.CountIf.Responses == 0 {
		return
	}
	add := block.Add
	if c.CountIf.Matched == 0 && c.CountIf.Responses >= leastResponses {
		add = block.AddMarked
	}
	add("", "count_if matched "+display.Count(c.CountIf.Matched)+" of "+display.Counted(c.CountIf.Responses, "response"))
}

// overridesText says what overrides change of a policy.
func overridesText(p *adminapi.PolicyReport) string {
	var parts []string
	if p.Override != nil {
		parts = append(parts, overrideText(p.Override)+" for all")
	}
	if p.ClientOverrides > 0 {
		parts = append(parts, display.Counted(p.ClientOverrides, "client"))
	}
	return strings.Join(parts, ", ")
}
