package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-github/v84/github"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func openAI(url string) func(ctx context.Context) (string, error) {
	client := openai.NewClient(openaioption.WithAPIKey("lab"), openaioption.WithBaseURL(url+"/v1"))
	return func(ctx context.Context) (string, error) {
		completion, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
			Model: "lab", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("word")},
		})
		if err != nil || len(completion.Choices) == 0 {
			return "", err
		}
		return completion.Choices[0].Message.Content, nil
	}
}

func anthropicSDK(url string) func(ctx context.Context) (string, error) {
	client := anthropic.NewClient(anthropicoption.WithAPIKey("lab"), anthropicoption.WithBaseURL(url))
	return func(ctx context.Context) (string, error) {
		message, err := client.Messages.New(ctx, anthropic.MessageNewParams{
			Model: "lab", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("word"))},
		})
		if err != nil || len(message.Content) == 0 {
			return "", err
		}
		return message.Content[0].Text, nil
	}
}

func s3Object(url string) func(ctx context.Context) (string, error) {
	client := s3.New(s3.Options{
		BaseEndpoint: &url, Region: "us-east-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("lab", "lab", ""),
	})
	return func(ctx context.Context) (string, error) {
		object, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("lab"), Key: aws.String("object")})
		if err != nil {
			return "", err
		}
		content, err := io.ReadAll(object.Body)
		return string(content), err
	}
}

func connectWord(url string) func(ctx context.Context) (string, error) {
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](http.DefaultClient, url+"/lab.Lab/Say")
	return func(ctx context.Context) (string, error) {
		answer, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String("right")))
		if err != nil {
			return "", err
		}
		return answer.Msg.GetValue(), nil
	}
}

// retryPolicy is a client's own: without one grpc-go never retries.
const retryPolicy = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.1s","maxBackoff":"1s",` +
	`"backoffMultiplier":2,"retryableStatusCodes":["RESOURCE_EXHAUSTED","UNAVAILABLE"]}}]}`

func grpcWord(url string) func(ctx context.Context) (string, error) {
	conn, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(retryPolicy))
	return func(ctx context.Context) (string, error) {
		if err != nil {
			return "", err
		}
		answer := &wrapperspb.StringValue{}
		err := conn.Invoke(ctx, "/lab.Lab/Say", wrapperspb.String("right"), answer)
		return answer.GetValue(), err
	}
}

func retryable(url string) func(ctx context.Context) (string, error) {
	client := retryablehttp.NewClient()
	client.Logger = nil
	return func(context.Context) (string, error) {
		response, err := client.Get(url + "/word")
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		var answer struct{ Word string }
		err = json.NewDecoder(response.Body).Decode(&answer)
		return answer.Word, err
	}
}

func gitHub(site string) func(ctx context.Context) (string, error) {
	client := github.NewClient(nil)
	base, parseErr := url.Parse(site + "/")
	client.BaseURL = base
	return func(ctx context.Context) (string, error) {
		if parseErr != nil {
			return "", parseErr
		}
		repository, _, err := client.Repositories.Get(ctx, "lab", "lab")
		return repository.GetName(), err
	}
}
