#!/usr/bin/env bash
# A server by MCP's SDK for node runs all calls of an array, up to 100, also for clients that speak a version of the protocol that
# has no batches: they went in 2025-06-18.
#
# Seen on 2026-11-30 with @modelcontextprotocol/sdk 1.32.2 and node 20: "2025-03-26: 200, ran 100; 2025-06-18: 200, ran 100;
# 2025-11-25: 200, ran 100; 101 calls: 400, ran 0".
# Guess: an array is refused from 2025-06-18 on, as the SDK for Go refuses it by the header MCP-Protocol-Version.
# Follows from it: docs/recipes.md, "Tools of an MCP server": a limit that does not look into the body counts one for 100 calls; by
# this recipe a batch gets 400.
# Ground: batches
#
# Use: mcp-runs-batches-that-the-protocol-dropped.sh [version of the npm package]. Needs npm and node.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --prefix . "@modelcontextprotocol/sdk@${1:-1.32.2}" >/dev/null
node -p '"sdk " + JSON.parse(require("fs").readFileSync("node_modules/@modelcontextprotocol/sdk/package.json")).version'
cat >calls.mjs <<'END'
import http from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

let ran = 0;
let transport;
const start = async () => {
  const server = new McpServer({ name: 'a server', version: '1' });
  server.registerTool('next', { description: 'counts' }, async () => ({ content: [{ type: 'text', text: String(++ran) }] }));
  transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => crypto.randomUUID(), enableJsonResponse: true });
  await server.connect(transport);
};
const server = http.createServer((request, response) => transport.handleRequest(request, response));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));

const post = (body, headers) => fetch(`http://127.0.0.1:${server.address().port}/mcp`, {
  method: 'POST', body: JSON.stringify(body),
  headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers },
});
const seen = [];
for (const [protocolVersion, calls] of [['2025-03-26', 100], ['2025-06-18', 100], ['2025-11-25', 100], ['2025-11-25', 101]]) {
  await start();
  const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'a client', version: '1' } };
  const hello = await post({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
  const agreed = (await hello.json()).result.protocolVersion;
  const session = { 'MCP-Session-Id': hello.headers.get('mcp-session-id'), 'MCP-Protocol-Version': agreed };
  await post({ jsonrpc: '2.0', method: 'notifications/initialized' }, session);
  ran = 0;
  const call = { jsonrpc: '2.0', method: 'tools/call', params: { name: 'next', arguments: {} } };
  const response = await post(Array.from({ length: calls }, (_, i) => ({ ...call, id: i + 1 })), session);
  await response.text();
  seen.push(`${calls > 100 ? `${calls} calls` : agreed}: ${response.status}, ran ${ran}`);
}
console.log(seen.join('\n'));
server.close();
server.closeAllConnections();
END
got=$(node calls.mjs)
want='2025-03-26: 200, ran 100
2025-06-18: 200, ran 100
2025-11-25: 200, ran 100
101 calls: 400, ran 0'
echo "$got"
[ "$got" = "$want" ] || { echo 'it has changed'; exit 1; }
