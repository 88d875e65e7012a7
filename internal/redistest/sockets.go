package redistest

import (
	"bufio"
	"fmt"
	"iter"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

// Socket is a TCP socket of IPv4 as Linux lists it.
type Socket struct {
	Own, Peer string // its port and that of its peer, as PortOf writes them
	State     string // 01 is a connection, 0A listens
}

// PortOf returns the port of an address as Linux lists it, four hexadecimal digits.
func PortOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	return fmt.Sprintf("%04X", number)
}

// Sockets reads the sockets from Linux. Those that listen come first.
func Sockets(t testing.TB) iter.Seq[Socket] {
	t.Helper()
	return func(yield func(Socket) bool) {
		file := assert.NoError(os.Open("/proc/net/tcp"))(t)
		defer file.Close() //nolint:errcheck // it is only read
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			fields := strings.Fields(lines.Text()) // number, own address, the peer's, state
			_, own, listed := strings.Cut(fields[1], ":")
			_, peer, _ := strings.Cut(fields[2], ":")
			if listed && !yield(Socket{own, peer, fields[3]}) {
				return
			}
		}
		assert.Must(t, lines.Err())
	}
}

// Listening counts the sockets that listen on the port of an address, on any address of IPv4.
func Listening(t testing.TB, address string) (count int) {
	t.Helper()
	port := PortOf(address)
	for s := range Sockets(t) {
		if s.State != "0A" {
			break
		}
		if s.Own == port {
			count++
		}
	}
	return count
}

// Connections returns the ids of the client connections, without the test's own.
func (s *Server) Connections(t testing.TB) []string {
	t.Helper()
	client := s.Client(t)
	list := assert.NoError(client.ClientList(t.Context()).Result())(t)
	assert.Must(t, client.Close())
	var ids []string
	for _, line := range regexp.MustCompile(`(?m)^id=(\d+).*$`).FindAllStringSubmatch(list, -1) {
		if !strings.Contains(line[0], "cmd=client") {
			ids = append(ids, line[1])
		}
	}
	slices.Sort(ids)
	return ids
}
