package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/livepage"
)

func pageCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "page [--listen <address>]",
		Short: "Shows the limits on a page that a browser refreshes each second",
		Long: `
Serves a page on this machine until Ctrl-C: whether the store decides, what each
policy has met in the last ten minutes, the keys that are denied most and why,
bans, overrides and the last warnings. It changes nothing, and shows the
commands that do.

The address that it prints works once, for one browser. No other page, and no
other user of the machine, can read what it shows. --listen takes another port
of this machine: to look from elsewhere, forward the port with ssh -L.

A remote admin endpoint is asked with a certificate that it allows:
--client-cert and --client-key, and --ca if no public authority has signed that
of the endpoint.`,
		Example: `  caddy redis-ratelimit page
  caddy redis-ratelimit page --listen 127.0.0.1:9000
  caddy redis-ratelimit page --address caddy.example.com:2021 --client-cert me.crt --client-key me.key`,
		RunE: runs(runPage),
	}
	cmd.Flags().String("listen", "127.0.0.1:0", "Address of this machine that the `page` has; port 0: a free one")
	cmd.Flags().String("client-cert", "", "Certificate for a remote admin endpoint, a `file` in PEM")
	cmd.Flags().String("client-key", "", "Its key, a `file` in PEM")
	cmd.Flags().String("ca", "", "Authorities that sign a remote admin endpoint, a `file` in PEM")
	return cmd
}

func runPage(i *invocation) error {
	address, err := i.adminAddress()
	if err != nil {
		return err
	}
	secure, err := clientTLS(i.flag("client-cert"), i.flag("client-key"), i.flag("ca"))
	if err != nil {
		return err
	}
	admin, err := newEndpoint(address, secure)
	if err != nil {
		return err
	}
	listener, err := listenHere(i.flag("listen"))
	if err != nil {
		return err
	}
	flags := i.shellFlags()
	if secure != nil {
		flags = "" // the commands work on the machine itself alone
	}
	page := livepage.New(listener.Addr().String(), "caddy redis-ratelimit", flags, admin.askPage)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := i.announce(page.Address(), address); err != nil {
		return err
	}
	return servePage(ctx, listener, page)
}

// announce prints the address of the page.
func (i *invocation) announce(page, admin string) error {
	if !i.json {
		i.terminal.Print("the limits of the Caddy at " + admin + ", until Ctrl-C; the address works once:\n" + page + "\n")
		return i.terminal.Err()
	}
	text, err := json.Marshal(map[string]string{"page": page})
	if err == nil {
		i.printJSON(text)
	}
	return err
}

// listenHere listens at an address of this machine alone: what the page shows goes over the network in the clear.
func listenHere(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, parseErr := netip.ParseAddr(host); err != nil || parseErr != nil || !ip.IsLoopback() || ip.Zone() != "" {
		return nil, exitf(exitNotAsked, "--listen %s: use an address of this machine alone, such as 127.0.0.1:9000; "+
			"to look from elsewhere, forward the port with ssh -L", address)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, exitf(exitNotAsked, "--listen %s: %v", address, err)
	}
	return listener, nil
}

// shellFlags are the flags that name the admin endpoint, as another command takes them from a shell.
func (i *invocation) shellFlags() string {
	var flags strings.Builder
	for _, name := range []string{"address", "config", "adapter"} {
		if value := i.flag(name); value != "" {
			flags.WriteString(" --" + name + " '" + strings.ReplaceAll(value, "'", `'\''`) + "'")
		}
	}
	return flags.String()
}

// askPage asks the admin endpoint for what is new to a viewer.
func (e *endpoint) askPage(ctx context.Context, since string) (status int, answer []byte, err error) {
	target, _, err := adminapi.Page.Write(adminapi.PageQuestion{Since: since})
	if err != nil {
		return 0, nil, err
	}
	status, answer, err = e.get(ctx, target)
	switch {
	case err != nil:
		return 0, nil, err
	case !json.Valid(answer):
		return 0, nil, fmt.Errorf("the Caddy at %s has no live page: it was built without this module, or with an older version", e.address)
	case status != http.StatusOK:
		return 0, nil, refusal(status, answer)
	}
	return status, answer, nil
}

// servePage serves the page until the context ends.
func servePage(ctx context.Context, listener net.Listener, page http.Handler) error {
	server := &http.Server{Handler: page, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // what a browser waits for ends with the command
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
