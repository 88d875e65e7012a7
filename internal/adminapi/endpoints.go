package adminapi

import "encoding/json"

// The endpoints of the admin API: how each is called, what its command shows or does, what is asked and what is answered.
var (
	Policies  = get[NoQuestion, PoliciesReport]("policies", "the policies, and whether the store works")
	State     = post[QuotaRequest, StateReport]("state", "what one client has left, and its keys in Redis")
	Reset     = post[QuotaRequest, ResetReport]("reset", "resets the quota of one client, or of all clients of a policy")
	Override  = post[OverrideRequest, OverrideReport]("override", "gives a client another limit, blocks or exempts it, on every node")
	Overrides = get[NoQuestion, OverridesReport]("overrides", "the limits, blocks and exemptions that were set so")
	Top       = get[TopQuestion, TopAnswer]("top", "the keys that are denied most, or use most")
	Bans      = get[BansQuestion, BansReport]("bans", "the clients that are banned, on all nodes")
	Explain   = post[ExplainRequest, ExplainReport]("explain", "the policies that a request would meet, and their decisions").withData()

	Crawlers = post[CrawlersRequest, CrawlersReport]("crawlers", "the crawlers that are known, and how an address is verified")

	// Page answers with a document that package livepage writes.
	Page = get[PageQuestion, json.RawMessage]("page", "all of this on a page that a browser refreshes each second")
)

// TopDenied and TopUsed are [Top] for who knows which answer it asks for.
var (
	TopDenied = narrow[TopReport](Top)
	TopUsed   = narrow[UsedReport](Top)
)

// Routes returns the routes of all endpoints, in the order of the help.
func Routes() []Route {
	return []Route{
		Policies.route, State.route, Reset.route, Override.route, Overrides.route, Top.route, Bans.route, Explain.route, Crawlers.route,
		Page.route,
	}
}

// narrow returns an endpoint for those of its questions that have one of its answers.
func narrow[Answer TopAnswer, Question any](e Endpoint[Question, TopAnswer]) Endpoint[Question, Answer] {
	return Endpoint[Question, Answer](e)
}
