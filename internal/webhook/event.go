package webhook

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"time"
)

// Event is what a receiver is told. [NewEvent] makes one.
type Event struct {
	id   string
	kind string
	at   time.Time
	data map[string]any
}

// NewEvent returns an event of a type that happens now, with an id of its own. The data are of values that JSON has, and
// hold no client's key.
func NewEvent(kind string, data map[string]any) Event {
	if data == nil {
		data = map[string]any{}
	}
	return Event{id: "msg_" + rand.Text(), kind: kind, at: time.Now().Round(0).UTC(), data: data}
}

// Key is a client's key in an event. Other nodes that tell of the event know the key themselves, so that none lies in Redis.
type Key struct {
	Text  string
	Shown bool // the receiver gets the key itself, otherwise its hash
}

// message is the body of a request, with the fields that Standard Webhooks recommends.
type message struct {
	Type      string         `json:"type"`
	Timestamp string         `json:"timestamp"`
	Data      map[string]any `json:"data"`
}

// body returns the body of the event's request. It is the same, byte for byte, in each attempt on each node.
func (e *Event) body(s Secret, key *Key) ([]byte, error) {
	data := make(map[string]any, len(e.data)+1)
	maps.Copy(data, e.data)
	switch {
	case key == nil:
	case key.Shown:
		data["key"] = key.Text
	default:
		data["key_hash"] = s.hashKey(key.Text)
	}
	return json.Marshal(message{e.kind, e.at.Format(time.RFC3339Nano), data})
}

// mostStored is the most bytes of an event in Redis. Ours have at most 600.
const mostStored = 4096

var (
	errStored = errors.New("the mark of an event in redis holds no event; another version may have written it")
	idPattern = regexp.MustCompile(`^msg_[A-Z2-7]{26}$`)
)

// stored returns the event, without a key, as it lies in Redis.
func (e *Event) stored() (string, error) {
	text, err := json.Marshal(message{e.kind, e.at.Format(time.RFC3339Nano), e.data})
	return string(text), err
}

// readStored returns the event of an id that lies in Redis.
func readStored(id, text string) (Event, error) {
	var m message
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber() // numbers stay as they were written
	if len(text) > mostStored || !idPattern.MatchString(id) || decoder.Decode(&m) != nil || m.Data == nil {
		return Event{}, errStored
	}
	at, err := time.Parse(time.RFC3339Nano, m.Timestamp)
	if err != nil {
		return Event{}, errStored
	}
	return Event{id: id, kind: m.Type, at: at.UTC(), data: m.Data}, nil
}
