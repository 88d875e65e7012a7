package redisratelimit

import (
	"encoding/json"
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/limiter"
)

// problem is a body of the type application/problem+json (RFC 9457), with the members of
// draft-ietf-httpapi-ratelimit-headers-11.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Policies []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// quotaExceeded is the problem of a denied request.
func quotaExceeded(status int, policies []string) problem {
	return problem{Type: problemTypes + "quota-exceeded", Title: "Request cannot be satisfied as assigned quota has been exceeded", Status: status, Policies: policies}
}

// reducedCapacity is the problem of a request that nobody could decide.
func reducedCapacity(status int) problem {
	return problem{Type: problemTypes + "temporary-reduced-capacity", Title: "Request cannot be satisfied due to temporary server capacity constraints", Status: status}
}

// write answers with the problem.
func (p problem) write(w http.ResponseWriter) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, err = w.Write(body)
	return err
}

// violated names the policies that deny, each once.
func violated(checks []limiter.Check) (names []string) {
	for i := range checks {
		if !checks[i].Result.Passes() {
			names = append(names, checks[i].Policy.Name())
		}
	}
	return names
}
