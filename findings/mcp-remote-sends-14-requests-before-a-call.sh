#!/usr/bin/env bash
# mcp-remote, by which clients without HTTP reach servers of MCP, sends 14 requests before the first call of a tool: eight GETs of
# the server and of well-known addresses, then a session of its own, two POSTs, and the client's, two more, each with a GET.
# A refused first POST ends it with exit 1. It does not wait, and does not try the older transport by SSE.
#
# Seen on 2026-11-30 with mcp-remote 0.15.1 and node 20: "before a call: 14 requests, 8 of them to /mcp, 4 POSTs",
# "initialize refused with 429: exit 1 after 9 requests".
# Guess: four or five, as MCP's own SDKs send, and at 429 a GET for the older transport.
# Follows from it: docs/recipes.md, "Tools of an MCP server": a limit for all needs room for them.
# Ground: models
#
# Use: mcp-remote-sends-14-requests-before-a-call.sh [version of the npm package]. Needs npm and node.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix . "mcp-remote@${1:-0.15.1}" >/dev/null
node -p '"mcp-remote " + require("./node_modules/mcp-remote/package.json").version'
cat >call.mjs <<'END'
import {spawn} from 'node:child_process';
import http from 'node:http';

const results = {
	initialize: {protocolVersion: '2025-06-18', capabilities: {tools: {}}, serverInfo: {name: 'server', version: '1'}},
	'tools/call': {content: [{type: 'text', text: 'done'}]},
};

async function run(refuse) {
	const seen = [];
	const server = http.createServer(async (request, response) => {
		let body = '';
		for await (const part of request) {
			body += part;
		}
		const call = body ? JSON.parse(body) : {};
		seen.push({method: request.method, path: request.url, call: call.method});
		const answer = (status, headers, text) => response.writeHead(status, headers).end(text);
		if (request.url !== '/mcp') {
			answer(404);
		} else if (request.method !== 'POST') {
			answer(405, {Allow: 'POST'});
		} else if (refuse && call.method === 'initialize') {
			answer(429, {'Content-Type': 'text/plain', 'Retry-After': '1'}, 'Too many requests.');
		} else if (call.id === undefined) {
			answer(202);
		} else {
			answer(200, {'Content-Type': 'application/json'}, JSON.stringify({jsonrpc: '2.0', id: call.id, result: results[call.method]}));
		}
	});
	await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
	const remote = spawn(process.execPath, ['node_modules/mcp-remote/dist/proxy.js', `http://127.0.0.1:${server.address().port}/mcp`],
		{env: {...process.env, HOME: process.cwd(), MCP_REMOTE_CONFIG_DIR: process.cwd()}, stdio: ['pipe', 'pipe', 'ignore']});
	const ended = new Promise(resolve => remote.on('exit', resolve));
	const over = setTimeout(() => remote.kill(), 40000);
	const send = message => remote.stdin.write(JSON.stringify({jsonrpc: '2.0', ...message}) + '\n');
	send({id: 1, method: 'initialize', params: {protocolVersion: '2025-06-18', capabilities: {}, clientInfo: {name: 'c', version: '1'}}});
	let out = '', opened = false;
	remote.stdout.on('data', async part => {
		out += part;
		if (!opened && out.includes('"id":1,')) {
			opened = true;
			send({method: 'notifications/initialized'});
			for (let i = 0; i < 30 && seen.length < 14; i++) {
				await new Promise(resolve => setTimeout(resolve, 100));
			}
			send({id: 2, method: 'tools/call', params: {name: 'tool', arguments: {}}});
		}
		if (out.includes('"id":2,')) {
			remote.kill();
		}
	});
	const exit = await ended;
	clearTimeout(over);
	server.close();
	server.closeAllConnections();
	return {exit, seen};
}

const {seen} = await run(false);
const before = seen.slice(0, seen.findIndex(request => request.call === 'tools/call'));
console.log(`before a call: ${before.length} requests, ${before.filter(request => request.path === '/mcp').length} of them to /mcp, ` +
	`${before.filter(request => request.method === 'POST').length} POSTs`);
const refused = await run(true);
console.log(`initialize refused with 429: exit ${refused.exit} after ${refused.seen.length} requests`);
END
got=$(node call.mjs)
want='before a call: 14 requests, 8 of them to /mcp, 4 POSTs
initialize refused with 429: exit 1 after 9 requests'
echo "$got"
[ "$got" = "$want" ] || { printf 'it has changed; it was\n%s\n' "$want"; exit 1; }
