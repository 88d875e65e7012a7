// Command gosdk calls an API with an SDK: gosdk SDK URL. Each call is told in a line: ok, bogus (it returned something
// else than data), or error. The first error ends the job. gosdk version MODULE prints the version of a module.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
)

// sdks return a function that does one call and returns the word that the backend answers.
var sdks = map[string]func(url string) func(ctx context.Context) (string, error){
	"openai-go":        openAI,
	"anthropic-sdk-go": anthropicSDK,
	"s3":               s3Object,
	"connect-go":       connectWord,
	"grpc-go":          grpcWord,
	"go-retryablehttp": retryable,
	"go-github":        gitHub,
	"mcp":              mcpTool(""),
	"mcp-2025-11-25":   mcpTool("2025-11-25"),
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gosdk SDK URL")
		os.Exit(2)
	}
	if os.Args[1] == "version" {
		info, _ := debug.ReadBuildInfo()
		for _, m := range info.Deps {
			if m.Path == os.Args[2] {
				fmt.Println(m.Version)
			}
		}
		return
	}
	call := sdks[os.Args[1]](os.Args[2])
	for i := 1; i <= 4; i++ {
		switch word, err := call(context.Background()); {
		case err != nil:
			fmt.Printf("%d error %T: %v\n", i, err, err)
			os.Exit(1)
		case word == "right":
			fmt.Println(i, "ok")
		default:
			fmt.Println(i, "bogus", word)
		}
	}
}
