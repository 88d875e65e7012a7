#!/usr/bin/env bash
# Chromium shows a page of its cache that it may still show for minutes (stale-while-revalidate), asks for it anew in the
# background, and is refused: it drops its copy, though stale-if-error allows it too, and shows the next refusal.
#
# Seen on 2026-11-28 with Chromium 156: "429: good, good, refused; 503: good, good, refused".
# Guess: the copy stays until something better comes.
# Follows from it: docs/clients.md, "Pages and browsers".
# Ground: browsers
#
# Use: chromium-drops-its-copy-when-refused.sh. Needs chromium and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${browser:-}" "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
chromium --version 2>/dev/null
cat >pages.py <<'END'
import http.server
import sys

PAGE = b'''<title>pages</title><script>
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const ask = async () => (await fetch("/data")).text();
(async () => {
  const seen = [await ask()];
  await pause(1500);
  seen.push(await ask());
  await pause(1000);
  seen.push(await ask());
  fetch("/seen?" + seen.join(",%20"));
})();
</script>'''
asked = 0

class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        status, kind, body, cache = 200, 'text/html', PAGE, 'no-store'
        if self.path == '/data':
            asked += 1
            kind, body, cache = 'text/plain', b'good', 'max-age=1, stale-while-revalidate=600, stale-if-error=600'
            if asked > 1:
                status, body, cache = int(sys.argv[1]), b'refused', 'no-store'
        elif self.path.startswith('/seen?'):
            print(self.path[6:].replace('%20', ' '), flush=True)
        self.send_response(status)
        if status != 200:
            self.send_header('Retry-After', '3')
        self.send_header('Cache-Control', cache)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Pages)
print(server.server_port, flush=True)
server.serve_forever()
END
# Opens the page, and says what its three requests showed.
watch() {
	python3 pages.py "$1" >"$1" &
	server=$!
	until [ -s "$1" ]; do sleep 0.1; done
	chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking \
		--user-data-dir="$folder/profile$1" --remote-debugging-port=0 "http://127.0.0.1:$(sed -n 1p "$1")/" >/dev/null 2>&1 &
	browser=$!
	for _ in {1..450}; do
		if [ "$(wc -l <"$1")" -gt 1 ]; then break; fi
		sleep 0.1
	done
	kill "$browser" "$server"
	wait "$browser" "$server" 2>/dev/null || true
	got+="$1: $(sed -n 2p "$1"); "
}
got=
watch 429
watch 503
got=${got%; }
echo "$got"
[ "$got" = '429: good, good, refused; 503: good, good, refused' ] || { echo 'it has changed'; exit 1; }
