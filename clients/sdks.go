package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// answers are those of the APIs, by the end of a path. Each has the word that a call of its SDK returns.
var answers = []struct{ path, answer string }{
	{"/chat/completions", `{"id":"1","object":"chat.completion","created":1,"model":"lab","choices":[{"index":0,"finish_reason":"stop",` +
		`"message":{"role":"assistant","content":"right"}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`},
	{"/v1/messages", `{"id":"1","type":"message","role":"assistant","model":"lab","content":[{"type":"text","text":"right"}],` +
		`"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`},
	{"/v2/chat", `{"id":"1","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"right"}]}}`},
	{"/v1/customers", `{"id":"cus_lab","object":"customer"}`},
	{"/chat.postMessage", `{"ok":true,"channel":"right"}`},
	{"/repos/lab/lab", `{"id":1,"name":"right"}`},
	{"/projects/1", `{"id":1,"name":"right"}`},
	{"/users/@me", `{"id":"1","username":"right"}`},
	{"/Messages.json", `{"sid":"SM1","body":"right"}`},
	{"/word", `{"word":"right"}`},
}

// api answers for all APIs. What it does not know it says again, as the services of gRPC and Connect do.
func api(*run) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body := readAll(q)
		for _, a := range answers {
			if strings.HasSuffix(q.URL.Path, a.path) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprint(w, a.answer) // the client may have left
				return
			}
		}
		switch kind := q.Header.Get("Content-Type"); {
		case q.URL.Path == "/mcp":
			answerMCP(w, q.Method, body)
		case strings.HasPrefix(kind, "application/grpc"):
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = fmt.Fprint(w, body) // likewise
			w.Header().Set("Grpc-Status", "0")
		case strings.HasPrefix(kind, "application/connect+"):
			w.Header().Set("Content-Type", kind)
			_, _ = fmt.Fprint(w, body, "\x02\x00\x00\x00\x02{}") // the end of the stream
		case kind != "" && kind != "application/octet-stream":
			w.Header().Set("Content-Type", kind)
			_, _ = fmt.Fprint(w, body) // likewise
		default: // an object of S3
			_, _ = fmt.Fprint(w, "right") // likewise
		}
	})
}

var (
	goodCall  = regexp.MustCompile(`(?m)^\d ok$`)
	bogusCall = regexp.MustCompile(`(?m)^\d bogus `)
)

// calls is the number of calls of a job.
const calls = 4

// callJob has a program call an API four times, and counts the lines that tell of calls.
func callJob(words ...string) func(r *run) outcome {
	return func(r *run) outcome {
		exit := r.command(append(words, r.url)...)
		o := counted(exit, len(goodCall.FindAll(r.output.Bytes(), -1)), calls, "calls")
		o.sleeps = r.within > 0 && exit < 0
		o.refusal = bogusCall.Match(r.output.Bytes())
		return o
	}
}

// nodeClient is a client of node/, without a job.
func nodeClient(pack string) *client {
	file := "node/node_modules/" + pack + "/package.json"
	return &client{
		name: pack + " (node)", program: "node " + file, install: "(npm)",
		version: []string{"node", "-p", `require("{built}/` + file + `").version`},
	}
}

// node returns the words that run a program of node/ with these arguments. It is put beside the packages, where node looks for them.
func (r *run) node(words ...string) []string {
	for _, file := range []string{"run.mjs", "sdks.mjs", "senders.mjs"} {
		r.must("cp", filepath.Join(r.root, "clients", "node", file), filepath.Join(r.built, "node", file))
	}
	return append([]string{"node", filepath.Join(r.built, "node", words[0])}, words[1:]...)
}

// nodeSDK is a client of node/ that calls an API.
func nodeSDK(name, pack string) *client {
	c := nodeClient(pack)
	c.backend = api
	c.job = func(r *run) outcome { return callJob(r.node("run.mjs", name)...)(r) }
	return c
}

// goSDK is a client of gosdk/.
func goSDK(name, module string) *client {
	return &client{
		name: name + " (Go)", program: "gosdk", install: "(Go)", backend: api, job: callJob("gosdk", name),
		version: []string{"gosdk", "version", module},
	}
}

// with sets what a client has beside its name.
func with(c *client, change func(c *client)) *client {
	change(c)
	return c
}

// sdks are libraries.
func sdks() []*client {
	h2c := func(c *client) { c.h2c = true }
	stream := nodeSDK("connectStream", "@connectrpc/connect-node")
	stream.name = "@connectrpc/connect-node, stream (node)"
	hours := func(note string) func(c *client) { // a wait that is too long to sit out
		return func(c *client) { c.name, c.limit, c.within, c.note = "2 hours: "+c.name, "2 2h", 30*time.Second, note }
	}
	return []*client{
		nodeSDK("openai", "openai"),
		with(nodeSDK("openai", "openai"), hours("")),
		nodeSDK("anthropic", "@anthropic-ai/sdk"),
		with(nodeSDK("anthropic", "@anthropic-ai/sdk"), hours("")),
		nodeSDK("cohere", "cohere-ai"),
		nodeSDK("ai", "ai"),
		with(nodeSDK("ai", "ai"), hours("waits 2 and 4 s in place of a minute and more, whatever the answer says")),
		nodeSDK("langchain", "@langchain/openai"),
		with(nodeSDK("langchain", "@langchain/openai"), hours("")),
		nodeSDK("stripe", "stripe"),
		with(nodeSDK("stripe", "stripe"), func(c *client) {
			c.name, c.options = "answer problem: "+c.name, "algorithm sliding_window_log\nanswer problem"
		}),
		nodeSDK("s3", "@aws-sdk/client-s3"),
		with(nodeSDK("s3", "@aws-sdk/client-s3"), hours("waits for 5 s and its backoff at most")),
		nodeSDK("slack", "@slack/web-api"),
		with(nodeSDK("octokit", "octokit"), func(c *client) { c.note = "reads no Retry-After: waits 1, 4, 9 s" }),
		with(nodeSDK("gitbeaker", "@gitbeaker/rest"), func(c *client) { c.note = "reads no Retry-After" }),
		nodeSDK("discord", "@discordjs/rest"),
		nodeSDK("twilio", "twilio"),
		nodeSDK("got", "got"),
		nodeSDK("ky", "ky"),
		nodeSDK("axiosRetry", "axios-retry"),
		nodeSDK("connect", "@connectrpc/connect-node"),
		stream,
		with(nodeSDK("grpc", "@grpc/grpc-js"), h2c),
		goSDK("openai-go", "github.com/openai/openai-go/v3"),
		goSDK("anthropic-sdk-go", "github.com/anthropics/anthropic-sdk-go"),
		with(goSDK("anthropic-sdk-go", "github.com/anthropics/anthropic-sdk-go"), hours("")),
		goSDK("s3", "github.com/aws/aws-sdk-go-v2/service/s3"),
		with(goSDK("s3", "github.com/aws/aws-sdk-go-v2/service/s3"), hours("waits for 5 s and its backoff at most")),
		goSDK("connect-go", "connectrpc.com/connect"),
		with(goSDK("grpc-go", "google.golang.org/grpc"), h2c),
		goSDK("go-retryablehttp", "github.com/hashicorp/go-retryablehttp"),
		with(goSDK("go-github", "github.com/google/go-github/v84"), func(c *client) {
			c.spared, c.note = true, "sends nothing after `X-RateLimit-Remaining: 0`, until X-RateLimit-Reset"
		}),
		pythonSDK("requests"),
		pythonSDK("urllib3"),
	}
}

// pythonSDK is a library of Debian's Python.
func pythonSDK(name string) *client {
	const python = "/usr/bin/python3"
	return &client{
		name: name + " (Python)", program: python + " /usr/lib/python3/dist-packages/" + name + "/__init__.py",
		install: "python3-" + name, backend: api,
		version: []string{python, "-c", "import " + name + "; print(" + name + ".__version__)"},
		job: func(r *run) outcome {
			return callJob(python, filepath.Join(r.root, "clients", "python", "run.py"), name)(r)
		},
	}
}
