package command

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// exampleIP is an address that no client has, RFC 5737.
const exampleIP = "192.0.2.1"

func explainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain --url <url>",
		Short: "Shows the policies that a request would meet, and their decisions",
		Long: `
Traces a request through the routes of the running configuration, and shows the
policies that it meets, its key in each, and their decisions. No quota is
charged. Handlers that need a real request, such as a proxy, are skipped and
listed.

--data is the body, as it is, also of a file. As with curl, the method is then
POST, and the type that of a form unless --header says another; 'Content-Type:'
is a body without a type.

The exit code is 0 if the request would pass, and 4 if it would be refused:
denied, rejected or failed closed.`,
		Example: `  caddy redis-ratelimit explain --url https://example.com/api/search
  caddy redis-ratelimit explain --url http://localhost/login --method POST \
      --header 'X-Api-Key: 12' --client-ip 203.0.113.7
  caddy redis-ratelimit explain --url http://localhost/login \
      --data email=bob@example.com`,
		RunE: runs(runExplain),
	}
	flags := cmd.Flags()
	flags.StringP("method", "X", "", "The `method`: GET by default, with --data POST")
	flags.String("url", "", "The whole `url` of the request (required)")
	flags.StringArrayP("header", "H", nil, "A `header`, 'Name: value'; may be given several times")
	flags.StringArrayP("data", "d", nil, "The body: a `text`, @file, or @- for the standard input")
	flags.String("client-ip", exampleIP, "The `ip` of the client")
	require(cmd, "url")
	return cmd
}

func runExplain(i *invocation) error {
	lines, err := i.cmd.Flags().GetStringArray("header")
	if err != nil {
		return err
	}
	question := adminapi.ExplainRequest{Method: i.flag("method"), URL: i.flag("url"), ClientIP: i.flag("client-ip"),
		Headers: map[string]adminapi.HeaderValues{}}
	for _, line := range lines {
		name, value, err := cutHeader(line)
		if err != nil {
			return exitf(exitNotAsked, "%s", err)
		}
		if value == "" && http.CanonicalHeaderKey(name) == "Content-Type" {
			question.Headers[name] = adminapi.HeaderValues{} // no default, as with curl
			continue
		}
		question.Headers[name] = append(question.Headers[name], value)
	}
	if err := i.addData(&question); err != nil {
		return err
	}
	report, err := ask(i, adminapi.Explain, question)
	if i.hasReport(err) && report.Decision != "" {
		i.showExplained(report)
	}
	if err == nil && refused(report.Decision) {
		return &exit{code: exitDenied}
	}
	return err
}

// cutHeader cuts a line of --header into its name and value.
func cutHeader(line string) (name, value string, err error) {
	name, value, found := strings.Cut(line, ":")
	if name = strings.TrimSpace(name); !found || name == "" {
		return "", "", fmt.Errorf("--header %q: write it as 'Name: value'", line)
	}
	return name, strings.TrimSpace(value), nil
}

// addData adds the body of --data to a question. Of a long one the begin is sent, with the length of all: limiters that
// read no further can be explained.
func (i *invocation) addData(question *adminapi.ExplainRequest) error {
	texts, err := i.cmd.Flags().GetStringArray("data")
	switch {
	case err != nil || len(texts) == 0:
		return err
	case len(texts) > 1: // which curl joins
		return exitf(exitNotAsked, "--data stands %d times; write it once, the fields of a form with & between", len(texts))
	}
	data, length, err := i.readData(texts[0])
	if err != nil {
		return exitf(exitNotAsked, "--data: %v", err)
	}
	question.Data = &data
	if length > int64(len(data)) && !question.HasHeader("Content-Length") {
		question.Headers["Content-Length"] = adminapi.HeaderValues{strconv.FormatInt(length, 10)}
	}
	return nil
}

// readData returns the begin of what --data names, and the length of all in bytes.
func (i *invocation) readData(text string) (begin adminapi.Data, length int64, err error) {
	name, isFile := strings.CutPrefix(text, "@")
	source := i.cmd.InOrStdin()
	switch {
	case !isFile:
		source = strings.NewReader(text)
	case name != "-":
		file, err := os.Open(name)
		if err != nil {
			return nil, 0, err
		}
		defer func() { _ = file.Close() }() // it was only read
		source = file
	}
	if begin, err = io.ReadAll(io.LimitReader(source, adminapi.MaxData)); err != nil {
		return nil, 0, err
	}
	rest, err := io.Copy(io.Discard, source)
	return begin, int64(len(begin)) + rest, err
}

// refused reports whether a decision refuses the request.
func refused(decision string) bool {
	return slices.Contains([]string{"denied", "rejected", "failed_closed"}, decision)
}

func (i *invocation) showExplained(report adminapi.ExplainReport) {
	if !i.cmd.Flags().Changed("client-ip") {
		i.terminal.Print("for a client at " + display.Escape(report.ClientIP) + ", an example; name another with --client-ip\n")
	}
	decision := display.Escape(decisionText(report.Decision))
	switch report.Decision {
	case "none":
		decision = "no policy is met"
	case "waits":
		decision = "would wait for its turn"
	case "usage":
		decision = "answered with the client's quotas"
	case "challenge":
		decision = "sent on, with a pass if its ticket is valid"
	}
	if report.Status > 0 {
		decision += " with the status " + strconv.Itoa(report.Status)
	}
	if report.Page {
		decision += "; a browser that navigates there gets a page that waits"
	}
	i.terminal.Print("server " + display.Escape(report.Server) + ": " + decision + "\n")
	if c := report.Crawler; c != nil {
		i.terminal.Print("crawler " + display.Escape(c.Name+": "+c.Status+byWhat(c.By)) + "\n")
	}
	if len(report.Policies) > 0 {
		i.terminal.Print("\n")
		explainedTable(report.Policies).Write(i.terminal)
		i.printSettings(report.Policies)
		i.printNotes(report.Policies)
	}
	if len(report.Skipped) > 0 {
		i.terminal.Print("\n")
		i.terminal.Print("skipped: " + display.Escape(strings.Join(report.Skipped, ", ")) + "\n")
	}
}

// byWhat says by what a crawler is verified; empty: nothing verifies it.
func byWhat(by string) string {
	if by == "" {
		return ""
	}
	return " by " + by
}

// decisionText returns a decision in words.
func decisionText(decision string) string { return strings.ReplaceAll(decision, "_", " ") }

// denials are the decisions of denials by their reason, where that is not the limit.
var denials = map[string]string{"ban": "banned", "block": "blocked", "reserve": "denied by reserve", "max_concurrent": "too many running"}

func explainedTable(policies []adminapi.ExplainedPolicy) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Title: "POLICY"}, {Title: "KEY"}, {Title: "DECISION"}, {Title: "WEIGHT", Right: true},
		{Title: "RESERVE", Right: true}, {Title: "LEFT", Right: true}, {Title: "RETRY", Right: true}, {Title: "RESET", Right: true},
		{Title: "SOURCE"}, {Title: "OVERRIDE"},
	}}
	for _, p := range policies {
		decision := cmp.Or(denials[p.Reason], decisionText(p.Decision))
		if p.Decision == "rejected" && p.Reason != "" {
			decision += ": " + decisionText(p.Reason)
		}
		if p.Decision == "waits" {
			decision = "would wait"
		}
		if p.DryRun {
			decision += " (dry run)"
		}
		if p.Source == "" { // the policy has decided nothing
			t.Add(p.Policy, p.Key, decision, "", "", "", "", "", "", overrideAndRange(p.Override))
			continue
		}
		reserve := ""
		if p.Reserve > 0 {
			reserve = strconv.FormatInt(p.Reserve, 10)
		}
		t.Add(p.Policy, p.Key, decision, strconv.FormatInt(p.Weight, 10), reserve,
			strconv.FormatInt(p.Remaining, 10)+"/"+strconv.FormatInt(p.Limit, 10),
			waitTime(p.RetryAfter), waitTime(p.ResetAfter), p.Source, overrideAndRange(p.Override))
	}
	return t
}

// printSettings prints what each policy allows, once.
func (i *invocation) printSettings(policies []adminapi.ExplainedPolicy) {
	i.terminal.Print("\n")
	var printed []string
	for n := range policies {
		settings := &policies[n].Settings
		if slices.Contains(printed, settings.Name) {
			continue
		}
		printed = append(printed, settings.Name)
		text := settings.Name + ": " + settings.Sentence()
		if options := settings.All(); len(options) > 0 {
			text += "; " + display.JoinOptions(options)
		}
		i.terminal.Print(display.Wrap(text, "  "))
	}
}

// unusableText says which option of a policy has no usable value, and what follows from that.
func unusableText(decision string, value adminapi.UnusableValue) string {
	effect := display.UnusableOption(value.Option)
	if decision == "rejected" {
		effect = "the request is refused"
	}
	text := "a value of " + value.Option + " cannot be used (" + decisionText(value.Reason) + "); " + effect
	if value.Text != "" {
		text += ". The body: " + value.Text
	}
	return text
}

// turnText says what a request waits for, how long at most, how many wait before it, and by which value its turn goes.
func turnText(p *adminapi.ExplainedPolicy) string {
	turn, text := p.Turn, ""
	longest := ", for up to " + display.Seconds(turn.Longest)
	switch {
	case turn.Full:
		text = "is refused, as no more may wait"
	case p.Decision == "waits":
		text = "waits for " + display.Counted(p.Weight, "unit") + " of the " + display.Count(p.Limit) + " that may run" + longest
	default:
		text = "would wait if " + display.Count(p.Limit) + " units ran" + longest
	}
	text += "; waiting here: " + waitingText(&turn.WaitingReport) + ", of at most " + display.Count(turn.Most)
	if turn.Value != nil {
		text += "; its turn goes by the value '" + *turn.Value + "'"
	}
	return text
}

// lookText says what a request that looks takes, and when.
func lookText(p *adminapi.ExplainedPolicy) string {
	if !p.Look.Charged {
		return "looks: count does not match, so that it takes nothing"
	}
	countIf := ""
	if len(p.Settings.Handlers) > 0 {
		countIf = p.Settings.Handlers[0].CountIf
	}
	return "looks first: takes nothing, and counts if its response has " + countIf + "; " + display.Counted(p.Look.InFlight, "unit") +
		" of the key on their way on this node, of at most " + display.Count(p.Look.Most)
}

// printNotes prints what the policies lack of the request, what the response will make of weights, and who may decide
// instead.
func (i *invocation) printNotes(policies []adminapi.ExplainedPolicy) {
	for _, p := range policies {
		if p.NoBody {
			i.terminal.Print(display.Escape(p.Policy+": goes by the request's body, and this request has none; --data gives one") + "\n")
		}
		if p.Turn != nil {
			i.terminal.Print(display.Escape(p.Policy+": "+turnText(&p)) + "\n")
		}
		if p.Look != nil {
			i.terminal.Print(display.Escape(p.Policy+": "+lookText(&p)) + "\n")
		}
		for _, value := range p.Unusable {
			i.terminal.Print(display.Escape(p.Policy+": "+unusableText(p.Decision, value)) + "\n")
		}
		if p.Cost != "" {
			i.terminal.Print(display.Escape(p.Policy+": after the response it costs "+p.Cost+" in all, instead of the weight") + "\n")
		}
		if p.Lease > 0 {
			i.terminal.Print(display.Escape(p.Policy+": while the key is busy a node decides by units that it has leased, for up to "+
				display.Seconds(p.Lease)+"; what is left does not count them") + "\n")
		}
	}
}
