package redisratelimit

// appName is the name of the app, of the handler, the directive and the global option.
const appName = "redis_ratelimit"
