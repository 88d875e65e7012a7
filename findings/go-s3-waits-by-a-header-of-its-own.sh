#!/usr/bin/env bash
# AWS's SDK for Go ignores the Retry-After of S3, and waits by X-Amz-Retry-After, in milliseconds. AWS's SDK for node, run by
# hand, obeys both.
#
# Seen on 2026-11-28 with service/s3 v1.114.10 and Go 1.26.8: "Retry-After: 3 ignored, X-Amz-Retry-After: 3000 obeyed", with
# less than a second between two requests where it was ignored.
# Guess: Retry-After is obeyed, as in the same company's SDK for node.
# Follows from it: the form of refusals for S3 has both headers: docs/responses.md, "Bodies of denials";
# internal/answer/s3.go.
# Ground: clients
#
# Use: go-s3-waits-by-a-header-of-its-own.sh [version of the Go module]. Needs Go.
set -euo pipefail
version=${1:-v1.114.10}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >go.mod <<'END'
module finding

go 1.26
END
cat >main.go <<'END'
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func main() {
	fmt.Printf("Retry-After: 3 %s, X-Amz-Retry-After: 3000 %s\n", try("Retry-After", "3"), try("X-Amz-Retry-After", "3000"))
}

func try(header, value string) string {
	var times []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		times = append(times, time.Now())
		if len(times) > 1 {
			return
		}
		w.Header().Set(header, value)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "<Error><Code>SlowDown</Code><Message>Too many requests.</Message></Error>")
	}))
	defer server.Close()
	client := s3.New(s3.Options{
		BaseEndpoint: &server.URL, Region: "us-east-1", UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "finding", SecretAccessKey: "finding"}, nil
		}),
	})
	_, err := client.GetObject(context.Background(), &s3.GetObjectInput{Bucket: aws.String("finding"), Key: aws.String("finding")})
	switch {
	case err != nil || len(times) != 2:
		return fmt.Sprintf("failed after %d requests: %v", len(times), err)
	case times[1].Sub(times[0]) < 2500*time.Millisecond:
		return "ignored"
	}
	return "obeyed"
}
END
go get "github.com/aws/aws-sdk-go-v2/service/s3@$version" >get.log 2>&1 || { cat get.log; exit 1; }
go mod tidy >tidy.log 2>&1 || { cat tidy.log; exit 1; }
go list -m github.com/aws/aws-sdk-go-v2/service/s3
got=$(go run .)
echo "$got"
[ "$got" = 'Retry-After: 3 ignored, X-Amz-Retry-After: 3000 obeyed' ] || { echo 'it has changed'; exit 1; }
