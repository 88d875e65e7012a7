#!/usr/bin/env bash
# The field email of a form whose action is a server action of Next.js comes as email without JavaScript, and as _1_email with
# it. The server takes any number there: _7_email too, where the field 0 says so.
#
# Seen on 2026-11-30 with next 16.4.6, react 19.3.1 and node 20.20.2: "without JavaScript: email; with it: _1_email, 0; the server
# reads bob from email, bob from _1_email, bob from _7_email".
# Guess: the form's own names, as of any form, in both cases.
# Follows from it: docs/recipes.md, "A log-in by Next.js": {form.email} is empty for browsers, so that on_empty_key reject answers
# them 400, and no other name helps, since a client chooses it. Guesses at one account are for the application to count.
# Ground: readers
#
# Use: nextjs-renames-the-fields-of-forms.sh [version of the npm package]. Needs node, npm, curl and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
export NEXT_TELEMETRY_DISABLED=1
echo '{"private": true}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts "next@${1:-16.4.6}" react@19.3.1 react-dom@19.3.1 >npm.log 2>&1 ||
	{ cat npm.log; exit 1; }
echo "next $(node -p 'require("next/package.json").version'), node $(node --version)"
mkdir -p app
cat >app/layout.js <<'END'
export default function Layout({ children }) {
	return <html><body>{children}</body></html>;
}
END
cat >app/actions.js <<'END'
'use server';

export async function login(form) {
	console.log(`log-in of ${form.get('email')}`);
}
END
cat >app/page.js <<'END'
import { login } from './actions';

export default function Page() {
	return <form action={login}><input name="email" /></form>;
}
END
node node_modules/next/dist/bin/next build >build.log 2>&1 || { cat build.log; exit 1; }
action=$(node -p 'Object.keys(require("./.next/server/server-reference-manifest.json").node)[0]')
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
node node_modules/next/dist/bin/next start --hostname 127.0.0.1 --port "$port" >server.log 2>&1 &
server=$!
until curl -s -o page "http://127.0.0.1:$port/"; do
	kill -0 "$server" || { cat server.log; exit 1; }
	sleep 0.1
done
# The names of the form in the page, but for the action's own; and those that the client of the page makes of the form.
without=$(grep -o '<input[^>]*name="[^"$]*"' page | sed 's/.*name="//; s/"//' | paste -sd,)
cat >encode.js <<'END'
const { encodeReply } = require('next/dist/compiled/react-server-dom-turbopack/client.browser');
const form = new FormData();
form.append('email', 'bob');
encodeReply([form]).then(body => console.log([...body.keys()].join(', ')));
END
got="without JavaScript: $without; with it: $(node encode.js); the server reads"
url=http://127.0.0.1:$port/
curl -s -o /dev/null -F "\$ACTION_ID_$action=" -F email=bob "$url"
for number in 1 7; do
	curl -s -o /dev/null -H "Next-Action: $action" -F "_${number}_email=bob" -F "0=[\"\$K$number\"]" "$url"
done
for name in email _1_email _7_email; do
	echo "$name"
done >names
got+=$(grep '^log-in of' server.log | sed 's/log-in of //' | paste -d' ' - names | sed 's/ / from /; s/^/ /' | paste -sd,)
echo "$got"
want='without JavaScript: email; with it: _1_email, 0; the server reads bob from email, bob from _1_email, bob from _7_email'
[ "$got" = "$want" ] || { cat server.log; echo 'it has changed'; exit 1; }
