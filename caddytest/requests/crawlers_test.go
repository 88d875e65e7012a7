package requests

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/crawlers"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// crawlerNames are the names that the nameservers of these tests have for addresses, and these for the names.
var crawlerNames = map[string]string{
	"66.249.66.1": "crawl-66-249-66-1.googlebot.com", "66.249.66.2": "crawl-66-249-66-2.googlebot.com",
	"2001:4860:4801:10::1": "crawl6.googlebot.com", "40.77.167.1": "msnbot-40-77-167-1.search.msn.com",
	"203.0.113.6": "dsl-6.isp.example", "203.0.113.8": "crawl.googlebot.com.evil.example", "203.0.113.7": "fakegooglebot.com",
}

// forgedNames have no address of the names that their operators gave these addresses.
var forgedNames = map[string]string{"203.0.113.9": "crawl-203-0-113-9.googlebot.com"}

// nameservers are the DNS servers of the tests, by their name: that of the tests, and dnsmasq where it is installed.
func nameservers(t *testing.T) map[string]string {
	t.Helper()
	names := caddytest.DNSNames(crawlerNames)
	own := caddytest.StartDNS(t, func(q caddytest.DNSQuestion) caddytest.DNSReply {
		for address, name := range forgedNames {
			if q.Name == caddytest.ReverseName(address) {
				return caddytest.DNSReply{PTR: []string{name + "."}}
			}
		}
		return names(q)
	})
	servers := map[string]string{"own": own.Addr}
	if path, err := exec.LookPath("dnsmasq"); err == nil {
		servers["dnsmasq"] = startDnsmasq(t, path)
	} else if path = "/usr/sbin/dnsmasq"; isFile(path) {
		servers["dnsmasq"] = startDnsmasq(t, path)
	}
	return servers
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// startDnsmasq starts dnsmasq with the names, until the test's end.
func startDnsmasq(t *testing.T, path string) string {
	t.Helper()
	at := redistest.FreeAddr(t)
	host, port, _ := strings.Cut(at, ":")
	lines := []string{"port=" + port, "listen-address=" + host, "bind-interfaces", "no-resolv", "no-hosts", "local=/#/", "keep-in-foreground", "pid-file="}
	for address, name := range crawlerNames {
		lines = append(lines, "host-record="+name+","+address)
	}
	for address, name := range forgedNames {
		lines = append(lines, "ptr-record="+strings.TrimSuffix(caddytest.ReverseName(address), ".")+","+name)
	}
	file := filepath.Join(t.TempDir(), "dnsmasq.conf")
	assert.Must(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	command := exec.Command(path, "--conf-file="+file, "--user=", "--group=")
	assert.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()
	})
	assert.WaitFor(t, "dnsmasq answers", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := crawlers.NewResolver(at).LookupAddr(ctx, "203.0.113.6")
		return err
	})
	return at
}

// crawlersConfig is a Caddyfile with crawlers that a nameserver knows, behind a proxy that names clients.
func crawlersConfig(nameserver, more, site string) string {
	return crawlersConfigTrusting("servers {\ntrusted_proxies static 127.0.0.1/32\n}\n", nameserver, more, site)
}

func crawlersConfigTrusting(trusted, nameserver, more, site string) string {
	return caddytest.Config(trusted+"redis_ratelimit {\ncrawlers {\ngoogle\nbing\nresolver "+nameserver+"\nwait 2s\n"+more+"\n}\n}", site)
}

// from returns the headers of a request of a client.
func from(address, agent string) []string {
	return []string{"X-Forwarded-For: " + address, "User-Agent: " + agent}
}

const showCrawler = `
	respond "[{http.redis_ratelimit.crawler}|{http.redis_ratelimit.crawler_claim}|{http.redis_ratelimit.crawler_status}]"`

const googleAgent = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"

// wantCrawler sends a request until it no longer goes on before the DNS has answered, which takes more than two seconds on a busy
// machine, and checks its answer.
func wantCrawler(t *testing.T, n *caddytest.Node, headers []string, want string) {
	t.Helper()
	assert.Retry(t, want+" is known", func() (again bool, seen any) {
		a := n.Get(t, "/", headers...)
		if a.Body != want && strings.HasSuffix(a.Body, "|unknown]") {
			return true, a
		}
		a.Want(t, http.StatusOK, want)
		return false, nil
	})
}

// TestCrawlers holds what handlers behind the directive see of requests by address and User-Agent.
func TestCrawlers(t *testing.T) {
	t.Parallel()
	for name, nameserver := range nameservers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := caddytest.Start(t, crawlersConfig(nameserver, "", "redis_ratelimit {client_ip} 1000 1h"+showCrawler))
			n.GetUntil(t, "/", "[|google|forged]", from("203.0.113.6", googleAgent)...) // the resolver has found a name then
			for _, test := range []struct{ address, agent, want string }{
				{"66.249.66.1", googleAgent, "[google|google|verified]"},
				{"66.249.66.1", "Mozilla/5.0 Firefox/145.0", "[||]"},
				{"2001:4860:4801:10::1", "googlebot", "[google|google|verified]"},
				{"::ffff:66.249.66.2", googleAgent, "[google|google|verified]"},
				{"40.77.167.1", "bingbot/2.0", "[bing|bing|verified]"},
				{"40.77.167.1", googleAgent, "[|google|forged]"},
				{"66.249.66.1", "bingbot/2.0", "[|bing|forged]"},
				{"203.0.113.6", googleAgent, "[|google|forged]"},
				{"203.0.113.7", googleAgent, "[|google|forged]"},
				{"203.0.113.8", googleAgent, "[|google|forged]"},
				{"203.0.113.9", googleAgent, "[|google|forged]"},
				{"203.0.113.10", googleAgent, "[|google|forged]"},
				{"10.0.0.5", googleAgent, "[|google|unknown]"},
			} {
				wantCrawler(t, n, from(test.address, test.agent), test.want)
			}
			n.CheckMetric(t, `crawler_requests_total{crawler="bing",outcome="forged"}`, 1)
			n.CheckMetric(t, `crawler_requests_total{crawler="bing",outcome="verified"}`, 1)
			assert.ErrorIf(t, n.Metric(t, `crawler_lookups_total{outcome="verified"}`) < 4, "look-ups are not counted")
			for _, line := range n.Log.Lines(caddytest.Ours) {
				assert.ErrorIf(t, strings.Contains(line.Text, "66.249.66") || strings.Contains(line.Text, "203.0.113"), "an address is in the log: %s", line.Text)
			}
		})
	}
}

// TestCrawlers_rules has keys, matchers, exemptions and handlers behind go by crawlers.
func TestCrawlers_rules(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, crawlersConfig(nameservers(t)["own"], "monitor {\nagent OurMonitor\nnames .isp.example\n}", `
	@forged vars {http.redis_ratelimit.crawler_status} forged
	redis_ratelimit {
		exempt 192.0.2.1 crawler monitor
		exempt source static 198.51.100.0/24
		policy crawlers { key {http.redis_ratelimit.crawler}; limit 3; window 1h; on_empty_key skip }
		policy strangers { match vars {http.redis_ratelimit.crawler_status} "" unknown; limit 2; window 1h }
	}
	respond @forged "forged" 403
	respond "{http.redis_ratelimit.decision} {http.redis_ratelimit.policy}"`))
	for _, client := range [][2]string{
		{"66.249.66.1", googleAgent}, {"66.249.66.2", googleAgent}, {"40.77.167.1", "bingbot/2.0"}, {"203.0.113.8", googleAgent},
		{"203.0.113.6", "OurMonitor"}, {"203.0.113.8", "OurMonitor"},
	} {
		n.AwaitCrawler(t, client[0], client[1])
	}
	const browser = "Mozilla/5.0 Firefox/145.0"
	answers := func(address, agent string, want ...string) {
		t.Helper()
		for _, body := range want {
			status := http.StatusOK
			switch body {
			case "forged":
				status = http.StatusForbidden
			case "denied":
				status, body = http.StatusTooManyRequests, caddytest.Any
			}
			n.Get(t, "/", from(address, agent)...).Want(t, status, body)
		}
	}
	answers("66.249.66.1", googleAgent, "allowed crawlers", "allowed crawlers")
	answers("66.249.66.2", googleAgent, "allowed crawlers", "denied") // by name, from whatever address
	answers("40.77.167.1", "bingbot/2.0", "allowed crawlers")
	answers("203.0.113.8", googleAgent, "forged", "forged", "forged", "forged")
	answers("203.0.113.8", browser, "allowed strangers", "allowed strangers", "denied") // liars use up nothing of people's
	answers("203.0.113.6", "OurMonitor", "exempt ", "exempt ", "exempt ")
	answers("203.0.113.8", "OurMonitor", "forged")
	answers("192.0.2.1", browser, "exempt ", "exempt ", "exempt ")
	answers("198.51.100.9", browser, "exempt ", "exempt ", "exempt ")
	answers("198.51.101.9", browser, "allowed strangers", "allowed strangers", "denied")

	explained := n.Ratelimit(t, "explain", "--url", n.URL+"/", "--header", "User-Agent: "+googleAgent, "--header", "X-Forwarded-For: 1.1.1.1", "--client-ip", "66.249.66.2")
	explained.Want(t, 4, "crawler google: verified by crawl-66-249-66-2.googlebot.com")
	explained = n.Ratelimit(t, "explain", "--url", n.URL+"/", "--header", "User-Agent: "+googleAgent, "--client-ip", "203.0.113.8")
	explained.Want(t, 0, "crawler google: forged")

	shown := n.Ratelimit(t, "crawlers")
	shown.Want(t, 0, "CRAWLER", "google", ".googlebot.com", "has found names")
	shown = n.Ratelimit(t, "crawlers", "66.249.66.1")
	shown.Want(t, 0, "names of 66.249.66.1: crawl-66-249-66-1.googlebot.com. (", "addresses of crawl-66-249-66-1.googlebot.com: 66.249.66.1 (", "verified", "forged")
	n.Ratelimit(t, "crawlers", "10.0.0.5").Want(t, 0, "no client of the internet has this address")
	n.Ratelimit(t, "crawlers", "googlebot").Want(t, 2, "address: use an address such as 66.249.66.1")
}

// TestCrawlers_reload keeps what is known over a reload, and asks anew with other names.
func TestCrawlers_reload(t *testing.T) {
	t.Parallel()
	server := caddytest.StartDNS(t, caddytest.DNSNames(crawlerNames))
	config := func(more, body string) string {
		return crawlersConfig(server.Addr, more, "redis_ratelimit {client_ip} 1000 1h\nrespond \"{http.redis_ratelimit.crawler} "+body+"\"")
	}
	n := caddytest.Start(t, config("", "1"))
	asks := func(body string) { // the DNS may take longer than a request waits
		t.Helper()
		tries := 0
		assert.Retry(t, "the crawler is known", func() (again bool, seen any) {
			tries++
			a := n.Get(t, "/", from("66.249.66.1", googleAgent)...)
			return a.Body != body, a
		})
		asked := len(server.Asked())
		assert.ErrorIf(t, asked < 2 || asked > 2*tries, "%d questions of %d requests until %s, want 2 of one", asked, tries, body)
	}
	asks("google 1")
	n.Reload(t, config("", "2"))
	n.AwaitReload(t)
	n.Get(t, "/", from("66.249.66.1", googleAgent)...).Want(t, http.StatusOK, "google 2")
	assert.Equal(t, len(server.Asked()), 0, "questions after a reload")
	n.Reload(t, config("monitor {\nagent OurMonitor\nnames .monitor.example.net\n}", "3"))
	n.AwaitReload(t)
	asks("google 3")
}

// TestCrawlers_header goes by the address that the server takes from a header of a CDN.
func TestCrawlers_header(t *testing.T) {
	t.Parallel()
	const trusted = "servers {\nclient_ip_headers X-Client\ntrusted_proxies static 127.0.0.1/32\n}\n"
	n := caddytest.Start(t, crawlersConfigTrusting(trusted, nameservers(t)["own"], "", "redis_ratelimit {client_ip} 1000 1h"+showCrawler))
	ofCDN := func(cdn string, headers ...string) []string {
		return append(headers, "X-Client: "+cdn, "User-Agent: "+googleAgent)
	}
	wantCrawler(t, n, ofCDN("203.0.113.6"), "[|google|forged]")
	wantCrawler(t, n, ofCDN("66.249.66.1"), "[google|google|verified]")
}

// TestCrawlers_resolver_down has requests go on as strangers, and soon without a wait.
func TestCrawlers_resolver_down(t *testing.T) {
	t.Parallel()
	server := caddytest.StartDNS(t, func(caddytest.DNSQuestion) caddytest.DNSReply { return caddytest.DNSReply{Drop: true} })
	text := strings.Replace(crawlersConfig(server.Addr, "", "redis_ratelimit {client_ip} 1000 1h"+showCrawler), "wait 2s", "wait 20ms", 1)
	n := caddytest.Start(t, text)
	idle := n.Goroutines(t)
	for i := range 20 {
		n.Get(t, "/", from(fmt.Sprintf("66.249.%d.1", i), googleAgent)...).Want(t, http.StatusOK, "[|google|unknown]")
	}
	assert.WaitFor(t, "the look-ups have failed", func() error {
		if failed := n.Metric(t, `crawler_lookups_total{outcome="failed"}`); failed < 20 {
			return fmt.Errorf("%v have", failed)
		}
		return nil
	})
	assert.Retry(t, "the look-ups have ended", func() (again bool, seen any) {
		now := n.Goroutines(t)
		return now > idle+5, fmt.Sprintf("%d goroutines, %d when idle", now, idle)
	})
}

// TestCrawlers_ranges verifies by a file, which is read anew when it changes.
func TestCrawlers_ranges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gptbot.json")
	write := func(ranges string) {
		assert.Must(t, os.WriteFile(path+".new", []byte(`{"prefixes":[{"ipv4Prefix":"`+ranges+`"}]}`), 0o600))
		assert.Must(t, os.Rename(path+".new", path))
	}
	write("52.230.152.0/24")
	n := caddytest.Start(t, crawlersConfig("127.0.0.1:1", "openai {\nranges "+path+"\n}", "redis_ratelimit {client_ip} 1000 1h"+showCrawler))
	n.Get(t, "/", from("52.230.152.9", "GPTBot/1.2")...).Want(t, http.StatusOK, "[openai|openai|verified]")
	n.Get(t, "/", from("52.230.153.9", "GPTBot/1.2")...).Want(t, http.StatusOK, "[|openai|forged]")
	write("52.230.153.0/24")
	assert.WaitFor(t, "the new ranges count", func() error {
		if a := n.Get(t, "/", from("52.230.153.9", "GPTBot/1.2")...); a.Body != "[openai|openai|verified]" {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	n.Get(t, "/", from("52.230.152.9", "GPTBot/1.2")...).Want(t, http.StatusOK, "[|openai|forged]")
}

// TestCrawlers_refused refuses configurations that ask for crawlers which there are not.
func TestCrawlers_refused(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", "respond ok"))
	for site, want := range map[string]string{
		"redis_ratelimit {client_ip} 10 1m {\nexempt crawler yahoo\n}": "exempt crawler yahoo: the global option has no such crawler",
		"redis_ratelimit {http.redis_ratelimit.crawlr} 10 1m":          "",
		"redis_ratelimit {http.redis_ratelimit.crawler_name} 10 1m":    "{http.redis_ratelimit.crawler_name} is unknown; use {http.redis_ratelimit.crawler}",
	} {
		text := caddytest.WithPorts(n, crawlersConfig("127.0.0.1:1", "", site))
		a := n.Load(t, text)
		assert.ErrorIf(t, want != "" && (a.Status == http.StatusOK || !strings.Contains(a.Body, want)), "%s: %v, want %s", site, a, want)
	}
	text := caddytest.WithPorts(n, caddytest.Config("", "redis_ratelimit {http.redis_ratelimit.crawler} 10 1m"))
	a := n.Load(t, text)
	assert.ErrorIf(t, !strings.Contains(a.Body, "{http.redis_ratelimit.crawler} needs crawlers { ... } in the global option"), "without crawlers: %v", a)
	missing := caddytest.WithPorts(n, crawlersConfig("127.0.0.1:1", "openai {\nranges /nowhere/gptbot.json\n}", "respond ok"))
	a = n.Load(t, missing)
	assert.ErrorIf(t, !strings.Contains(a.Body, "crawlers: openai: ranges /nowhere/gptbot.json: no such file or directory"), "a missing file: %v", a)
}
