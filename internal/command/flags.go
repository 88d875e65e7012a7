package command

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// policyFlag adds --policy. Shells complete it from the policies of the running Caddy.
func policyFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringP("policy", "p", "", usage)
	must(cmd.RegisterFlagCompletionFunc("policy", completePolicy))
}

// completePolicy lists the names of the policies; none without an answer.
func completePolicy(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	report, err := ask(&invocation{cmd: cmd}, adminapi.Policies, adminapi.NoQuestion{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range report.Policies {
		if strings.HasPrefix(p.Name, begun) {
			names = append(names, p.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// require makes flags required.
func require(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		must(cmd.MarkFlagRequired(flag))
	}
}

// must panics for an error that only a mistake in a command's definition causes.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// loadConfig reads the configuration of the flags, or that of the current directory. Caddy's log of reading
// it stays in a buffer, apart from the command's output.
func (i *invocation) loadConfig() (config []byte, file, adapter string, err error) {
	caddy.BufferedLog()
	return caddycmd.LoadConfig(i.flag("config"), i.flag("adapter"))
}
