#!/usr/bin/env bash
# React Router runs the action and the loader of a page for POST and GET of four paths: /login, /login.data, which its own client
# asks for, /login/_.data and /login/.data. A right password is answered with 302, at the three others with 202.
#
# Seen on 2026-11-30 with react-router 8.4.0 and node 22.23.5: "/login: 401 wrong, 302 right, 200 page; /login.data: 401 wrong,
# 202 right, 200 page; /login/_.data: 401 wrong, 202 right, 200 page; /login/.data: 401 wrong, 202 right, 200 page".
# Guess: /login, and /login.data in its place for the client; of the others no page is told, so they are 404.
# Follows from it: internal/requestvalue/path.go: a last segment _.data or .data belongs to the path before it, in match and in
# keys by {path}; docs/keys.md, "Spellings".
# Ground: readers
#
# Use: react-router-runs-a-log-in-at-four-paths.sh [version of the npm package]. Needs node, npm, curl and python3.
set -euo pipefail
version=${1:-8.4.0}
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
echo '{"private": true, "type": "module"}' >package.json
packages=(react-router "@react-router/dev" "@react-router/node" "@react-router/serve")
npm install --silent --no-audit --no-fund --ignore-scripts "node-linux-$(node -p process.arch)@22.23.5" "${packages[@]/%/@$version}" \
	react@19.3.1 react-dom@19.3.1 isbot@5.2.3 vite@8.4.0 >npm.log 2>&1 || { cat npm.log; exit 1; }
PATH=$(dirname "$folder"/node_modules/node-linux-*/bin/node):$PATH
echo "react-router $(node -p 'require("./node_modules/react-router/package.json").version'), node $(node --version)"
mkdir app
cat >vite.config.js <<'END'
import { reactRouter } from '@react-router/dev/vite';

export default { plugins: [reactRouter()] };
END
cat >app/routes.js <<'END'
import { index, route } from '@react-router/dev/routes';

export default [index('home.jsx'), route('login', 'login.jsx')];
END
cat >app/root.jsx <<'END'
import { Outlet, Scripts } from 'react-router';

export default function Root() {
	return <html><body><Outlet /><Scripts /></body></html>;
}
END
cat >app/home.jsx <<'END'
export default function Home() {
	return <p>home</p>;
}
END
cat >app/login.jsx <<'END'
import { Form, data, redirect } from 'react-router';

export async function action({ request }) {
	console.log('action');
	return (await request.formData()).get('password') === 'right' ? redirect('/') : data('wrong password', { status: 401 });
}

export function loader() {
	console.log('loader');
	return null;
}

export default function Login() {
	return <Form method="post"><input name="password" /></Form>;
}
END
node node_modules/@react-router/dev/bin.cjs build >build.log 2>&1 || { cat build.log; exit 1; }
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
HOST=127.0.0.1 PORT=$port node node_modules/@react-router/serve/bin.cjs build/server/index.js >server.log 2>&1 &
server=$!
until curl -s -o /dev/null "http://127.0.0.1:$port/"; do
	kill -0 "$server" || { cat server.log; exit 1; }
	sleep 0.1
done
got=
for path in /login /login.data /login/_.data /login/.data; do
	url=http://127.0.0.1:$port$path
	got+="$path: $(curl -s -o /dev/null -w '%{http_code}' -d password=wrong "$url") wrong, "
	got+="$(curl -s -o /dev/null -w '%{http_code}' -d password=right "$url") right, "
	got+="$(curl -s -o /dev/null -w '%{http_code}' "$url") page; "
done
got=${got%; }
echo "$got"
actions=$(grep -c '^action' server.log || true)
echo "the action ran $actions times"
want='/login: 401 wrong, 302 right, 200 page; /login.data: 401 wrong, 202 right, 200 page; '
want+='/login/_.data: 401 wrong, 202 right, 200 page; /login/.data: 401 wrong, 202 right, 200 page'
[ "$got, $actions" = "$want, 8" ] || { cat server.log; echo 'it has changed'; exit 1; }
