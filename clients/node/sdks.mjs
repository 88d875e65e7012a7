// How each SDK is set up, with its defaults, and what one call is. A call returns the word that the backend answers.
const chat = { model: 'lab', messages: [{ role: 'user', content: 'word' }] };

export const calls = {
  async openai(url) {
    const { default: OpenAI } = await import('openai');
    const client = new OpenAI({ apiKey: 'lab', baseURL: `${url}/v1` });
    return async () => (await client.chat.completions.create(chat)).choices?.[0]?.message?.content;
  },
  async anthropic(url) {
    const { default: Anthropic } = await import('@anthropic-ai/sdk');
    const client = new Anthropic({ apiKey: 'lab', baseURL: url });
    return async () => (await client.messages.create({ ...chat, max_tokens: 9 })).content?.[0]?.text;
  },
  async cohere(url) {
    const { CohereClientV2 } = await import('cohere-ai');
    const client = new CohereClientV2({ token: 'lab', environment: url });
    return async () => (await client.chat(chat)).message?.content?.[0]?.text;
  },
  async ai(url) {
    const { generateText } = await import('ai');
    const { createOpenAI } = await import('@ai-sdk/openai');
    const model = createOpenAI({ apiKey: 'lab', baseURL: `${url}/v1` }).chat('lab');
    return async () => (await generateText({ model, prompt: 'word' })).text;
  },
  async langchain(url) {
    const { ChatOpenAI } = await import('@langchain/openai');
    const model = new ChatOpenAI({ model: 'lab', apiKey: 'lab', configuration: { baseURL: `${url}/v1` } });
    return async () => (await model.invoke('word')).content;
  },
  async stripe(url) {
    const { default: Stripe } = await import('stripe');
    const { hostname, port } = new URL(url);
    const client = new Stripe('sk_test_lab', { host: hostname, port, protocol: 'http', telemetry: false });
    return async () => {
      const customer = await client.customers.create({ name: 'lab' });
      return customer.id === 'cus_lab' ? 'right' : customer;
    };
  },
  async s3(url) {
    const { GetObjectCommand, S3Client } = await import('@aws-sdk/client-s3');
    const client = new S3Client({
      endpoint: url, region: 'us-east-1', forcePathStyle: true, credentials: { accessKeyId: 'lab', secretAccessKey: 'lab' },
    });
    return async () => (await client.send(new GetObjectCommand({ Bucket: 'lab', Key: 'object' }))).Body.transformToString();
  },
  async slack(url) {
    const { WebClient } = await import('@slack/web-api');
    const client = new WebClient('lab', { slackApiUrl: `${url}/api/` });
    return async () => (await client.chat.postMessage({ channel: 'lab', text: 'word' })).channel;
  },
  async octokit(url) {
    const { Octokit } = await import('octokit');
    const client = new Octokit({ auth: 'lab', baseUrl: url });
    return async () => (await client.rest.repos.get({ owner: 'lab', repo: 'lab' })).data.name;
  },
  async gitbeaker(url) {
    const { Gitlab } = await import('@gitbeaker/rest');
    const client = new Gitlab({ token: 'lab', host: url });
    return async () => (await client.Projects.show(1)).name;
  },
  async discord(url) {
    const { REST } = await import('@discordjs/rest');
    const client = new REST({ api: `${url}/api` }).setToken('lab');
    return async () => (await client.get('/users/@me')).username;
  },
  async twilio(url) {
    const { default: twilio } = await import('twilio');
    const client = twilio('AClab', 'lab');
    const { httpClient } = client;
    const request = httpClient.request.bind(httpClient); // the SDK knows hosts of its maker alone
    httpClient.request = (options) => request({ ...options, uri: url + new URL(options.uri).pathname });
    return async () => (await client.messages.create({ to: '+1', from: '+1', body: 'word' })).body;
  },
  async got(url) {
    const { got } = await import('got');
    return async () => (await got(`${url}/word`).json()).word;
  },
  async ky(url) {
    const { default: ky } = await import('ky');
    return async () => (await ky(`${url}/word`).json()).word;
  },
  async axiosRetry(url) {
    const { default: axios } = await import('axios');
    const { default: axiosRetry } = await import('axios-retry');
    const client = axios.create();
    axiosRetry(client, { retries: 3, retryCondition: (e) => e.response?.status === 429 });
    return async () => (await client.get(`${url}/word`)).data.word;
  },
  async fetch(url) {
    return async () => (await (await fetch(`${url}/word`)).json()).word;
  },
  async connect(url) {
    return (await connectClient(url)).say;
  },
  async connectStream(url) {
    return (await connectClient(url)).listen;
  },
  async grpc(url) {
    const { default: grpc } = await import('@grpc/grpc-js');
    const same = (bytes) => bytes;
    const Client = grpc.makeGenericClientConstructor({
      say: { path: '/lab.Lab/Say', requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same },
    }, 'lab.Lab');
    const policy = {
      maxAttempts: 4, initialBackoff: '0.1s', maxBackoff: '1s', backoffMultiplier: 2,
      retryableStatusCodes: ['RESOURCE_EXHAUSTED', 'UNAVAILABLE'],
    };
    const client = new Client(new URL(url).host, grpc.credentials.createInsecure(), {
      'grpc.service_config': JSON.stringify({ methodConfig: [{ name: [{}], retryPolicy: policy }] }),
    });
    return () => new Promise((resolve, reject) => {
      client.say(Buffer.from('right'), (e, answer) => (e ? reject(e) : resolve(answer.toString())));
    });
  },
  async mcp(url) {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client({ name: 'lab', version: '1.0.0' });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
    return () => callTool(client);
  },
  mcp2: (url) => mcp2(url, {}),
  mcp2Auto: (url) => mcp2(url, { versionNegotiation: { mode: 'auto' } }),
};

// mcp2 returns the call of a tool by the second version of MCP's SDK.
async function mcp2(url, options) {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client({ name: 'lab', version: '1.0.0' }, options);
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  return () => callTool(client);
}

// callTool returns the text of a tool's result. That of a failed one is what the model reads: here it ends the job.
async function callTool(client) {
  const { content, isError } = await client.callTool({ name: 'word', arguments: {} });
  if (isError) throw new Error(content[0].text);
  return content[0].text;
}

// connectClient returns the calls of a service of the Connect protocol, whose methods say what they are told.
async function connectClient(url) {
  const { create, createFileRegistry } = await import('@bufbuild/protobuf');
  const wkt = await import('@bufbuild/protobuf/wkt');
  const { createClient } = await import('@connectrpc/connect');
  const { createConnectTransport } = await import('@connectrpc/connect-node');
  const type = '.google.protobuf.StringValue';
  const file = create(wkt.FileDescriptorProtoSchema, {
    name: 'lab.proto', package: 'lab', syntax: 'proto3', dependency: ['google/protobuf/wrappers.proto'],
    service: [{
      name: 'Lab', method: [
        { name: 'Say', inputType: type, outputType: type },
        { name: 'Listen', inputType: type, outputType: type, serverStreaming: true },
      ],
    }],
  });
  const registry = createFileRegistry(file, () => wkt.file_google_protobuf_wrappers);
  const transport = createConnectTransport({ baseUrl: url, httpVersion: '1.1', useBinaryFormat: false });
  const client = createClient(registry.getService('lab.Lab'), transport);
  return {
    say: async () => (await client.say({ value: 'right' })).value,
    async listen() {
      let last;
      for await (const answer of client.listen({ value: 'right' })) last = answer.value;
      return last;
    },
  };
}
