package requests

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// TestGRPC_trailersOnly reads the frames of a denial: one HEADERS with END_STREAM.
func TestGRPC_trailersOnly(t *testing.T) {
	t.Parallel()
	n := startGRPCNode(t, "", "encode gzip\n"+fmt.Sprintf(grpcLimit, "")+"respond ok")
	for sent, want := range map[string]string{"application/grpc": "application/grpc", "Application/GRPC+Proto; a=b": "application/grpc+proto"} {
		for _, path := range []string{"/passes", "/denied"} {
			frame := firstHeaders(t, n.addresses["h2c"], path, sent)
			got := map[string]string{}
			for _, field := range frame.Fields {
				got[field.Name] += field.Value
			}
			switch {
			case path == "/passes" && got["grpc-status"] != "":
				t.Errorf("got %v", got)
			case path == "/denied" && (!frame.StreamEnded() || got[":status"] != "200" || got["content-type"] != want || got["grpc-status"] != "8" || got["content-encoding"] != ""):
				t.Errorf("got %v, END_STREAM %v; want trailers alone", got, frame.StreamEnded())
			}
		}
	}
}

// firstHeaders begins a call that streams, and returns the first headers of the response.
func firstHeaders(t *testing.T, addr, path, contentType string) *http2.MetaHeadersFrame {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the call ends with it
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", http.MethodPost}, {":scheme", "http"}, {":authority", addr}, {":path", path},
		{"content-type", contentType}, {"te", "trailers"}, {"x-key", contentType}, {"accept-encoding", "gzip"},
	} {
		if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
			t.Fatal(err)
		}
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = conn.Write([]byte(http2.ClientPreface))
	err = errors.Join(err, framer.WriteSettings(),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true}))
	if path == "/passes" {
		err = errors.Join(err, framer.WriteData(1, true, nil))
	}
	for err == nil {
		var frame http2.Frame
		if frame, err = framer.ReadFrame(); err == nil {
			if headers, ok := frame.(*http2.MetaHeadersFrame); ok {
				return headers
			}
		}
	}
	t.Fatal(err)
	return nil
}

// TestGRPC_otherTypes sends content types that no client of gRPC sends, which are refused as any other.
func TestGRPC_otherTypes(t *testing.T) {
	t.Parallel()
	n := caddytest.Start(t, caddytest.Config("", fmt.Sprintf(grpcLimit, "")+"respond ok\nhandle_errors {\nrespond refused\n}"))
	n.Send(t, http.MethodPost, n.URL, "", "X-Key: k")
	for _, contentType := range []string{
		"", "application/json", "application/grpcs", "application/grpc+", "application/grpc+<script>alert(1)</script>",
		"application/grpc; \"", "application/grpc-evil", "application/grpc,text/html", "text/html; application/grpc", "application/grpc+" + strings.Repeat("x", 10_000),
	} {
		a := n.Send(t, http.MethodPost, n.URL, "", "X-Key: k", "Content-Type: "+contentType)
		caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
		if a.Body != "refused" || a.Header.Get("Grpc-Status") != "" || strings.Contains(a.Header.Get("Content-Type"), "grpc") {
			t.Errorf("%.40q: got %v", contentType, a)
		}
	}
	a := n.Send(t, http.MethodPost, n.URL, "", "X-Key: k", "Content-Type: application/grpc", "Content-Type: text/html")
	caddytest.CheckRefusal(t, a, http.StatusTooManyRequests)
}
