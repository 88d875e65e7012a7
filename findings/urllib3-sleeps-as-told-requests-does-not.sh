#!/usr/bin/env bash
# urllib3 sleeps as Retry-After says and repeats a request by itself, with no word of retries in the program. requests, which
# is built on it, returns the 429 at once.
#
# Seen on 2026-11-28 with Debian 12's urllib3 1.26.12 and requests 2.28.1, Retry-After 2: "urllib3: 200 after 2 s, requests:
# 429 after 0 s". Without Retry-After urllib3 returns the 429 as well; 3600 it sleeps through, run by hand.
# Guess: neither repeats anything unless it is told to, or both do.
# Follows from it: what hangs and what fails at once are different clients: docs/clients.md, "Waits" and "Web APIs".
# Ground: clients
#
# Use: urllib3-sleeps-as-told-requests-does-not.sh [version of the Debian package]. Needs apt-get, dpkg and python3.11.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "python3-urllib3${1:+=$1}" python3-{requests,certifi,chardet,charset-normalizer,idna,six}
for package in *.deb; do dpkg -x "$package" packages; done
cat >main.py <<'END'
import http.server
import threading
import time

import requests
import urllib3

first = True

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global first
        refuse, first = first, False
        self.send_response(429 if refuse else 200)
        if refuse:
            self.send_header('Retry-After', '2')
        self.send_header('Content-Type', 'text/plain')
        self.send_header('Content-Length', '5')
        self.end_headers()
        self.wfile.write(b'text\n')

    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = 'http://127.0.0.1:%d/' % server.server_port
print('urllib3', urllib3.__version__, 'requests', requests.__version__)
got = []
session = requests.Session()
session.trust_env = False
for name, call in ('urllib3', lambda: urllib3.PoolManager().request('GET', url).status), ('requests', lambda: session.get(url).status_code):
    first = True
    begin = time.monotonic()
    status = call()
    got.append('%s: %d after %d s' % (name, status, time.monotonic() - begin))
print(', '.join(got))
END
got=$(PYTHONPATH="$folder/packages/usr/lib/python3/dist-packages" /usr/bin/python3 main.py)
echo "$got"
[[ $got == *$'\nurllib3: 200 after 2 s, requests: 429 after 0 s' ]] || { echo 'it has changed'; exit 1; }
