#!/usr/bin/env bash
# Chromium closes an EventSource for ever that is answered with 429 when it comes back, and comes back after the time that an
# empty stream of status 200 names in a field "retry".
#
# Seen on 2026-11-28 with Chromium 156: "429: closed, 200 with retry: open again".
# Guess: an EventSource comes back by itself after any failure, after Retry-After where there is one.
# Follows from it: internal/answer/event_stream.go: a refused EventSource gets an empty stream with the wait.
# Ground: browsers
#
# Use: chromium-closes-event-sources-for-ever.sh. Needs chromium and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${browser:-}" "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
chromium --version 2>/dev/null
cat >events.py <<'END'
import http.server
import sys
import threading

PAGE = b'''<title>events</title><script>
const source = new EventSource("/events");
let opened = 0;
source.onmessage = () => { if (++opened === 2) fetch("/seen?open%20again"); };
source.onerror = () => { if (source.readyState === EventSource.CLOSED) fetch("/seen?closed"); };
</script>'''
asked = 0

class Events(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        status, kind, body = 200, 'text/event-stream', b'retry: 100\ndata: hello\n\n'
        if self.path == '/':
            kind, body = 'text/html', PAGE
        elif self.path == '/events':
            asked += 1
            if asked == 2 and sys.argv[1] == '429':
                status, kind, body = 429, 'text/plain', b'Too many requests.'
            elif asked == 2:
                body = b'retry: 1000\n\n'
        elif self.path.startswith('/seen?'):
            print(self.path[6:].replace('%20', ' '), flush=True)
        self.send_response(status)
        if status == 429:
            self.send_header('Retry-After', '1')
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Events)
print(server.server_port, flush=True)
server.serve_forever()
END
# Opens the page, and says what became of its events.
watch() {
	python3 events.py "$1" >"$1" &
	server=$!
	until [ -s "$1" ]; do sleep 0.1; done
	chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking \
		--user-data-dir="$folder/profile$1" --remote-debugging-port=0 "http://127.0.0.1:$(head -1 "$1")/" >/dev/null 2>&1 &
	browser=$!
	for ((i = 0; i < 300; i++)); do
		[ "$(wc -l <"$1")" -gt 1 ] && break
		sleep 0.1
	done
	kill "$browser" "$server"
	wait "$browser" "$server" 2>/dev/null || true
	sed -n 2p "$1"
}
got="429: $(watch 429), 200 with retry: $(watch 200)"
echo "$got"
[ "$got" = '429: closed, 200 with retry: open again' ] || { echo 'it has changed'; exit 1; }
