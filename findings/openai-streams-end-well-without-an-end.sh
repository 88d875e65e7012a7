#!/usr/bin/env bash
# OpenAI's SDK for node takes a stream that ends without [DONE] and without a finish_reason for a whole answer, and an error
# object in JSON under 200 for an answer without a word. It throws only at an error within the stream. Groq's and Anthropic's
# SDKs, run by hand, do the same with messages.create; Ollama's throws in both cases.
#
# Seen on 2026-11-28 with openai 6.49.0 and ollama 0.6.4: "openai: whole one two, cut one, error in the stream throws, error
# under 200 nothing; ollama: whole one two, cut throws, error in the stream throws, error under 200 throws".
# Guess: what has no [DONE] is broken and throws, and an object with error is an error whatever its status.
# Follows from it: a refused call to a model has its 429 (docs/responses.md, "Bodies of denials"): 200 is for protocols whose
# clients look into the body. A stream that fails must not end as if it were whole.
# Ground: models
#
# Use: openai-streams-end-well-without-an-end.sh [version of the npm package]. Needs node and npm.
set -euo pipefail
version=${1:-6.49.0}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts "openai@$version" ollama@0.6.4 >npm.log 2>&1 || { cat npm.log; exit 1; }
cat >main.mjs <<'END'
import http from 'node:http';
import OpenAI from 'openai';
import { Ollama } from 'ollama';

let mode;
const error = JSON.stringify({ error: { type: 'rate_limit_error', code: 'rate_limit_exceeded', message: 'Too many requests.' } });
const forms = {
  openai: {
    type: 'text/event-stream',
    word: (content, finish_reason = null) => JSON.stringify({ id: '1', object: 'chat.completion.chunk', created: 1, model: 'finding',
      choices: [{ index: 0, delta: { content }, finish_reason }] }),
    line: (data) => `data: ${data}\n\n`,
    end: ['[DONE]'],
  },
  ollama: {
    type: 'application/x-ndjson',
    word: (content, finish) => JSON.stringify({ model: 'finding', message: { role: 'assistant', content }, done: finish !== undefined }),
    line: (data) => `${data}\n`,
    end: [],
  },
};
const server = http.createServer((request, response) => {
  request.resume().on('end', () => {
    const { type, word, line, end } = forms[request.url.startsWith('/api/') ? 'ollama' : 'openai'];
    if (mode === 'error under 200') {
      response.setHeader('Content-Type', 'application/json').end(error);
      return;
    }
    response.setHeader('Content-Type', type).write(line(word('one')));
    const rest = { whole: [word(' two', 'stop'), ...end], cut: [], 'error in the stream': [error] }[mode];
    response.end(rest.map(line).join(''));
  });
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const url = `http://127.0.0.1:${server.address().port}`;
const call = { model: 'finding', messages: [{ role: 'user', content: 'word' }], stream: true };
const sdks = {
  openai: async () => {
    let text = '';
    for await (const part of await new OpenAI({ apiKey: 'finding', baseURL: url, maxRetries: 0 }).chat.completions.create(call)) {
      text += part.choices[0].delta.content;
    }
    return text;
  },
  ollama: async () => {
    let text = '';
    for await (const part of await new Ollama({ host: url }).chat(call)) {
      text += part.message.content;
    }
    return text;
  },
};
const got = [];
for (const [name, sdk] of Object.entries(sdks)) {
  const seen = [];
  for (mode of ['whole', 'cut', 'error in the stream', 'error under 200']) {
    seen.push(`${mode} ${await sdk().then((text) => text || 'nothing', () => 'throws')}`);
  }
  got.push(`${name}: ${seen.join(', ')}`);
}
console.log(got.join('; '));
process.exit();
END
for name in openai ollama; do echo "$name $(sed -n 's/^  *"version": "\(.*\)".*/\1/p' "node_modules/$name/package.json")"; done
got=$(timeout 60 node main.mjs)
echo "$got"
[ "$got" = 'openai: whole one two, cut one, error in the stream throws, error under 200 nothing; ollama: whole one two, cut throws, error in the stream throws, error under 200 throws' ] ||
	{ echo 'it has changed'; exit 1; }
