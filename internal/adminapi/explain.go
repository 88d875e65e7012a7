package adminapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/display"
)

// ExplainRequest is the body of POST /redis_ratelimit/explain.
type ExplainRequest struct {
	// Method is GET where it is empty, and POST for a request with data.
	Method   string                  `json:"method"`
	URL      string                  `json:"url"`
	Headers  map[string]HeaderValues `json:"headers"`
	ClientIP string                  `json:"client_ip"`

	// Data is the body of the request; nil for none. As curl does, Content-Type is application/x-www-form-urlencoded where
	// Headers does not have it; an empty list of its values is a body without a type. The header Content-Length may
	// announce a longer body, of which Data is the begin.
	Data *Data `json:"data,omitempty"`
}

// HasHeader reports whether Headers name a header, by its canonical form, maybe without a value.
func (e *ExplainRequest) HasHeader(canonical string) bool {
	for name := range e.Headers {
		if http.CanonicalHeaderKey(name) == canonical {
			return true
		}
	}
	return false
}

// MaxData is how long a [Data] may be, in bytes.
const MaxData = 1 << 20

// Data is a request's body: in JSON a text, or an object with the bytes in base64, {"base64": "/w=="}.
type Data []byte

// encodedData is a [Data] in JSON that is no text.
type encodedData struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements [json.Marshaler].
func (d Data) MarshalJSON() ([]byte, error) {
	if utf8.Valid(d) {
		return json.Marshal(string(d))
	}
	return json.Marshal(encodedData{d})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Data) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		var data string
		err := json.Unmarshal(text, &data)
		*d = Data(data)
		return err
	}
	var encoded encodedData
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&encoded); err != nil || encoded.Base64 == nil {
		return errors.New(`data: write a text, or {"base64": "…"} for bytes that are no UTF-8`)
	}
	*d = encoded.Base64
	return nil
}

// HeaderValues are the values of one header: in JSON a list, or a single string.
type HeaderValues []string

// UnmarshalJSON implements [json.Unmarshaler].
func (v *HeaderValues) UnmarshalJSON(text []byte) error {
	var one string
	if err := json.Unmarshal(text, &one); err == nil {
		*v = HeaderValues{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(v))
}

// ExplainReport answers it: the decisions of the handlers on the way of such a request.
type ExplainReport struct {
	Error string `json:"error,omitempty"`

	// Server is the name of the server that receives such a request. ClientIP is the address that it comes from.
	Server   string `json:"server"`
	ClientIP string `json:"client_ip"`

	// Decision is allowed, waits if the request waits for its turn first, denied, exempt, rejected if a policy refuses the request without a decision, usage if a
	// handler answers with the client's quotas, challenge if the request brings back what a page that waits has given it,
	// or none if the request meets no policy.
	Decision string `json:"decision"`

	// Status is that of a rejected request: 400 for an empty key, 400, 413 or 415 for a body that cannot be read; 0 for
	// others. Some forms of an answer have another one.
	Status int `json:"status,omitempty"`

	// Page is true if a browser that navigates there gets a page that waits, by the option challenge.
	Page bool `json:"page,omitempty"`

	// Crawler is what is known of the crawler that the request claims to come from; nil: it claims none, or nothing asks.
	Crawler *ExplainedCrawler `json:"crawler,omitempty"`

	Policies []ExplainedPolicy `json:"policies"`

	// Skipped are the handlers on the request's way that need a real request.
	Skipped []string `json:"skipped,omitempty"`
}

// ExplainedCrawler is what is known of a request that claims to come from a crawler: verified, forged or unknown. By is the name of
// the address, or the file of ranges, that verifies it.
type ExplainedCrawler struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	By     string `json:"by,omitempty"`
}

// ExplainedPolicy is the decision of one policy. It is not_matched for a policy that the request does not
// meet, skipped or rejected for an empty key, rejected for a body that cannot be read, and unlimited where its limit's
// placeholder says so.
type ExplainedPolicy struct {
	Policy   string `json:"policy"`
	Key      string `json:"key,omitempty"`
	Decision string `json:"decision"`
	DryRun   bool   `json:"dry_run,omitempty"`
	Weight   int64  `json:"weight,omitempty"`

	// Cost is what the request costs in all instead of the weight, known with the response only: a placeholder,
	// paths of its body, or response_bytes.
	Cost string `json:"cost,omitempty"`

	// Lease is for how many seconds at most a node decides requests of a busy key by units that it has
	// leased. Remaining does not count these.
	Lease float64 `json:"lease,omitempty"`

	// NoBody is true if the policy goes by values of the request's body, and the request has none.
	NoBody bool `json:"no_body,omitempty"`

	// Turn is what the request waits for if the decision is waits, and behind whom; nil if requests of the policy do not wait.
	Turn *ExplainedTurn `json:"turn,omitempty"`

	// Look is set if the request looks at the quota and takes nothing before its response is known, if at all.
	Look *ExplainedLook `json:"look,omitempty"`

	// Unusable are values that the request has and the policy cannot use.
	Unusable []UnusableValue `json:"unusable,omitempty"`

	// Reserve is what must stay for others, which Remaining does not count. Reason is why the policy denies it: limit, ban,
	// block, reserve or max_concurrent; or why it rejects it: empty_key, early, or the reason of an unusable value.
	Reserve int64  `json:"reserve,omitempty"`
	Reason  string `json:"reason,omitempty"`
	QuotaReport
	Source   string         `json:"source,omitempty"`
	Override *OverrideEntry `json:"override,omitempty"`

	// Settings are those that apply without an override and without a placeholder's value.
	Settings display.PolicyDescription `json:"settings"`
}

// ExplainedTurn is what waits on this node for requests of the key to end: how many at most, and for how many seconds.
type ExplainedTurn struct {
	WaitingReport
	Most    int     `json:"most"`
	Longest float64 `json:"longest"`

	// Value is the request's, which its turns go by; nil: turns go by arrival.
	Value *string `json:"value,omitempty"`

	// Full is true if as many requests wait as may, so that the request is denied.
	Full bool `json:"full,omitempty"`
}

// ExplainedLook is how a request looks at a quota.
type ExplainedLook struct {
	// Charged says that the weight is charged if count_if matches the response. Otherwise count does not match the request,
	// which takes nothing.
	Charged bool `json:"charged"`

	// InFlight are the units of the key's requests on their way on this node that may be charged so, and Most how many may be.
	InFlight int64 `json:"in_flight,omitempty"`
	Most     int64 `json:"most,omitempty"`
}

// UnusableValue is why an option of a policy has no value, with the reasons of the metric invalid_values_total.
// [display.UnusableOption] says what follows.
type UnusableValue struct {
	Option string `json:"option"`
	Reason string `json:"reason"`

	// Text says what is wrong with the request's body; empty for any other reason.
	Text string `json:"text,omitempty"`
}
