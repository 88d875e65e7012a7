#!/usr/bin/env bash
# A server action of Next.js runs wherever a POST with its number in the header Next-Action goes to: at each page, and at paths
# without a page, which answer 404 with the result. A wrong password and a right one have the same status.
#
# Seen on 2026-11-30 with next 16.4.6, react 19.3.1 and node 20.20.2, an action that only the page /login uses:
# "/login: 200 wrong, 200 right; /: 200 wrong, 200 right; /nothing: 404 wrong, 404 right; redirects in a header: 0 of 3 wrong,
# 3 of 3 right".
# Guess: the action is found at /login alone, and redirect() after the right password is a status 303.
# Follows from it: docs/recipes.md, "A log-in by Next.js": a limit of actions goes by the header Next-Action, and counts what has no
# X-Action-Redirect.
# Ground: readers
#
# Use: nextjs-runs-actions-at-every-page.sh [version of the npm package]. Needs node, npm, curl and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
export NEXT_TELEMETRY_DISABLED=1
echo '{"private": true}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts "next@${1:-16.4.6}" react@19.3.1 react-dom@19.3.1 >npm.log 2>&1 ||
	{ cat npm.log; exit 1; }
echo "next $(node -p 'require("next/package.json").version'), node $(node --version)"
mkdir -p app/login
cat >app/layout.js <<'END'
export default function Layout({ children }) {
	return <html><body>{children}</body></html>;
}
END
cat >app/page.js <<'END'
export default function Page() {
	return <p>home</p>;
}
END
cat >app/login/actions.js <<'END'
'use server';
import { redirect } from 'next/navigation';

export async function login(email, password) {
	console.log(`log-in of ${email}`);
	if (password === 'right') redirect('/');
	return 'wrong password';
}
END
cat >app/login/page.js <<'END'
import { login } from './actions';

export default function Page() {
	return <form action={login.bind(null, 'bob', 'wrong')}><button>Log in</button></form>;
}
END
node node_modules/next/dist/bin/next build >build.log 2>&1 || { cat build.log; exit 1; }
action=$(node -p 'Object.keys(require("./.next/server/server-reference-manifest.json").node)[0]')
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
node node_modules/next/dist/bin/next start --hostname 127.0.0.1 --port "$port" >server.log 2>&1 &
server=$!
until curl -s -o /dev/null "http://127.0.0.1:$port/"; do
	kill -0 "$server" || { cat server.log; exit 1; }
	sleep 0.1
done
got= redirects=
for password in wrong right; do
	count=0
	for path in /login / /nothing; do
		status=$(curl -s -o /dev/null -D headers -w '%{http_code}' -H "Next-Action: $action" -H 'Accept: text/x-component' \
			-H 'Content-Type: text/plain;charset=UTF-8' -d "[\"bob\", \"$password\"]" "http://127.0.0.1:$port$path")
		echo "$status $password" >>"status${path//\//_}"
		! grep -qi '^x-action-redirect:' headers || count=$((count + 1))
	done
	redirects+="$count of 3 $password, "
done
for path in /login / /nothing; do
	got+="$path: $(paste -sd, "status${path//\//_}" | sed 's/,/, /'); "
done
got+="redirects in a header: ${redirects%, }"
echo "$got"
ran=$(grep -c 'log-in of bob' server.log || true)
echo "the action ran $ran times"
want='/login: 200 wrong, 200 right; /: 200 wrong, 200 right; /nothing: 404 wrong, 404 right; '
want+='redirects in a header: 0 of 3 wrong, 3 of 3 right'
[ "$got, $ran" = "$want, 6" ] || { cat server.log; echo 'it has changed'; exit 1; }
