package main

import (
	"encoding/json"
	"net/http"
)

// answerMCP answers as a server of the model context protocol with one tool, by the versions from 2025 and of 2026.
func answerMCP(w http.ResponseWriter, method, body string) {
	var asked struct {
		ID     any
		Method string
		Params struct{ ProtocolVersion string }
	}
	_ = json.Unmarshal([]byte(body), &asked) // a GET has no body
	switch {
	case method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case asked.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	server, tools := map[string]string{"name": "lab", "version": "1"}, map[string]any{"tools": map[string]any{}}
	var result map[string]any
	switch asked.Method {
	case "initialize":
		result = map[string]any{"protocolVersion": asked.Params.ProtocolVersion, "capabilities": tools, "serverInfo": server}
	case "server/discover":
		result = map[string]any{
			"supportedVersions": []string{"2026-07-28"}, "capabilities": tools, "ttlMs": 0, "cacheScope": "private",
			"_meta": map[string]any{"io.modelcontextprotocol/serverInfo": server},
		}
	default:
		result = map[string]any{"content": []any{map[string]string{"type": "text", "text": "right"}}}
	}
	result["resultType"] = "complete"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": asked.ID, "result": result}) // the client may have left
}

// mcpSDKs are the official libraries of the model context protocol. Their third call of a tool is refused: before the first
// they send three requests by the versions of 2025, and one by that of 2026.
func mcpSDKs() []*client {
	limited := func(c *client, name, limit string) *client {
		c.name, c.limit, c.note = name, limit, "the model reads the tool's result"
		return c
	}
	const goModule = "github.com/modelcontextprotocol/go-sdk"
	return []*client{
		limited(nodeSDK("mcp", "@modelcontextprotocol/sdk"), "@modelcontextprotocol/sdk (node)", "5 3s"),
		limited(nodeSDK("mcp2", "@modelcontextprotocol/client"), "@modelcontextprotocol/client (node)", "5 3s"),
		limited(nodeSDK("mcp2Auto", "@modelcontextprotocol/client"), "@modelcontextprotocol/client, 2026 (node)", "3 3s"),
		limited(goSDK("mcp", goModule), "MCP's go-sdk, 2026 (Go)", "3 3s"),
		limited(goSDK("mcp-2025-11-25", goModule), "MCP's go-sdk, 2025 (Go)", "5 3s"),
	}
}
