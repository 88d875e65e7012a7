package redisratelimit

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

func init() {
	caddy.RegisterModule(adminRoutes{})
}

// adminRoutes answers questions about the limits of the running configuration at Caddy's admin endpoint,
// below /redis_ratelimit/. Keys travel in bodies, because Caddy logs admin URLs.
type adminRoutes struct{}

// CaddyModule returns the Caddy module information.
func (adminRoutes) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api." + appName, New: func() caddy.Module { return new(adminRoutes) }}
}

// Routes returns the routes of the API.
func (adminRoutes) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		byRunning(adminapi.Policies, (*App).servePolicies),
		byRunning(adminapi.State, (*App).serveState),
		byRunning(adminapi.Reset, (*App).serveReset),
		byRunning(adminapi.Override, (*App).serveOverride),
		byRunning(adminapi.Overrides, (*App).serveOverrides),
		byRunning(adminapi.Top, (*App).serveTop),
		byRunning(adminapi.Bans, (*App).serveBans),
		byRunning(adminapi.Explain, (*App).serveExplain),
		byRunning(adminapi.Crawlers, (*App).serveCrawlers),
		byRunning(adminapi.Page, (*App).servePage),
	}
}

// byRunning makes the route of an endpoint that the running app answers, with its stores, which stay open meanwhile.
func byRunning[Question, Answer any](
	e adminapi.Endpoint[Question, Answer],
	ask func(*App, context.Context, Question, *storepool.Stores) (answer Answer, undecided bool, err error),
) caddy.AdminRoute {
	return e.Serve(func(r *http.Request) (answer Answer, undecided bool, err error) {
		app := apps.newest()
		if app == nil {
			return answer, false, adminapi.Absent("the running configuration has no %s", appName)
		}
		stores := app.use()
		defer stores.End()
		question, err := e.Read(r)
		if err != nil {
			return answer, false, err
		}
		return ask(app, r.Context(), question, stores)
	})
}

// Interface guards
var _ caddy.AdminRouter = adminRoutes{}
