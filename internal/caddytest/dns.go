package caddytest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// DNSServer is a DNS server of a test.
type DNSServer struct {
	Addr string       // its address and port
	TCP  atomic.Int64 // questions by TCP

	answer func(q DNSQuestion) DNSReply
	mu     sync.Mutex
	asked  []DNSQuestion
}

// DNSQuestion is a question: its type, such as PTR, and its name with a dot at the end.
type DNSQuestion struct{ Type, Name string }

// DNSReply is an answer. The zero value says that the name exists and has nothing of the type.
type DNSReply struct {
	RCode     dnsmessage.RCode
	Delay     time.Duration
	Drop      bool // there is no answer
	Truncated bool // by UDP
	CNAME     string
	PTR       []string
	Addresses []string // those of the type that is asked for are answered
}

// DNSNames answers by names of addresses: the PTR of each, and the addresses of each name. All others do not exist.
func DNSNames(names map[string]string) func(DNSQuestion) DNSReply {
	ptr, addresses := map[string]DNSReply{}, map[string]DNSReply{}
	for address, name := range names {
		name = strings.TrimSuffix(name, ".") + "."
		ptr[ReverseName(address)] = DNSReply{PTR: []string{name}}
		known := addresses[name]
		known.Addresses = append(known.Addresses, address)
		addresses[name] = known
	}
	return func(q DNSQuestion) DNSReply {
		known := addresses
		if q.Type == "PTR" {
			known = ptr
		}
		if reply, found := known[strings.ToLower(q.Name)]; found {
			return reply
		}
		return DNSReply{RCode: dnsmessage.RCodeNameError}
	}
}

// ReverseName returns the name that has the PTR of an address.
func ReverseName(address string) string {
	a, name := netip.MustParseAddr(address), ""
	if a.Is4() {
		for _, b := range a.As4() {
			name = strconv.Itoa(int(b)) + "." + name
		}
		return name + "in-addr.arpa."
	}
	const digits = "0123456789abcdef"
	for _, b := range a.As16() {
		name = string(digits[b&15]) + "." + string(digits[b>>4]) + "." + name
	}
	return name + "ip6.arpa."
}

// StartDNS starts a server, which ends with the test.
func StartDNS(t testing.TB, answer func(DNSQuestion) DNSReply) *DNSServer {
	t.Helper()
	s := &DNSServer{answer: answer}
	packets, streams := listen(t)
	s.Addr = packets.LocalAddr().String()
	t.Cleanup(func() {
		_ = packets.Close()
		_ = streams.Close()
	})
	go s.servePackets(packets)
	go s.serveStreams(streams)
	return s
}

// listen returns sockets of both kinds on one port.
func listen(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if streams, err := net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, streams
		}
		_ = packets.Close()
	}
	t.Fatal("no port is free for UDP and TCP")
	return nil, nil
}

func (s *DNSServer) servePackets(packets net.PacketConn) {
	for {
		buffer := make([]byte, 4096)
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		go func() {
			if out := s.respond(buffer[:n], false); out != nil {
				_, _ = packets.WriteTo(out, from)
			}
		}()
	}
}

func (s *DNSServer) serveStreams(streams net.Listener) {
	for {
		c, err := streams.Accept()
		if err != nil {
			return
		}
		go s.serveStream(c)
	}
}

func (s *DNSServer) serveStream(c net.Conn) {
	defer func() { _ = c.Close() }()
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(c, question); err != nil {
		return
	}
	s.TCP.Add(1)
	if out := s.respond(question, true); out != nil {
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)) //nolint:gosec // it is a packet
	}
}

// respond returns the packet of an answer; nil: there is none.
func (s *DNSServer) respond(packet []byte, byTCP bool) []byte {
	var asked dnsmessage.Message
	if asked.Unpack(packet) != nil || len(asked.Questions) != 1 {
		return nil
	}
	q := DNSQuestion{strings.TrimPrefix(asked.Questions[0].Type.String(), "Type"), asked.Questions[0].Name.String()}
	s.mu.Lock()
	s.asked = append(s.asked, q)
	s.mu.Unlock()
	reply := s.answer(q)
	if reply.Delay > 0 {
		<-time.After(reply.Delay)
	}
	if reply.Drop {
		return nil
	}
	out := dnsmessage.Message{Questions: asked.Questions, Header: dnsmessage.Header{
		ID: asked.ID, Response: true, RecursionAvailable: true, RecursionDesired: true, RCode: reply.RCode, Truncated: reply.Truncated && !byTCP,
	}}
	if !out.Truncated {
		out.Answers = reply.resources(asked.Questions[0])
	}
	packed, err := out.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// resources returns the records of a reply.
func (r *DNSReply) resources(q dnsmessage.Question) (all []dnsmessage.Resource) {
	name := q.Name
	add := func(body dnsmessage.ResourceBody) {
		all = append(all, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: q.Class, TTL: 60}, Body: body})
	}
	if r.CNAME != "" {
		target := dnsmessage.MustNewName(r.CNAME)
		add(&dnsmessage.CNAMEResource{CNAME: target})
		name = target
	}
	for _, ptr := range r.PTR {
		add(&dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(ptr)})
	}
	for _, text := range r.Addresses {
		switch a := netip.MustParseAddr(text); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			add(&dnsmessage.AResource{A: a.As4()})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			add(&dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	return all
}

// Asked returns the questions since the last call.
func (s *DNSServer) Asked() []DNSQuestion {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}
