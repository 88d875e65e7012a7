package simulate

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/replay/accesslog"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
)

// loggingConfig is what of a configuration's logging tells how its logs are to be read.
type loggingConfig struct {
	Logs map[string]struct {
		Encoder json.RawMessage `json:"encoder"`
	} `json:"logs"`
}

// logEncoder is an encoder's part in that, or that of the one that it wraps.
type logEncoder struct {
	TimeFormat     string      `json:"time_format"`
	DurationFormat string      `json:"duration_format"`
	Wrap           *logEncoder `json:"wrap"`
}

// options are how to read the logs. Which of them a file is, it does not tell: durations have a format
// only where all logs that name one agree.
func (c *loggingConfig) options() (o accesslog.Options) {
	var durations []string
	for _, name := range slices.Sorted(maps.Keys(c.Logs)) {
		var encoder logEncoder
		if json.Unmarshal(c.Logs[name].Encoder, &encoder) != nil {
			continue // none, or one that has its own words
		}
		for e := &encoder; e != nil; e = e.Wrap {
			if e.TimeFormat != "" {
				o.TimeLayouts = routetrace.AppendNew(o.TimeLayouts, e.TimeFormat)
			}
			if e.DurationFormat != "" {
				durations = routetrace.AppendNew(durations, e.DurationFormat)
			}
		}
	}
	if len(durations) == 1 {
		o.DurationFormat = durations[0]
	}
	return o
}
