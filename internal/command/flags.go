package command

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
)

// policyFlag adds --policy, which a shell completes from the policies of the running Caddy.
func policyFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringP("policy", "p", "", usage)
	must(cmd.RegisterFlagCompletionFunc("policy", completePolicy))
}

// completePolicy lists the policies' names. Without an answer there is nothing to offer.
func completePolicy(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var report adminapi.PoliciesReport
	if err := (&invocation{cmd: cmd}).ask(http.MethodGet, "policies", nil, &report); err != nil {
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

// must stops the process for an error that only a mistake in a command's definition can make.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// loadConfig reads the configuration of the flags, or that of the current directory. What Caddy logs
// about it stays in a buffer, because it would stand among what the command prints.
func (i *invocation) loadConfig() (config []byte, file, adapter string, err error) {
	caddy.BufferedLog()
	return caddycmd.LoadConfig(i.flag("config"), i.flag("adapter"))
}
