#!/usr/bin/env bash
# LangChain's loaders of pages read no status: the words of a refusal become the text of the page's document, at 429 and at 503,
# without an exception and without a second try. A refused sitemap is no documents at all.
#
# Seen on 2026-11-30 with @langchain/community 1.1.29 and node 20: "page 429: Too many requests., page 503: Too many requests.,
# page of a sitemap 429: Too many requests. and page b, sitemap 429: nothing", with one request of each address.
# Guess: any status from 400 on is an exception, which LangChain's AsyncCaller tries again six times, as it does for models.
# Follows from it: docs/clients.md, "Silent losses": such readers are made to wait. Neither form nor status of a refusal helps.
# Ground: crawlers
#
# Use: langchain-takes-refusals-for-documents.sh [version of the npm package]. Needs npm and node.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --legacy-peer-deps --prefix . "@langchain/community@${1:-1.1.29}" @langchain/core@1.4.0 \
	cheerio@1.2.0 >/dev/null
node -p '"@langchain/community " + require("./node_modules/@langchain/community/package.json").version'
cat >load.mjs <<'END'
import http from 'node:http';
import {CheerioWebBaseLoader} from '@langchain/community/document_loaders/web/cheerio';
import {SitemapLoader} from '@langchain/community/document_loaders/web/sitemap';

let refused, status, asked;
const server = http.createServer((request, response) => {
	asked.push(request.url);
	if (request.url === refused) {
		response.writeHead(status, {'Content-Type': 'text/plain', 'Retry-After': '1'});
		response.end('Too many requests.');
	} else if (request.url === '/sitemap.xml') {
		response.writeHead(200, {'Content-Type': 'application/xml'});
		response.end(`<urlset><url><loc>${url}/a</loc></url><url><loc>${url}/b</loc></url></urlset>`);
	} else {
		response.writeHead(200, {'Content-Type': 'text/html'});
		response.end(`<body>page ${request.url.slice(1)}</body>`);
	}
});
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}`;
const seen = [];
for (const [name, path, code, load] of [
	['page', '/a', 429, () => new CheerioWebBaseLoader(`${url}/a`).load()],
	['page', '/a', 503, () => new CheerioWebBaseLoader(`${url}/a`).load()],
	['page of a sitemap', '/a', 429, () => new SitemapLoader(url).load()],
	['sitemap', '/sitemap.xml', 429, () => new SitemapLoader(url).load()],
]) {
	[refused, status, asked] = [path, code, []];
	let said;
	try {
		said = (await load()).map(document => document.pageContent).join(' and ') || 'nothing';
	} catch (e) {
		said = e.message;
	}
	if (asked.length > new Set(asked).size) {
		said += ' (asked again)';
	}
	seen.push(`${name} ${code}: ${said}`);
}
console.log(seen.join(', '));
server.close();
server.closeAllConnections();
END
got=$(node load.mjs)
want='page 429: Too many requests., page 503: Too many requests., page of a sitemap 429: Too many requests. and page b, '
want+='sitemap 429: nothing'
echo "$got"
[ "$got" = "$want" ] || { printf 'it has changed; it was\n%s\n' "$want"; exit 1; }
