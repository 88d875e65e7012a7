package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Slow readers: each asks for 8 MB again and again, and reads 2 kB a second.
const (
	slowReaders = 200
	bigPath     = "/big"
	pieceOf     = 1024
	pieceEvery  = 500 * time.Millisecond
)

// readSlowly is flood E.
func (r *runOf) readSlowly(ctx context.Context) {
	random := newRandom(r.seed, ofReaders)
	for i := range slowReaders {
		go r.readAgain(ctx, fmt.Sprintf("198.51.100.%d", i), rand.New(rand.NewPCG(random.Uint64(), uint64(i))))
	}
}

func (r *runOf) readAgain(ctx context.Context, address string, random *rand.Rand) {
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: shop.test\r\n%s: %s\r\nX-Forwarded-For: %s\r\nAccept: text/html\r\n"+
		"User-Agent: %s\r\nConnection: close\r\n\r\n", bigPath, classHeader, ofFloods, address, chrome)
	for sleep(ctx, between(random, 0, 3*time.Second)) == nil {
		began := time.Now()
		r.tally.bot(r.at(began), r.readOnce(ctx, request))
	}
}

// readOnce sends a request, reads its answer slowly, and reports whether it was a page.
func (r *runOf) readOnce(ctx context.Context, request []byte) (isPage bool) {
	connection, err := r.site.dial(ctx, &net.Dialer{Control: narrow})
	if err != nil {
		return false
	}
	defer connection.Close() //nolint:errcheck // it was only read
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	if _, err := connection.Write(request); err != nil {
		return false
	}
	return drain(ctx, connection)
}

// drain reads an answer to its end or the context's.
func drain(ctx context.Context, answer io.Reader) (isPage bool) {
	piece := make([]byte, pieceOf)
	for first := true; ; first = false {
		n, err := answer.Read(piece)
		if first {
			isPage = bytes.HasPrefix(piece[:n], []byte("HTTP/1.1 200"))
		}
		if err != nil || sleep(ctx, pieceEvery) != nil {
			return isPage
		}
	}
}

// narrow gives a connection a small window and the segments of a network: over loopback, whose segments are 64 kB, the
// server's side would take megabytes of an answer at once, which is nothing that slow readers can have.
func narrow(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		if failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); failed == nil {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1448)
		}
	})
	if err != nil {
		return err
	}
	return failed
}
