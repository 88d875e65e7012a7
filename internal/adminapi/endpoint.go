package adminapi

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
)

// Route is how an endpoint is reached, and which command asks it.
type Route struct {
	// Method is GET where the question is in the query of the URL, and POST where it is a body of JSON.
	Method string

	// Name is the end of the path, and the subcommand of caddy redis-ratelimit that asks.
	Name string

	// About says what the subcommand shows or does, for the help.
	About string
}

// Path is the path of the endpoint's URL.
func (r Route) Path() string { return "/redis_ratelimit/" + r.Name }

// Endpoint is a route with the types of what is asked and answered there. The zero value is none: those that there are
// stand in the table of this package.
type Endpoint[Question, Answer any] struct {
	route Route
	most  int64 // that the body may have, in bytes

	write func(Question) (url.Values, []byte, error) // as the query and the body
	read  func(*http.Request) (Question, error)
}

// Route returns how the endpoint is reached.
func (e Endpoint[Question, Answer]) Route() Route { return e.route }

// Write returns the path and query that ask a question, and the body; nil for none.
func (e Endpoint[Question, Answer]) Write(question Question) (target string, body []byte, err error) {
	query, body, err := e.write(question)
	target = e.route.Path()
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	return target, body, err
}

// Read reads the question of a request.
func (e Endpoint[Question, Answer]) Read(r *http.Request) (Question, error) { return e.read(r) }

// queried is a question in the query of a URL.
type queried[Question any] interface {
	values() url.Values
	from(query url.Values) Question
}

// get makes an endpoint with questions in the query.
func get[Question queried[Question], Answer any](name, about string) Endpoint[Question, Answer] {
	return Endpoint[Question, Answer]{
		route: Route{http.MethodGet, name, about}, most: maxQuestion,
		write: func(question Question) (url.Values, []byte, error) { return question.values(), nil, nil },
		read: func(r *http.Request) (question Question, err error) {
			return question.from(r.URL.Query()), nil
		},
	}
}

// asked is a question that depends on who asks.
type asked interface{ comesFrom(peer netip.Addr) }

// peerOf returns the address that a request comes from; the zero value if it comes over a unix socket.
func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

// withData lets the body of a question have a [Data] too.
func (e Endpoint[Question, Answer]) withData() Endpoint[Question, Answer] {
	e.most = maxWithData
	return e
}

// post makes an endpoint with questions in a body.
func post[Question, Answer any](name, about string) Endpoint[Question, Answer] {
	return Endpoint[Question, Answer]{
		route: Route{http.MethodPost, name, about}, most: maxQuestion,
		write: func(question Question) (_ url.Values, body []byte, err error) {
			body, err = json.Marshal(question)
			return nil, body, err
		},
		read: func(r *http.Request) (question Question, err error) {
			err = readQuestion(r, &question)
			if asked, ok := any(&question).(asked); ok {
				asked.comesFrom(peerOf(r))
			}
			return question, err
		},
	}
}
