package adminapi

import "net/url"

// NoQuestion is the question of an endpoint that has one answer.
type NoQuestion struct{}

func (NoQuestion) values() url.Values             { return nil }
func (NoQuestion) from(url.Values) (q NoQuestion) { return q }

// TopQuestion is the query of GET /redis_ratelimit/top.
type TopQuestion struct {
	Most   Given // n: how many keys
	Policy Given // whose keys; without it those of all policies
	By     Given // what is counted: denied or used
	Nodes  Given // all, where what is used is asked for of all nodes
}

func (q TopQuestion) values() url.Values {
	query := url.Values{}
	q.Most.set(query, "n")
	q.Policy.set(query, "policy")
	q.By.set(query, "by")
	q.Nodes.set(query, "nodes")
	return query
}

func (TopQuestion) from(query url.Values) TopQuestion {
	return TopQuestion{
		Most: givenIn(query, "n"), Policy: givenIn(query, "policy"), By: givenIn(query, "by"), Nodes: givenIn(query, "nodes"),
	}
}

// BansQuestion is the query of GET /redis_ratelimit/bans: of which policy, or without it of all.
type BansQuestion struct{ Policy Given }

func (q BansQuestion) values() url.Values {
	query := url.Values{}
	q.Policy.set(query, "policy")
	return query
}

func (BansQuestion) from(query url.Values) BansQuestion {
	return BansQuestion{givenIn(query, "policy")}
}

// PageQuestion is the query of GET /redis_ratelimit/page: the member next of the answer since which all is asked for that is
// new. Empty: all.
type PageQuestion struct{ Since string }

func (q PageQuestion) values() url.Values { return url.Values{"since": {q.Since}} }

func (PageQuestion) from(query url.Values) PageQuestion { return PageQuestion{query.Get("since")} }

// set adds a text to a query, if it is given.
func (g Given) set(query url.Values, name string) {
	if g.Given {
		query.Set(name, g.Text)
	}
}

// givenIn returns a text of a query.
func givenIn(query url.Values, name string) Given {
	return Given{Text: query.Get(name), Given: query.Has(name)}
}
