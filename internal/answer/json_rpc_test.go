package answer

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// TestCalls has calls of JSON-RPC, and what they get by each answer.
func TestCalls(t *testing.T) {
	const (
		notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		batch        = `[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]`
	)
	plain := []string{"POST /", isJSONBody}
	mcp := []string{"POST /", isJSONBody, acceptsMCP}
	with := func(head []string, lines ...string) []string { return append(head[:len(head):len(head)], lines...) }
	r := refusals(t)["limited"]
	for name, test := range map[string]struct {
		head          []string
		body          string
		auto, jsonRPC string
	}{
		"a tool":                 {mcp, callBody("tools/call"), "tool result", "tool result"},
		"tools":                  {mcp, callBody("tools/list"), "rpc error", "rpc error"},
		"an id of null":          {mcp, `{"jsonrpc":"2.0","id":null,"method":"tools/call"}`, "text", "text"},
		"a notification":         {mcp, notification, "text", "text"},
		"a batch":                {mcp, batch, "text", "text"},
		"a response":             {mcp, `{"jsonrpc":"2.0","id":1,"result":{}}`, "text", "text"},
		"an older version":       {mcp, `{"version":"1.1","id":1,"method":"tools/call"}`, "text", "text"},
		"no MCP":                 {plain, callBody("tools/call"), "json", "rpc error"},
		"no MCP, a notification": {plain, notification, "json", "text"},
		"no MCP, a batch":        {plain, batch, "json", "text"},
		"a page":                 {with(plain, "Accept: text/html, application/json, text/event-stream"), callBody("a"), "text", "rpc error"},
		"an event stream alone":  {with(plain, "Accept: text/event-stream"), callBody("a"), "text", "rpc error"},
		"two lines of Accept":    {with(plain, "Accept: application/json", "Accept: text/event-stream"), callBody("a"), "rpc error", "rpc error"},
		"Connect":                {with(mcp, "Connect-Protocol-Version: 1"), callBody("a"), "connect", "rpc error"},
		"text":                   {[]string{"POST /", "Content-Type: text/plain", acceptsMCP}, callBody("a"), "text", "text"},
		"no type":                {[]string{"POST /", acceptsMCP}, callBody("a"), "text", "text"},
		"two types":              {with(mcp, isJSONBody), callBody("a"), "text", "text"},
		"a stream of Connect": {
			[]string{"POST /", "Content-Type: application/connect+json", acceptsMCP}, callBody("a"), "connect stream of json", "text",
		},
		"another method of HTTP": {[]string{"PUT /", isJSONBody, acceptsMCP}, callBody("a"), "text", "text"},
		"GET of MCP":             {[]string{"GET /", isJSONBody, acceptsMCP, "Mcp-Method: tools/call"}, callBody("tools/call"), "text", "text"},
		"parameters of the type": {
			[]string{"POST /", "Content-Type: Application/JSON; charset=utf-8", "Mcp-Protocol-Version: "}, callBody("a"), "rpc error", "rpc error",
		},
		"a tool, with a signature": {
			with(mcp, "Authorization: AWS4-HMAC-SHA256 Credential=AKID/1/us-east-1/s3/aws4_request"),
			callBody("tools/call"), "tool result", "tool result",
		},
	} {
		for answer, want := range map[Preference]string{
			answerAuto: test.auto, AnswerDefault: test.auto, answerJSONRPC: test.jsonRPC, answerText: "text",
		} {
			q := request(t, test.head...)
			if q.Method == http.MethodPost && answer.ReadsCall(q, r) {
				q.Call = bodyvalue.ReadCall([]byte(test.body))
			}
			assert.Equal(t, formNames[answer.Form(q, r)], want, "%s, by %q", name, answer)
		}
	}
}

// TestAnswer_ReadsCall reads no body where the form does not depend on the call.
func TestAnswer_ReadsCall(t *testing.T) {
	q := request(t, "POST /", isJSONBody, acceptsMCP)
	for cause, r := range refusals(t) {
		want := cause != "early" && cause != "gone"
		for answer, want := range map[Preference]bool{
			answerAuto: want, AnswerDefault: want, answerJSONRPC: want,
			answerText: false, answerJSON: false, answerProblem: false, answerNone: false, answerError: false,
		} {
			assert.Equal(t, answer.ReadsCall(q, r), want, "%s, %q", cause, answer)
		}
	}
	r := refusals(t)["limited"]
	assert.ErrorIf(t, answerAuto.ReadsCall(request(t, "POST /", isJSONBody), r), "a body is read of a request that is none of MCP")
	connect := request(t, "POST /", isJSONBody, acceptsMCP, "Connect-Protocol-Version: 1")
	assert.ErrorIf(t, answerAuto.ReadsCall(connect, r), "the body of a call of Connect is read")
}

// TestCalls_answers reads answers as clients do: the id is the one that was sent, and the status that others judge by is the
// refusal's.
func TestCalls_answers(t *testing.T) {
	type answer struct {
		JSONRPC string
		ID      json.RawMessage
		Error   *struct {
			Code    int
			Message string
			Data    *struct {
				RetryAfter int64 `json:"retry_after"`
				Policy     string
			}
		}
		Result *struct {
			ResultType string
			IsError    bool
			Content    []struct{ Type, Text string }
		}
	}
	codes := map[Cause]int{
		Limited: -32000, Crowded: -32000, Banned: -32000, Unavailable: -32010, held: -32010, late: -32010, slow: -32010,
		incomplete: -32011, tooLarge: -32011, unsupported: -32011,
	}
	for cause, r := range refusals(t) {
		if !fits(&rpcError, r.Cause) {
			continue
		}
		for _, method := range []string{"tools/call", "tools/list"} {
			q := request(t, "POST /", isJSONBody, acceptsMCP, callBody(method))
			form := answerAuto.Form(q, r)
			w := answered(q, r, form)
			var got answer
			assert.Must(t, json.Unmarshal(w.Body.Bytes(), &got))
			assert.Equal(t, w.Code, http.StatusOK, "%s, %s: the status", cause, method)
			assert.ErrorIf(t, form.GoesFirst(r), "%s, %s: goes before error routes", cause, method)
			assert.Equal(t, string(got.ID), `"a\"\u00e9"`, "%s, %s: the id", cause, method)
			assert.Equal(t, got.JSONRPC, "2.0", "%s, %s: the version", cause, method)
			sentence := string(r.appendSentence(nil))
			if method == "tools/call" {
				result := got.Result
				assert.FatalIf(t, result == nil || got.Error != nil || len(result.Content) != 1, "%s: got %s", cause, w.Body)
				assert.ErrorIf(t, !result.IsError || result.ResultType != "complete" || result.Content[0].Type != "text", "%s: got %s", cause, w.Body)
				assert.Equal(t, result.Content[0].Text, sentence, "%s: the text", cause)
				continue
			}
			assert.FatalIf(t, got.Error == nil || got.Result != nil, "%s: got %s", cause, w.Body)
			assert.Equal(t, got.Error.Code, codes[r.Cause], "%s: the code", cause)
			assert.Equal(t, got.Error.Message, sentence, "%s: the message", cause)
			data := got.Error.Data
			hasData := r.Cause.isDenial() || r.Wait.Seconds() > 0
			assert.FatalIf(t, (data != nil) != hasData, "%s: the data is %+v", cause, data)
			if hasData {
				assert.Equal(t, data.RetryAfter, r.Wait.Seconds(), "%s: the seconds", cause)
				assert.Equal(t, data.Policy != "", r.Cause.isDenial(), "%s: a policy is named", cause)
			}
		}
	}
}
