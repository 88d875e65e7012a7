package redistest

import (
	"bufio"
	_ "embed" // the server
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

//go:embed lua54.lua
var lua54 string

// StartLua54 starts an imitated server whose scripts run under Lua 5.4, until the test ends. It knows the commands of
// the scripts and of their tests. The test is skipped where lua5.4 is not installed.
func StartLua54(t testing.TB) *Server {
	t.Helper()
	binary, err := exec.LookPath("lua5.4")
	if err != nil {
		t.Skip("no script runs under Lua 5.4 without its program: install the package lua5.4")
	}
	command := exec.Command(binary, "-e", "\n"+lua54) // an argument with - in front is none
	command.Stderr = os.Stderr
	input := NoError(command.StdinPipe())(t)
	output := bufio.NewReader(NoError(command.StdoutPipe())(t))
	Must(t, command.Start())
	listener := NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() {
		_ = listener.Close()
		_ = command.Process.Kill() // it may be gone already
		_ = command.Wait()         // it was killed
	})
	var one sync.Mutex
	ask := func(words []byte) (reply []byte, err error) {
		one.Lock()
		defer one.Unlock()
		if _, err := input.Write(words); err != nil {
			return nil, err
		}
		length, err := readLength(output)
		if err != nil {
			return nil, err
		}
		reply = make([]byte, length)
		_, err = io.ReadFull(output, reply)
		return reply, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, ask)
		}
	}()
	return &Server{Addr: listener.Addr().String()}
}

// serve answers the commands of a connection until one of both sides is gone.
func serve(conn net.Conn, ask func(words []byte) (reply []byte, err error)) {
	defer conn.Close() //nolint:errcheck // the client is gone
	for reader := bufio.NewReader(conn); ; {
		words, err := readWords(reader)
		if err != nil {
			return
		}
		reply, err := ask(words)
		if err != nil {
			return
		}
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// readWords reads a command as it was sent.
func readWords(reader *bufio.Reader) ([]byte, error) {
	count, err := readLength(reader)
	if err != nil {
		return nil, err
	}
	words := fmt.Appendf(nil, "*%d\r\n", count)
	for range count {
		length, err := readLength(reader)
		if err != nil {
			return nil, err
		}
		words = fmt.Appendf(words, "$%d\r\n", length)
		word := make([]byte, length+2)
		if _, err := io.ReadFull(reader, word); err != nil {
			return nil, err
		}
		words = append(words, word...)
	}
	return words, nil
}

// readLength reads a line with a number, behind the mark of its kind.
func readLength(reader *bufio.Reader) (int, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.Trim(line, "*$\r\n"))
}
