package redistest

import (
	"bufio"
	_ "embed" // the server
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
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
	input := assert.NoError(command.StdinPipe())(t)
	output := bufio.NewReader(assert.NoError(command.StdoutPipe())(t))
	assert.Must(t, command.Start())
	listener := assert.NoError(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() {
		_ = listener.Close()
		_ = command.Process.Kill() // it may be gone already
		_ = command.Wait()         // it was killed
	})
	say := func(words ...string) (reply []byte, err error) {
		_, err = input.Write(encode(words))
		length, lost := readLength(output)
		reply = make([]byte, length)
		_, cut := io.ReadFull(output, reply)
		return reply, errors.Join(err, lost, cut)
	}
	var one sync.Mutex
	known := map[string]bool{} // scripts, by their hashes
	ask := func(words []string) (reply []byte, err error) {
		one.Lock()
		defer one.Unlock()
		if len(words) > 1 && words[0] == "eval" {
			if hash := goredis.NewScript(words[1]).Hash(); !known[hash] {
				known[hash] = true
				_, err = say("remember", hash, words[1])
			}
		}
		reply, lost := say(words...)
		return reply, errors.Join(err, lost)
	}
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go serve(conn, ask)
		}
	}()
	return &Server{Addr: listener.Addr().String()}
}

// serve answers the commands of a connection until one of both sides is gone.
func serve(conn net.Conn, ask func(words []string) (reply []byte, err error)) {
	defer conn.Close() //nolint:errcheck // the client is gone
	reader := bufio.NewReader(conn)
	words, err := readWords(reader)
	for ; err == nil; words, err = readWords(reader) {
		reply, gone := ask(words)
		if _, err := conn.Write(reply); gone != nil || err != nil {
			return
		}
	}
}

// readWords reads a command.
func readWords(reader *bufio.Reader) (words []string, err error) {
	count, err := readLength(reader)
	for range count {
		length, lost := readLength(reader)
		word := make([]byte, length+2)
		_, cut := io.ReadFull(reader, word)
		words = append(words, string(word[:length]))
		err = errors.Join(err, lost, cut)
	}
	return words, err
}

// encode returns a command as it is sent.
func encode(words []string) (command []byte) {
	command = fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(word), word)
	}
	return command
}

// readLength reads a line with a number, behind the mark of its kind.
func readLength(reader *bufio.Reader) (int, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.Trim(line, "*$\r\n"))
}
