#!/usr/bin/env bash
# Stripe's SDK for node returns a 429 as the result of the call, without an exception, if its body is JSON without a member
# "error". With an object "error" the same refusal is a StripeRateLimitError.
#
# Seen on 2026-11-28 with stripe 23.1.0 and node 20: "without error: resolved, id undefined; with error: StripeRateLimitError".
# Guess: any status from 400 on is an exception.
# Follows from it: internal/answer/json.go: the JSON document has an object "error" beside RFC 9457's members.
# Ground: clients
#
# Use: stripe-takes-a-refusal-for-success.sh [version of the npm package]. Needs npm and node.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix . "stripe@${1:-23.1.0}" >/dev/null
node -p '"stripe " + require("./node_modules/stripe/package.json").version'
cat >calls.mjs <<'END'
import http from 'node:http';
import Stripe from 'stripe';

const bodies = [
	{type: 'about:blank', title: 'Too Many Requests', status: 429},
	{error: {type: 'rate_limit_error', code: 'rate_limit', message: 'Too many requests.'}},
];
const server = http.createServer((request, response) => {
	request.resume();
	response.writeHead(429, {'Content-Type': 'application/json', 'Retry-After': '3'});
	response.end(JSON.stringify(bodies.shift()));
});
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
const stripe = new Stripe('sk_test_0', {host: '127.0.0.1', port: server.address().port, protocol: 'http', maxNetworkRetries: 0});
const seen = [];
for (const name of ['without error', 'with error']) {
	try {
		const customer = await stripe.customers.create({name: 'a customer'});
		seen.push(`${name}: resolved, id ${customer.id}`);
	} catch (e) {
		seen.push(`${name}: ${e.type}`);
	}
}
console.log(seen.join('; '));
server.close();
server.closeAllConnections();
END
got=$(node calls.mjs)
echo "$got"
[ "$got" = 'without error: resolved, id undefined; with error: StripeRateLimitError' ] || { echo 'it has changed'; exit 1; }
