package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// caddyfile is the limited site of one client. With a log of requests each refusal tells the same wait in each run.
const caddyfile = `{
	admin off
	auto_https off
	persist_config off
	default_bind 127.0.0.1
	redis_ratelimit {
		fail_mode local
	}
	servers {
		protocols h1 h2c
	}
}

:%s {
	log {
		output file access.log
	}
	@limited %s
	redis_ratelimit @limited {
		key {client_ip}
		limit %s
		window %s
		%s
	}
	reverse_proxy %s
}
`

// buildCaddy builds the Caddy that make build makes.
func buildCaddy(ctx context.Context, root, built string) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-tags=nobadger,nomysql,nopgx",
		"-o", filepath.Join(built, "caddy"), "./cmd/caddy")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building Caddy: %w\n%s", err, output)
	}
	return nil
}

// serveBackend serves a client's backend until the function that it returns is called.
func (r *run) serveBackend() (stop func()) {
	handler := http.FileServer(http.Dir(r.served))
	if r.files != nil {
		r.check(r.files(r))
	}
	if r.backend != nil {
		handler = r.backend(r)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.check(err)
		return func() {}
	}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(listener) }() // it ends with an error when it is closed
	r.direct = "http://" + listener.Addr().String()
	return func() { _ = server.Close() }
}

// startCaddy starts the limited site. The function that it returns stops Caddy and returns the access log.
func (r *run) startCaddy() (stop func() []byte, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_ = listener.Close() // Caddy takes the port
	_, port, _ := strings.Cut(listener.Addr().String(), ":")
	limit, window, _ := strings.Cut(cmp.Or(r.limit, "2 3s"), " ")
	upstream := strings.TrimPrefix(r.direct, "http://")
	if r.h2c {
		upstream = "h2c://" + upstream
	}
	folder := filepath.Join(filepath.Dir(r.folder), "caddy")
	options := cmp.Or(r.options, "algorithm sliding_window_log")
	text := fmt.Sprintf(caddyfile, port, cmp.Or(r.matcher, "path *"), limit, window, options, upstream)
	if err := writeFile(filepath.Join(folder, "Caddyfile"), []byte(text)); err != nil {
		return nil, err
	}
	command := exec.Command(filepath.Join(r.built, "caddy"), "run", "--config", "Caddyfile", "--adapter", "caddyfile")
	command.Dir, command.Env = folder, []string{"HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "XDG_DATA_HOME=" + folder}
	log, err := os.Create(filepath.Join(folder, "caddy.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return nil, err
	}
	r.url = "http://127.0.0.1:" + port
	stop = func() []byte {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have exited
		_ = command.Wait()                          // which says how it was ended
		access, _ := os.ReadFile(filepath.Join(folder, "access.log"))
		return access
	}
	for range 200 {
		if conn, err := net.DialTimeout("tcp", listener.Addr().String(), time.Second); err == nil {
			_ = conn.Close()
			return stop, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	output, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("the site is not served:\n%s", output)
}
