package answer

import (
	"net/http"
	"strconv"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/bodyvalue"
)

// The forms of JSON-RPC 2.0 and of MCP, which is built on it. Both have the status 200: the SDK of MCP for Go reads no body
// under 429, and what others show of it is its bytes. No SDK throws at a tool's result, so that the model reads what is wrong.
var (
	rpcError   = Form{contentType: callType, status: statusOK, append: appendCallError}
	toolResult = Form{contentType: callType, status: statusOK, append: appendToolResult}
)

// callType is the media type of requests that may be calls. Types that end in +json are those of other protocols, some of them
// of streams.
const callType = "application/json"

// isOfMCP reports whether a POST of JSON speaks MCP by its Streamable HTTP transport. The headers that are named for the
// protocol come with its later requests. What clients accept is told by all of them, the first one included.
func isOfMCP(q Request) bool {
	if len(q.Header["Mcp-Protocol-Version"]) > 0 || len(q.Header["Mcp-Method"]) > 0 {
		return true
	}
	a := readAccept(q.Header["Accept"])
	return !a.page && a.events && a.json > 0
}

// callForm returns the form that answers the call of a request, which may be one of MCP. The line of text answers what has no
// id that an answer could have: a batch, a notification, and what is no call. An answer with the id null would end the session
// of MCP's SDK for Go.
func callForm(q Request, r Refusal, ofMCP bool) *Form {
	switch {
	case q.Call.Kind() != bodyvalue.CallRequest || causes[r.Cause].rpc == 0:
		return &text
	case ofMCP && q.Call.Method() == "tools/call":
		return &toolResult
	}
	return &rpcError
}

// appendCallError appends an error (specification 2.0, section 5.1). What it has of the wait is the number of Retry-After,
// which no SDK of MCP shows.
func appendCallError(body []byte, _ http.Header, q Request, r Refusal) []byte {
	body = append(appendID(body, q), `,"error":{"code":`...)
	body = strconv.AppendInt(body, int64(causes[r.Cause].rpc), 10)
	body = append(r.appendSentence(append(body, `,"message":"`...)), '"')
	before := `,"data":{`
	if seconds := r.Wait.Seconds(); seconds > 0 {
		body = strconv.AppendInt(append(append(body, before...), `"retry_after":`...), seconds, 10)
		before = ","
	}
	if r.Cause.isDenial() {
		body = append(append(append(append(body, before...), `"policy":"`...), r.policy()...), '"')
		body = r.Lack.appendMembers(body, ",")
		before = ","
	}
	if before == "," {
		body = append(body, '}')
	}
	return append(body, "}}"...)
}

// appendToolResult appends the result of a tool that has failed (MCP, "Tools", "Error Handling"). Clients of the version
// 2026-07-28 need resultType.
func appendToolResult(body []byte, _ http.Header, q Request, r Refusal) []byte {
	body = append(appendID(body, q), `,"result":{"resultType":"complete","isError":true,"content":[{"type":"text","text":"`...)
	return append(r.appendSentence(body), `"}]}}`...)
}

// appendID begins a response with the id of the call, which is JSON as it stands in the request.
func appendID(body []byte, q Request) []byte {
	return append(append(body, `{"jsonrpc":"2.0","id":`...), q.Call.ID()...)
}
