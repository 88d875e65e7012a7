package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"time"
)

// eventsPage opens an event stream, which the server ends after each event, and reports what it got.
const eventsPage = `<!doctype html><title>events</title><script>
let got = 0;
const source = new EventSource("/events");
source.onmessage = () => { got++; if (got === 4) { source.close(); fetch("/report?got=" + got); } };
source.onerror = () => { if (source.readyState === EventSource.CLOSED) fetch("/report?got=" + got + "&closed"); };
</script>`

// events serves the page, its stream, and takes its report.
type events struct{ reports chan string }

func (e *events) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch q.URL.Path {
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "retry: 200\ndata: word\n\n") // the client may have left
	case "/report":
		e.reports <- q.URL.RawQuery
	default:
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, eventsPage) // likewise
	}
}

// browserWaits is how long the page has to get its events.
const browserWaits = 30 * time.Second

// pages are pages in a browser.
func pages() []*client {
	e := &events{reports: make(chan string, 1)}
	return []*client{{
		name: "Chromium, EventSource", program: "chromium", install: "chromium", version: []string{"chromium", "--version"},
		matcher: "path /events",
		backend: func(*run) http.Handler { return e },
		job: func(r *run) outcome {
			browser := r.prepare("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
				"--disable-background-networking", "--user-data-dir="+filepath.Join(r.folder, "profile"), r.url+"/page")
			r.check(browser.Start())
			defer func() {
				if r.err == nil {
					_ = browser.Cancel() // it may have exited
					_ = browser.Wait()   // which says how it was ended
				}
			}()
			o := outcome{exit: 1, data: "no report"}
			select {
			case report := <-e.reports:
				got := 0
				_, _ = fmt.Sscanf(report, "got=%d", &got) // 0 for what is no number
				o = counted(0, got, 4, "events")
				if !o.whole {
					o.exit = 1 // the page sees that its stream is closed
				}
				fmt.Fprintln(&r.output, report)
			case <-time.After(browserWaits):
			}
			return o
		},
	}}
}
