package quotaheader

import (
	"encoding/json"
	"net/http"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
)

// Problem is a body of the type application/problem+json (RFC 9457), with the members of
// draft-ietf-httpapi-ratelimit-headers-11.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Policies []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// QuotaExceeded is the problem of a denied request, with the names of the policies that deny.
func QuotaExceeded(status int, checks []limiter.Check) Problem {
	return Problem{
		Type: problemTypes + "quota-exceeded", Status: status, Policies: violated(checks),
		Title: "Request cannot be satisfied as assigned quota has been exceeded",
	}
}

// AbnormalUsage is the problem of a request that a ban denies, whatever the quota, with the names of the policies that
// deny.
func AbnormalUsage(status int, checks []limiter.Check) Problem {
	return Problem{
		Type: problemTypes + "abnormal-usage-detected", Status: status, Policies: violated(checks),
		Title: "Request not satisfied due to detection of abnormal request pattern",
	}
}

// ReducedCapacity is the problem of a request that no store could decide.
func ReducedCapacity(status int) Problem {
	return Problem{
		Type: problemTypes + "temporary-reduced-capacity", Status: status,
		Title: "Request cannot be satisfied due to temporary server capacity constraints",
	}
}

// Write answers with the problem. A client that has left before the body is no error.
func (p Problem) Write(w http.ResponseWriter) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	beginBody(w.Header(), "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
	return nil
}

// violated names the policies that deny.
func violated(checks []limiter.Check) (names []string) {
	for i := range checks {
		if !checks[i].Result.Passes() {
			names = append(names, checks[i].Policy.Name())
		}
	}
	return names
}
