package requests

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	echo "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// grpcService is a service behind Caddy that accepts every call.
type grpcService struct {
	echo.UnimplementedTestServiceServer
	addr  string
	calls atomic.Int64 // that have reached it
}

func startGRPCService(t *testing.T) *grpcService {
	t.Helper()
	listener := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &grpcService{addr: listener.Addr().String()}
	server := grpc.NewServer()
	echo.RegisterTestServiceServer(server, s)
	go func() { _ = server.Serve(listener) }() // until Stop closes the listener
	t.Cleanup(server.Stop)
	return s
}

func (s *grpcService) EmptyCall(context.Context, *echo.Empty) (*echo.Empty, error) {
	s.calls.Add(1)
	return &echo.Empty{}, nil
}

func (s *grpcService) StreamingOutputCall(_ *echo.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[echo.StreamingOutputCallResponse]) error {
	s.calls.Add(1)
	for range 3 {
		if err := stream.Send(&echo.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *grpcService) StreamingInputCall(stream grpc.ClientStreamingServer[echo.StreamingInputCallRequest, echo.StreamingInputCallResponse]) error {
	s.calls.Add(1)
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return stream.SendAndClose(&echo.StreamingInputCallResponse{})
		} else if err != nil {
			return err
		}
	}
}

func (s *grpcService) FullDuplexCall(stream grpc.BidiStreamingServer[echo.StreamingOutputCallRequest, echo.StreamingOutputCallResponse]) error {
	s.calls.Add(1)
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(&echo.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// grpcCalls make a call of each kind. Streams send until the response ends them.
var grpcCalls = map[string]func(ctx context.Context, c echo.TestServiceClient, options ...grpc.CallOption) error{
	"unary": func(ctx context.Context, c echo.TestServiceClient, options ...grpc.CallOption) error {
		_, err := c.EmptyCall(ctx, &echo.Empty{}, options...)
		return err
	},
	"server_stream": func(ctx context.Context, c echo.TestServiceClient, options ...grpc.CallOption) error {
		stream, err := c.StreamingOutputCall(ctx, &echo.StreamingOutputCallRequest{}, options...)
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	},
	"client_stream": func(ctx context.Context, c echo.TestServiceClient, options ...grpc.CallOption) error {
		stream, err := c.StreamingInputCall(ctx, options...)
		if err != nil {
			return err
		}
		for range 100 {
			if stream.Send(&echo.StreamingInputCallRequest{Payload: &echo.Payload{Body: make([]byte, 10_000)}}) != nil {
				break // CloseAndRecv has the reason
			}
		}
		_, err = stream.CloseAndRecv()
		return err
	},
	"bidirectional": func(ctx context.Context, c echo.TestServiceClient, options ...grpc.CallOption) error {
		stream, err := c.FullDuplexCall(ctx, options...)
		if err != nil {
			return err
		}
		for range 3 {
			_ = stream.Send(&echo.StreamingOutputCallRequest{}) // Recv has the reason
			if _, err := stream.Recv(); err != nil {
				return err
			}
		}
		if err := stream.CloseSend(); err != nil {
			return err
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			return err
		}
		return nil
	},
}

// dial returns a client of the service by a transport. Without a service configuration it has no retry policy.
func (n *versionsNode) dial(t *testing.T, transport, serviceConfig string) echo.TestServiceClient {
	t.Helper()
	security := insecure.NewCredentials()
	if transport == "TLS" {
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, ServerName: "localhost"})
	}
	if serviceConfig == "" {
		serviceConfig = "{}"
	}
	connection, err := grpc.NewClient(n.addresses[transport], grpc.WithTransportCredentials(security),
		grpc.WithDefaultServiceConfig(serviceConfig), grpc.WithDefaultCallOptions(grpc.WaitForReady(true))) // until the certificate is issued
	assert.Must(t, err)
	t.Cleanup(func() { _ = connection.Close() }) // what is open ends with it
	return echo.NewTestServiceClient(connection)
}

// withKey returns a context whose calls have a key, and end after half a minute.
func withKey(t *testing.T, key string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "x-key", key)
}
