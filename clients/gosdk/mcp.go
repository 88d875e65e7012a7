package main

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpTool calls a tool by a version of the protocol; the newest if the version is empty. The text of a failed tool is what
// the model reads: here it is an error.
func mcpTool(version string) func(url string) func(ctx context.Context) (string, error) {
	return func(url string) func(ctx context.Context) (string, error) {
		client := mcp.NewClient(&mcp.Implementation{Name: "lab", Version: "1.0.0"}, nil)
		transport := &mcp.StreamableClientTransport{Endpoint: url + "/mcp"}
		session, err := client.Connect(context.Background(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
		return func(ctx context.Context) (string, error) {
			if err != nil {
				return "", err
			}
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "word"})
			if err != nil {
				return "", err
			}
			text, isText := result.Content[0].(*mcp.TextContent)
			switch {
			case !isText:
				return "", errors.New("the tool's result is no text")
			case result.IsError:
				return "", errors.New(text.Text)
			}
			return text.Text, nil
		}
	}
}
