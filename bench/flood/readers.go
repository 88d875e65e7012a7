package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
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
func (r *runOf) readSlowly(ctx context.Context) { r.startReaders(ctx, false) }

// readWithPasses is flood E+: readers that are refused do what the page wants, as a browser does.
func (r *runOf) readWithPasses(ctx context.Context) { r.startReaders(ctx, true) }

func (r *runOf) startReaders(ctx context.Context, follow bool) {
	random := newRandom(r.seed, ofReaders)
	for i := range slowReaders {
		b := newClient(r.site, ofFloods, fmt.Sprintf("198.51.%d.9", i), chrome).keepCookies()
		b.asks, b.waits, b.loads = browserPage, follow, follow
		go r.readAgain(ctx, b, rand.New(rand.NewPCG(random.Uint64(), uint64(i))))
	}
}

func (r *runOf) readAgain(ctx context.Context, b *client, random *rand.Rand) {
	for sleep(ctx, between(random, 0, 3*time.Second)) == nil {
		began := time.Now()
		came := r.readOnce(ctx, b)
		r.tally.bot(r.at(began), came)
		if !came && b.waits {
			_, _, _ = b.open(ctx, host+"/") // for its pass
		}
	}
}

// readOnce asks for the large answer, reads it slowly, and reports whether it was a page.
func (r *runOf) readOnce(ctx context.Context, b *client) (isPage bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+bigPath, http.NoBody)
	if err != nil {
		return false
	}
	request.Close = true
	maps.Copy(request.Header, b.asks)
	maps.Copy(request.Header, b.header)
	for _, cookie := range b.jar.Cookies(request.URL) {
		request.AddCookie(cookie)
	}
	connection, err := r.site.dial(ctx, &net.Dialer{Control: narrow})
	if err != nil {
		return false
	}
	defer connection.Close() //nolint:errcheck // it was only read
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	if request.Write(connection) != nil {
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
