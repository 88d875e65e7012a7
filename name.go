package redisratelimit

// appName is the name of the app, of the handler, the directive and the global option.
const appName = "redis_ratelimit"

// eventDenied is emitted through Caddy's events app when a client is denied: at most once per policy,
// key and second, and only where a listener is subscribed. Its data are policy, limit, retry_after (seconds)
// and source, and with log_keys the key, because Caddy logs the data of events.
const eventDenied = appName + ".denied"

// eventBanned is emitted when a ban begins ([Policy.Ban]), on the node whose request began it. Its data
// are policy, duration (seconds), source and dry_run, and with log_keys the key.
const eventBanned = appName + ".banned"

// eventThreshold is emitted when a request makes a client's use reach a fraction of the capacity
// ([Policy.Notify]): at most once per key, fraction and window. Its data are policy, limit, threshold (a
// percentage), remaining, reset_after (seconds), source and dry_run, and with log_keys the key.
const eventThreshold = appName + ".threshold"

// The types of messages that are no events of Caddy's events app.
const (
	messageOutageBegan = appName + ".outage.began"
	messageOutageEnded = appName + ".outage.ended"
	messageDataLost    = appName + ".data_lost"
	messageNeverMet    = appName + ".never_met"
)
