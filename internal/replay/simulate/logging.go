package simulate

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// loggingConfig is the part of a configuration that says in which form its logs have times and durations.
type loggingConfig struct {
	Logs map[string]struct {
		Encoder json.RawMessage `json:"encoder"`
	} `json:"logs"`
}

// logEncoder is the part of a log's encoder, or of an encoder that another one wraps, with the forms of times and durations.
type logEncoder struct {
	TimeFormat     string          `json:"time_format"`
	DurationFormat string          `json:"duration_format"`
	Fields         json.RawMessage `json:"fields"` // of an encoder that filters or appends
	Wrap           *logEncoder     `json:"wrap"`
}

// all calls a function for each encoder, and for those that it wraps.
func (c *loggingConfig) all(call func(e *logEncoder)) {
	for _, name := range slices.Sorted(maps.Keys(c.Logs)) {
		var encoder logEncoder
		if json.Unmarshal(c.Logs[name].Encoder, &encoder) != nil {
			continue // none, or one that has its own words
		}
		for e := &encoder; e != nil; e = e.Wrap {
			call(e)
		}
	}
}

// options returns how to read the logs. A configuration may have several logs, and does not say which of them a file is.
// Each time_format and duration_format is tried on each file.
func (c *loggingConfig) options() (o accesslog.ReaderOptions) {
	c.all(func(e *logEncoder) {
		if e.TimeFormat != "" {
			o.TimeLayouts = routetrace.AppendNew(o.TimeLayouts, e.TimeFormat)
		}
		if e.DurationFormat != "" {
			o.DurationFormats = routetrace.AppendNew(o.DurationFormats, e.DurationFormat)
		}
	})
	return o
}
