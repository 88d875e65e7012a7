package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"time"
)

// client is what sends requests: a browser, a program or a bot.
type client struct {
	site   *site
	header http.Header    // of each request
	asks   http.Header    // of requests for pages, beside it
	jar    http.CookieJar // nil: keeps no cookies
	loads  bool           // the files of pages
	waits  bool           // follows the refresh of pages
	delay  time.Duration  // of its line, in each direction
}

// newClient returns a client at an address, without cookies, whose requests the backend counts as those of a class.
func newClient(s *site, class, address, agent string) *client {
	header := http.Header{"X-Forwarded-For": {address}, "User-Agent": {agent}}
	header.Set(classHeader, class)
	return &client{site: s, header: header, asks: plainPage}
}

// keepCookies has the client keep cookies from now on.
func (c *client) keepCookies() *client {
	c.jar, _ = cookiejar.New(nil) // never an error
	return c
}

// Headers of requests for pages, as text browsers and crawlers send them and as others do, and for the files of pages.
var (
	plainPage   = http.Header{"Accept": {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, "Accept-Language": {"en"}}
	browserPage = http.Header{
		"Accept": plainPage["Accept"], "Accept-Language": {"en"}, "Upgrade-Insecure-Requests": {"1"},
		"Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Sec-Fetch-Site": {"none"},
	}
	styleSheet = http.Header{
		"Accept": {"text/css,*/*;q=0.1"}, "Accept-Language": {"en"},
		"Sec-Fetch-Mode": {"no-cors"}, "Sec-Fetch-Dest": {"style"}, "Sec-Fetch-Site": {"same-origin"},
	}
)

// answer is what came, behind redirections.
type answer struct {
	status int
	url    *url.URL
	body   string
}

// isPage reports whether the backend answered.
func (a answer) isPage() bool { return a.status == http.StatusOK && strings.HasPrefix(a.body, mark) }

// get sends a request with a header beside the client's own, follows redirections and keeps cookies.
func (c *client) get(ctx context.Context, target string, header http.Header) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	for _, header := range []http.Header{header, c.header} {
		maps.Copy(r.Header, header)
	}
	if err := sleep(ctx, c.delay); err != nil {
		return answer{}, err
	}
	browser := http.Client{Transport: c.site.transport, Jar: c.jar}
	resp, err := browser.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = sleep(ctx, c.delay)
	}
	return answer{resp.StatusCode, resp.Request.URL, string(body)}, err
}

// errTooManyWaits is the error of a page that leads to itself without an end.
var errTooManyWaits = errors.New("the page waits again and again")

// open is a click: it goes on from pages that wait as a browser without scripts does, and returns what comes at last and
// how many pages waited.
func (c *client) open(ctx context.Context, target string) (last answer, waited int, err error) {
	for waited < 12 {
		if last, err = c.get(ctx, target, c.asks); err != nil {
			return last, waited, err
		}
		p, isWaiting := readWaitingPage(last.body)
		if last.isPage() || !isWaiting {
			return last, waited, nil
		}
		waited++
		if !c.waits {
			return last, waited, nil
		}
		if target, err = c.follow(ctx, last.url, p); err != nil {
			return last, waited, err
		}
	}
	return last, waited, errTooManyWaits
}

// follow waits as a page says, and returns where the page leads. Its files load meanwhile, however long that takes: the
// refresh of a page waits for none.
func (c *client) follow(ctx context.Context, at *url.URL, p waitingPage) (string, error) {
	if c.loads {
		for _, file := range p.files {
			go c.load(ctx, at, file)
		}
	}
	if err := sleep(ctx, p.after); err != nil {
		return "", err
	}
	next, err := at.Parse(p.next)
	if err != nil {
		return "", err
	}
	return next.String(), nil
}

// load loads a file of a page. What comes does not matter to who loads it, other than its cookies.
func (c *client) load(ctx context.Context, at *url.URL, file string) {
	if target, err := at.Parse(file); err == nil {
		_, _ = c.get(ctx, target.String(), styleSheet) // a browser shows the page without it
	}
}

// loadAll loads files at once.
func (c *client) loadAll(ctx context.Context, at *url.URL, files []string) {
	var all sync.WaitGroup
	for _, file := range files {
		all.Go(func() { c.load(ctx, at, file) })
	}
	all.Wait()
}

// sleep waits, or returns the context's error once it ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
