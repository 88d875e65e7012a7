package adminserver

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/adminapi"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/routetrace"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storepool"
)

// Routes returns the routes of the API, whose questions the server of the running configuration answers; nil: there is none.
func Routes(running func() *Server) []caddy.AdminRoute {
	return []caddy.AdminRoute{
		route(running, adminapi.Policies, (*Server).servePolicies),
		route(running, adminapi.State, (*Server).serveState),
		route(running, adminapi.Reset, (*Server).serveReset),
		route(running, adminapi.Override, (*Server).serveOverride),
		route(running, adminapi.Overrides, (*Server).serveOverrides),
		route(running, adminapi.Top, (*Server).serveTop),
		route(running, adminapi.Bans, (*Server).serveBans),
		route(running, adminapi.Explain, (*Server).serveExplain),
		route(running, adminapi.Crawlers, (*Server).serveCrawlers),
		route(running, adminapi.Page, (*Server).servePage),
	}
}

// route makes the route of an endpoint. The stores of the running configuration stay open until the answer is complete.
func route[Question, Answer any](
	running func() *Server, e adminapi.Endpoint[Question, Answer],
	ask func(*Server, context.Context, Question, *storepool.Stores) (answer Answer, undecided bool, err error),
) caddy.AdminRoute {
	return e.Serve(func(r *http.Request) (answer Answer, undecided bool, err error) {
		s := running()
		if s == nil {
			return answer, false, adminapi.Absent("the running configuration has no redis_ratelimit")
		}
		stores := s.Stores.Use()
		defer stores.End()
		question, err := e.Read(r)
		if err != nil {
			return answer, false, err
		}
		return ask(s, r.Context(), question, stores)
	})
}

// serveExplain tells what the handlers that a request meets would decide.
func (s *Server) serveExplain(
	ctx context.Context, question adminapi.ExplainRequest, _ *storepool.Stores,
) (answer adminapi.ExplainReport, undecided bool, err error) {
	request, err := routetrace.NewRequest(ctx, &question)
	if err != nil {
		return answer, false, err
	}
	report, err := routetrace.Explain(s.Routes(), request, question.ClientIP)
	if err != nil {
		return answer, false, err
	}
	return *report, report.Error != "", nil
}
