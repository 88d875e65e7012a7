package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// arrivals are the things that a backend has got: messages, documents, points.
type arrivals struct {
	mu     sync.Mutex
	things map[string]bool
}

func (a *arrivals) add(thing string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.things == nil {
		a.things = map[string]bool{}
	}
	a.things[thing] = true
}

func (a *arrivals) has(thing string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.things[thing]
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.things)
}

// answerJSON answers with a JSON document.
func answerJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document) // the client may have left
}

// packetEnd is between the packets of a body of Engine.IO.
const packetEnd = "\x1e"

// socketServer is a server of Socket.IO: sessions of Engine.IO 4 by polling, each of which is told that it is connected. The
// messages arrive.
func socketServer(r *run) http.Handler {
	var mu sync.Mutex
	sessions := map[string]chan string{} // packets for a session
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		id := q.URL.Query().Get("sid")
		mu.Lock()
		packets := sessions[id]
		if id == "" {
			id = strconv.Itoa(len(sessions) + 1)
			sessions[id] = make(chan string, 1)
		}
		mu.Unlock()
		switch {
		case q.URL.Query().Get("sid") == "":
			_, _ = fmt.Fprintf(w, `0{"sid":%q,"upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}`, id) // it may have left
		case packets == nil:
			answerJSON(w, http.StatusBadRequest, map[string]any{"code": 1, "message": "Session ID unknown"})
		case q.Method == http.MethodPost:
			for packet := range strings.SplitSeq(readAll(q), packetEnd) {
				switch {
				case packet == "40": // connects
					packets <- `40{"sid":"` + id + `"}`
				case packet == "41", packet == "1": // leaves
					select {
					case packets <- "6":
					default:
					}
				case strings.HasPrefix(packet, "42"): // an event
					r.arrived.add(packet)
				}
			}
			_, _ = io.WriteString(w, "ok") // it may have left
		default:
			select {
			case packet := <-packets:
				_, _ = io.WriteString(w, packet) // it may have left
			case <-q.Context().Done():
			}
		}
	})
}

// couchServer is a database that others replicate to, as CouchDB's replication protocol says.
func couchServer(r *run) http.Handler {
	var mu sync.Mutex
	checkpoints := map[string]json.RawMessage{}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, path := readAll(q), q.URL.Path
		mu.Lock()
		defer mu.Unlock()
		switch checkpoint, known := checkpoints[path]; {
		case path == "/":
			answerJSON(w, http.StatusOK, map[string]any{"couchdb": "Welcome", "uuid": "lab", "version": "3.4.0"})
		case strings.HasSuffix(path, "/_revs_diff"):
			var revisions map[string][]string
			r.check(json.Unmarshal([]byte(body), &revisions))
			missing := map[string]any{}
			for id, revisions := range revisions {
				if !r.arrived.has(id) {
					missing[id] = map[string]any{"missing": revisions}
				}
			}
			answerJSON(w, http.StatusOK, missing)
		case strings.HasSuffix(path, "/_bulk_docs"):
			var bulk struct {
				Docs []struct {
					ID string `json:"_id"`
				}
			}
			r.check(json.Unmarshal([]byte(body), &bulk))
			for _, doc := range bulk.Docs {
				r.arrived.add(doc.ID)
			}
			answerJSON(w, http.StatusCreated, []any{}) // without new_edits it names documents that were not stored
		case strings.Contains(path, "/_local/") && q.Method == http.MethodPut:
			checkpoints[path] = json.RawMessage(body)
			_, id, _ := strings.Cut(path, "/_local/")
			answerJSON(w, http.StatusCreated, map[string]any{"ok": true, "id": "_local/" + id, "rev": "0-1"})
		case strings.Contains(path, "/_local/") && known:
			answerJSON(w, http.StatusOK, checkpoint)
		case strings.Contains(path, "/_local/"):
			answerJSON(w, http.StatusNotFound, map[string]any{"error": "not_found", "reason": "missing"})
		default:
			answerJSON(w, http.StatusOK, map[string]any{"db_name": "lab", "doc_count": r.arrived.count(), "update_seq": 0})
		}
	})
}

// eventsEach is how many events each calendar has.
const eventsEach = 3

// calendarServer has homes with a calendar each, and a few events in it (CalDAV, RFC 4791). A query and a multiget have the
// same answer.
func calendarServer(*run) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_ = readAll(q)
		w.Header().Set("Content-Type", "application/xml; charset=utf-8")
		w.WriteHeader(http.StatusMultiStatus)
		_, _ = io.WriteString(w, `<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav">`) // likewise
		const item = `<d:response><d:href>%s</d:href><d:propstat><d:status>HTTP/1.1 200 OK</d:status><d:prop>%s</d:prop></d:propstat>` +
			`</d:response>`
		if q.Method != "REPORT" {
			_, _ = fmt.Fprintf(w, item, q.URL.Path+"calendar/", `<d:resourcetype><d:collection/><c:calendar/></d:resourcetype>`) // it may have left
		}
		for i := 0; i < eventsEach && q.Method == "REPORT"; i++ {
			_, _ = fmt.Fprintf(w, item, fmt.Sprintf("%s%d.ics", q.URL.Path, i), `<d:getetag>"1"</d:getetag>`+
				"<c:calendar-data>BEGIN:VCALENDAR\nBEGIN:VEVENT\nEND:VEVENT\nEND:VCALENDAR</c:calendar-data>") // it may have left
		}
		_, _ = io.WriteString(w, "</d:multistatus>") // it may have left
	})
}

// parts is how many parts an upload has, of one byte each.
const parts = 5

// uploadServer takes resumable uploads (tus 1.0.0). The parts of an upload that is complete have arrived.
func uploadServer(r *run) http.Handler {
	var mu sync.Mutex
	uploads := map[string]int{} // bytes of each
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, id := readAll(q), q.URL.Path
		mu.Lock()
		defer mu.Unlock()
		header := w.Header()
		header.Set("Tus-Resumable", "1.0.0")
		switch q.Method {
		case http.MethodPost:
			id = fmt.Sprintf("/files/%d", len(uploads)+1)
			uploads[id] = 0
			header.Set("Location", id)
			w.WriteHeader(http.StatusCreated)
		case http.MethodHead:
			header.Set("Upload-Length", strconv.Itoa(parts))
			header.Set("Upload-Offset", strconv.Itoa(uploads[id]))
			header.Set("Cache-Control", "no-store")
		case http.MethodPatch:
			if q.Header.Get("Upload-Offset") != strconv.Itoa(uploads[id]) {
				w.WriteHeader(http.StatusConflict)
				return
			}
			uploads[id] += len(body)
			for i := 0; i < parts && uploads[id] == parts; i++ {
				r.arrived.add(strconv.Itoa(i))
			}
			header.Set("Upload-Offset", strconv.Itoa(uploads[id]))
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

// pointServer takes points for InfluxDB, one a line.
func pointServer(r *run) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		for line := range strings.Lines(readAll(q)) {
			r.arrived.add(strings.TrimSpace(line))
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
