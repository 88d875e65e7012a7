// server.mjs FRAMEWORK PORT serves one framework. It prints the version first.
//
// The first element of a path is the way to read, the header X-Asked the name that is asked for.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { answer, pick, respond } from './answer.mjs'

const [framework, port] = process.argv.slice(2)
const hostname = '127.0.0.1'
const require = createRequire(process.env.MODULES + '/')

const refusal = error => 'refused: ' + String(error?.message ?? error).slice(0, 200)
const wayOf = url => url.split('?')[0].slice(1)

// The parsers of body-parser and multer. "simple" has names without objects.
function express(name) {
  const module = require(name)
  const multer = require('multer')()
  const app = module()
  const read = nests => (request, response) => response.type('text').send(pick(request.body, request.get('X-Asked'), nests))
  app.post('/extended', module.urlencoded({ extended: true }), multer.any(), read(true))
  app.post('/simple', module.urlencoded({ extended: false }), multer.any(), read(true))
  app.post('/json', module.json(), read(true))
  app.post('/json-any-type', module.json({ type: () => true }), read(true))
  app.post('/lodash', module.json(), (request, response) => {
    response.type('text').send(answer(require('lodash').get(request.body, request.get('X-Asked'))))
  })
  app.use((error, request, response, next) => response.status(error.status || 500).send(refusal(error)))
  app.listen(port, hostname)
}

async function fastify() {
  const app = require('fastify')()
  app.register(require('@fastify/formbody'))
  app.register(require('@fastify/multipart'), { attachFieldsToBody: 'keyValues' })
  const read = async (request, reply) => {
    reply.type('text/plain')
    return pick(request.body, request.headers['x-asked'], request.url.startsWith('/json'))
  }
  app.post('/form', read)
  app.post('/json', read)
  app.setErrorHandler((error, request, reply) => reply.code(error.statusCode || 500).send(refusal(error)))
  await app.listen({ port: Number(port), host: hostname })
}

async function koa() {
  const Koa = require('koa')
  const { bodyParser } = await import(require.resolve('@koa/bodyparser'))
  const { koaBody } = require('koa-body')
  const app = new Koa()
  const parsers = { form: bodyParser(), json: bodyParser(), 'koa-body': koaBody({ multipart: true, formidable: { uploadDir: tmpdir() } }) }
  app.use(async context => {
    try {
      await parsers[wayOf(context.url)](context, async () => {})
      context.body = pick(context.request.body, context.get('X-Asked'), true)
    } catch (error) {
      context.status = error.status || 400
      context.body = refusal(error)
    }
  })
  app.listen(port, hostname)
}

async function hono() {
  const { Hono } = require('hono')
  const { serve } = require('@hono/node-server')
  const app = new Hono()
  app.post('/form', async context => context.text(pick(await context.req.parseBody(), context.req.header('X-Asked'), false)))
  app.post('/dots', async context => context.text(pick(await context.req.parseBody({ dot: true }), context.req.header('X-Asked'), false)))
  app.post('/json', async context => context.text(pick(await context.req.json(), context.req.header('X-Asked'))))
  app.onError((error, context) => context.text(refusal(error), 400))
  serve({ fetch: app.fetch, port: Number(port), hostname })
}

async function hapi() {
  const server = require('@hapi/hapi').server({ port, host: hostname })
  const read = request => pick(request.payload, request.headers['x-asked'], false)
  const options = { payload: { multipart: true, maxBytes: 4 << 20 } }
  server.route({ method: 'POST', path: '/{way}', options, handler: (request, h) => h.response(read(request)).type('text/plain') })
  await server.start()
}

async function h3() {
  const { H3, readBody, serve } = await import(require.resolve('h3'))
  const app = new H3()
  const text = (event, from) => new Response(pick(from, event.req.headers.get('x-asked'), false))
  app.post('/body', async event => text(event, await readBody(event)))
  app.post('/form', async event => text(event, Object.fromEntries(await event.req.formData())))
  serve(app, { port: Number(port), hostname, silent: true })
}

// Servers of node:http with a parser that takes the request.
function plain(read) {
  createServer(async (request, response) => {
    try {
      response.end(await read(request))
    } catch (error) {
      response.statusCode = 400
      response.end(refusal(error))
    }
  }).listen(port, hostname)
}

const one = values => (Array.isArray(values) && values.length === 1 ? values[0] : values)

function formidable() {
  const { formidable } = require('formidable')
  plain(async request => {
    const [fields] = await formidable({ uploadDir: tmpdir() }).parse(request)
    return answer(one(fields[request.headers['x-asked']]))
  })
}

function multiparty() {
  const { Form } = require('multiparty')
  plain(request => new Promise((resolve, reject) => {
    new Form({ uploadDir: tmpdir() }).parse(request, (error, fields) => {
      if (error) reject(error)
      else resolve(answer(one(fields[request.headers['x-asked']])))
    })
  }))
}

// The standard Request, as frameworks build one from what node:http gives.
function standard(Request) {
  plain(async request => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const headers = new Headers()
    for (let i = 0; i < request.rawHeaders.length; i += 2) headers.append(request.rawHeaders[i], request.rawHeaders[i + 1])
    headers.delete('content-length')
    const response = await respond(new Request('http://x' + request.url, { method: 'POST', headers, body: Buffer.concat(chunks) }))
    if (!response.ok) throw await response.text()
    return response.text()
  })
}

function undici() {
  standard(require('undici').Request)
}

const servers = {
  'express 5': () => express('express'), 'express 4': () => express('express4'), fastify, koa, hono, hapi, h3, formidable, multiparty,
  undici, node: () => standard(Request),
}
const packages = {
  'express 5': ['express', 'multer'], 'express 4': ['express4', 'multer'], fastify: ['fastify', '@fastify/multipart'],
  koa: ['@koa/bodyparser', 'koa-body'], hapi: ['@hapi/hapi'], node: [],
}

// The names of packages with their versions, which not all let others require.
function versions() {
  const { readFileSync } = require('node:fs')
  const named = (packages[framework] ?? [framework]).map(name => {
    const { version } = JSON.parse(readFileSync(`${process.env.MODULES}/${name}/package.json`))
    return `${name.replace(/^express4$/, 'express')} ${version}`
  })
  return [...named, `Node ${process.versions.node}`].join(', ')
}

console.log(versions())
await servers[framework]()
