#!/usr/bin/env bash
# SvelteKit 2 answers fail(401) of a form's action with 200 if the client prefers JSON to HTML, as its own use:enhance and any
# client without Accept do. SvelteKit 3 answers 401. With either the right password's redirect is then 200.
#
# Seen on 2026-11-30 with node 22.23.5 and @sveltejs/kit 2.70.4: "JSON: 200 wrong, 200 right; HTML: 401 wrong, 303 right", and
# with 3.2.0: "JSON: 401 wrong, 200 right; HTML: 401 wrong, 303 right".
# Guess: a status that the action names is the status of the response, whatever the client accepts.
# Follows from it: docs/recipes.md, "Log-in protection": count_if status 401 meets no wrong password that is sent so. A recipe
# counts a header that the action sets by setHeaders.
# Ground: readers
#
# Use: sveltekit-2-answers-wrong-passwords-with-200.sh. Needs node, npm, curl and python3.
set -euo pipefail
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix node "node-linux-$(node -p process.arch)@22.23.5" >npm.log 2>&1 ||
	{ cat npm.log; exit 1; }
PATH=$(dirname "$folder"/node/node_modules/*/bin/node):$PATH
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
origin=http://127.0.0.1:$port

# run NAME PACKAGE... makes the same application with these packages, logs in and prints the statuses.
run() {
	local name=$1 kind accept password statuses got=
	shift
	cd "$folder/$name"
	echo '{"private": true, "type": "module"}' >package.json
	npm install --silent --no-audit --no-fund --ignore-scripts "$@" >npm.log 2>&1 || { cat npm.log; exit 1; }
	mkdir -p src/routes/login
	echo '<!doctype html><head>%sveltekit.head%</head><body>%sveltekit.body%</body>' >src/app.html
	echo '<form method="POST"><input name="password"></form>' >src/routes/login/+page.svelte
	cat >src/routes/login/+page.server.js <<-'END'
		import { fail, redirect } from '@sveltejs/kit';

		export const actions = {
			default: async ({ request, setHeaders }) => {
				if ((await request.formData()).get('password') === 'right') redirect(303, '/');
				setHeaders({ 'X-Login': 'failed' });
				return fail(401, { message: 'wrong password' });
			}
		};
	END
	node node_modules/vite/bin/vite.js build >build.log 2>&1 || { cat build.log; exit 1; }
	HOST=127.0.0.1 PORT=$port ORIGIN=$origin node build/index.js >server.log 2>&1 &
	server=$!
	until curl -s -o /dev/null "$origin/login"; do
		kill -0 "$server" || { cat server.log; exit 1; }
		sleep 0.1
	done
	for kind in JSON HTML; do
		[ "$kind" = JSON ] && accept=application/json || accept=text/html
		statuses=
		for password in wrong right; do
			statuses+=$(curl -s -o /dev/null -D headers -w '%{http_code}' -H "Accept: $accept" -H "Origin: $origin" \
				-d "password=$password" "$origin/login")" $password, "
			[ "$password" = right ] || grep -qi '^x-login: failed' headers || { cat headers; echo 'no X-Login'; exit 1; }
		done
		got+="$kind: ${statuses%, }; "
	done
	kill "$server"
	wait "$server" 2>/dev/null || true
	echo "@sveltejs/kit $(node -p 'require("./node_modules/@sveltejs/kit/package.json").version'): ${got%; }"
}

mkdir two three
cat >two/svelte.config.js <<'END'
import adapter from '@sveltejs/adapter-node';

export default { kit: { adapter: adapter() } };
END
cat >two/vite.config.js <<'END'
import { sveltekit } from '@sveltejs/kit/vite';

export default { plugins: [sveltekit()] };
END
cat >three/vite.config.js <<END
import adapter from '@sveltejs/adapter-node';
import { sveltekit } from '@sveltejs/kit/vite';

export default { plugins: [sveltekit({ adapter: adapter(), paths: { origin: '$origin' } })] };
END
run two @sveltejs/kit@2.70.4 @sveltejs/adapter-node@5.5.7 @sveltejs/vite-plugin-svelte@6.2.4 svelte@5.57.3 vite@7.3.8 >got
run three @sveltejs/kit@3.2.0 @sveltejs/adapter-node@6.0.1 @sveltejs/vite-plugin-svelte@7.3.1 svelte@5.57.3 vite@8.4.0 >>"$folder/got"
cat "$folder/got"
want='@sveltejs/kit 2.70.4: JSON: 200 wrong, 200 right; HTML: 401 wrong, 303 right
@sveltejs/kit 3.2.0: JSON: 401 wrong, 200 right; HTML: 401 wrong, 303 right'
[ "$(cat "$folder/got")" = "$want" ] || { echo 'it has changed'; exit 1; }
