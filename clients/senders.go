package main

import (
	"net/http"
	"time"
)

// sender is a client of node/ whose job is in senders.mjs, and whose backend counts so many things that arrive.
func sender(job, pack string, backend func(r *run) http.Handler, want int, things string) *client {
	return nodeJob(job, pack, backend, func(r *run, exit int) outcome { return counted(exit, r.arrived.count(), want, things) })
}

// nodeJob is a client of node/ whose job is in senders.mjs. A function says what has come of it.
func nodeJob(job, pack string, backend func(r *run) http.Handler, outcomeOf func(r *run, exit int) outcome) *client {
	c := nodeClient(pack)
	c.backend = backend
	c.job = func(r *run) outcome {
		exit := r.command(append(r.node("senders.mjs", job), r.url)...)
		o := outcomeOf(r, exit)
		o.sleeps = exit < 0
		return o
	}
	return c
}

// senders are libraries that send or fetch on their own, without an error for each refusal.
func senders() []*client {
	named := func(name, limit, note string) func(c *client) {
		return func(c *client) { c.name, c.limit, c.note = c.name+name, limit, note }
	}
	socket := sender("socket", "socket.io-client", socketServer, 12, "messages")
	sessions := with(sender("socket", "socket.io-client", socketServer, 12, "messages"), named(", limit for GET without sid", "2 3s",
		"reads no Retry-After: tries after 1 to 5 s"))
	sessions.matcher = "not query sid=*"
	upload := sender("upload", "tus-js-client", uploadServer, parts, "parts")
	upload.within = 30 * time.Second
	free := with(sender("upload", "tus-js-client", uploadServer, parts, "parts"), named(", no limit for HEAD", "3 3s",
		"reads no Retry-After: tries after 0, 1, 3, 5 s"))
	free.matcher = "not method HEAD"
	calendars := func() *client {
		return nodeJob("calendars", "tsdav", calendarServer, func(r *run, exit int) outcome {
			return counted(exit, r.found("*.ics"), 3*eventsEach, "events")
		})
	}
	reports := with(calendars(), named(", no limit for PROPFIND", "2 3s", ""))
	reports.matcher = "not method PROPFIND"
	return []*client{
		with(socket, named("", "6 3s", "a refused POST loses its messages and the session: no answer prevents that")),
		sessions,
		with(sender("replicateOnce", "pouchdb", couchServer, 30, "documents"), named("", "8 3s",
			"`GET /db/` is to have no limit: where it is refused, an error that is not handled ends the program")),
		with(sender("replicateLive", "pouchdb", couchServer, 30, "documents"), named(", live and retry", "8 3s", "reads no Retry-After")),
		with(calendars(), named("", "4 3s",
			"takes a home whose PROPFIND is refused for one without calendars, by whatever status: no answer prevents that")),
		reports,
		with(upload, named("", "3 3s", "begins anew at byte 0 where HEAD is refused too, without an end")),
		free,
		with(sender("points", "@influxdata/influxdb-client", pointServer, 20, "points"), named("", "2 3s", "tries after 5 s and more")),
		with(sender("pointsClosed", "@influxdata/influxdb-client", pointServer, 20, "points"), named(", closed at once", "2 3s",
			"`close` drops what waits for its next try, with a line of log: close after `writeSuccess`")),
	}
}
