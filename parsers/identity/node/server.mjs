// server.mjs FRAMEWORK PORT serves one framework. It prints the versions first.
//
// /r answers with an object of what readers have of the request, other paths with what a router takes them for.
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { parse as parseQuery } from 'node:querystring'

const [framework, port] = process.argv.slice(2)
const hostname = '127.0.0.1'
const require = createRequire(process.env.MODULES + '/')

const version = name => {
  for (const folder of require.resolve.paths(name)) {
    try {
      return name.replace('express4', 'express') + ' ' + require(folder + '/' + name + '/package.json').version
    } catch {}
  }
}
const print = (...names) => console.log([...names.map(version), 'Node ' + process.versions.node].join(', '))

// A value, or none where a reader refuses the request.
function attempt(read) {
  try {
    return read()
  } catch {}
}

// What Node itself and small packages have of a request.
function readRequest(request) {
  const { headers, url } = request
  const own = { key: headers['x-api-key'], host: headers.host }
  if (headers.cookie !== undefined) {
    const cookie = require('cookie')
    own['cookie cookie'] = attempt(() => (cookie.parseCookie ?? cookie.parse)(headers.cookie).session)
    own['cookie cookies'] = attempt(() => new (require('cookies'))(request, {}).get('session'))
    own['cookie tough-cookie'] = attempt(() => {
      for (const pair of headers.cookie.split(';')) {
        const parsed = require('tough-cookie').parse(pair, { loose: false })
        if (parsed?.key === 'session') return parsed.value
      }
    })
  }
  own['query querystring'] = attempt(() => parseQuery(url.split('?').slice(1).join('?')).token)
  own['query URL'] = attempt(() => new URL(url, 'http://x').searchParams.get('token'))
  own['host URL'] = attempt(() => new URL('http://' + headers.host).hostname)
  own['basic basic-auth'] = attempt(() => {
    const login = require('basic-auth')(request)
    return login && login.name + '|' + login.pass
  })
  return own
}

function http() {
  print('cookie', 'cookies', 'tough-cookie', 'basic-auth')
  createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(request.url.startsWith('/r') ? readRequest(request) : {}))
  }).listen(port, hostname)
}

// Passport's strategies, express-jwt and cookie-parser.
function express(name) {
  print(name, 'cookie-parser', 'passport', 'passport-http', 'passport-http-bearer', 'passport-jwt', 'express-jwt')
  const app = require(name)()
  const passport = require('passport')
  const { Strategy: Bearer } = require('passport-http-bearer')
  const { BasicStrategy: Basic } = require('passport-http')
  const { Strategy: Jwt, ExtractJwt } = require('passport-jwt')
  passport.use(new Bearer((token, done) => done(null, { value: token })))
  passport.use(new Basic((user, password, done) => done(null, { value: user + '|' + password })))
  const options = { jwtFromRequest: ExtractJwt.fromAuthHeaderAsBearerToken(), secretOrKey: 'secret' }
  passport.use(new Jwt(options, (payload, done) => done(null, { value: payload.sub })))
  app.use(require('cookie-parser')(), passport.initialize())
  app.all('/r', (request, response) => response.json({
    ...readRequest(request), 'cookie cookie-parser': request.cookies.session, 'query express': request.query.token,
    'host hostname': request.hostname,
  }))
  for (const [path, strategy, reader] of [
    ['/token', 'bearer', 'token passport-http-bearer'], ['/basic', 'basic', 'basic passport-http'], ['/jwt', 'jwt', 'jwt passport-jwt'],
  ]) {
    app.all(path, passport.authenticate(strategy, { session: false }), (request, response) => response.json({ [reader]: request.user.value }))
  }
  const { expressjwt } = require('express-jwt')
  app.all('/jwt2', expressjwt({ secret: 'secret', algorithms: ['HS256'] }), (request, response) => {
    response.json({ 'jwt express-jwt': request.auth.sub })
  })
  app.all('/login', (request, response) => response.json({ route: 'login' }))
  app.all('/api/items', (request, response) => response.json({ route: 'items' }))
  app.all('/users/:id', (request, response) => response.json({ route: 'user ' + request.params.id }))
  app.use((request, response) => response.status(404).json({}))
  app.use((error, request, response, next) => response.status(error.status || 500).json({}))
  app.listen(port, hostname)
}

async function fastify() {
  print('fastify', '@fastify/cookie', '@fastify/jwt', '@fastify/bearer-auth', '@fastify/basic-auth')
  const app = require('fastify')()
  let last
  await app.register(require('@fastify/cookie'))
  await app.register(require('@fastify/jwt'), { secret: 'secret' })
  await app.register(async inner => {
    await inner.register(require('@fastify/bearer-auth'), { keys: ['x'], auth: key => { last = key; return true } })
    inner.all('/token', () => ({ 'token bearer-auth': last }))
  })
  await app.register(async inner => {
    await inner.register(require('@fastify/basic-auth'), { validate: async (user, password) => { last = user + '|' + password } })
    inner.addHook('onRequest', inner.basicAuth)
    inner.all('/basic', () => ({ 'basic basic-auth': last }))
  })
  app.all('/jwt', async request => ({ 'jwt @fastify/jwt': (await request.jwtVerify()).sub }))
  app.all('/r', request => ({
    ...readRequest(request.raw), 'cookie @fastify/cookie': request.cookies.session, 'query fastify': request.query.token,
    'host hostname': request.hostname,
  }))
  app.all('/login', () => ({ route: 'login' }))
  app.all('/api/items', () => ({ route: 'items' }))
  app.all('/users/:id', request => ({ route: 'user ' + request.params.id }))
  await app.listen({ port: Number(port), host: hostname })
}

function koa() {
  print('koa', '@koa/router', 'cookies')
  const Koa = require('koa')
  const module = require('@koa/router')
  const Router = module.default ?? module.Router ?? module
  const router = new Router()
  router.all('/r', context => {
    context.body = {
      ...readRequest(context.req), 'cookie koa': context.cookies.get('session'), 'query koa': context.query.token, 'host koa': context.host,
      'host hostname': context.hostname,
    }
  })
  router.all('/login', context => { context.body = { route: 'login' } })
  router.all('/api/items', context => { context.body = { route: 'items' } })
  router.all('/users/:id', context => { context.body = { route: 'user ' + context.params.id } })
  const app = new Koa()
  app.silent = true
  app.use(router.routes()).listen(port, hostname)
}

async function hapi() {
  print('@hapi/hapi', '@hapi/basic')
  const server = require('@hapi/hapi').server({ port, host: hostname })
  await server.register(require('@hapi/basic'))
  server.auth.strategy('login', 'basic', {
    validate: async (request, user, password) => ({ isValid: true, credentials: { value: user + '|' + password } }),
  })
  const serve = (path, handler, options) => server.route({ method: '*', path, handler, options })
  serve('/r', request => ({
    ...readRequest(request.raw.req), 'cookie hapi': request.state.session, 'query hapi': request.query.token,
    'host hapi': request.info.host, 'host hostname': request.info.hostname,
  }))
  serve('/basic', request => ({ 'basic @hapi/basic': request.auth.credentials.value }), { auth: 'login' })
  serve('/login', () => ({ route: 'login' }))
  serve('/api/items', () => ({ route: 'items' }))
  serve('/users/{id}', request => ({ route: 'user ' + request.params.id }))
  await server.start()
}

async function hono() {
  print('hono', '@hono/node-server')
  const load = name => import(require.resolve(name))
  const { Hono } = await load('hono')
  const { serve } = await load('@hono/node-server')
  const { getCookie } = await load('hono/cookie')
  const { bearerAuth } = await load('hono/bearer-auth')
  const { basicAuth } = await load('hono/basic-auth')
  const { jwt } = await load('hono/jwt')
  const app = new Hono()
  const keep = (context, value) => { context.set('kept', value); return true }
  app.all('/r', context => context.json({
    key: context.req.header('x-api-key'), host: context.req.header('host'), 'cookie hono': getCookie(context, 'session'),
    'query hono': context.req.query('token'),
  }))
  app.all('/token', bearerAuth({ verifyToken: (token, context) => keep(context, token) }), context => {
    return context.json({ 'token bearerAuth': context.get('kept') })
  })
  app.all('/basic', basicAuth({ verifyUser: (user, password, context) => keep(context, user + '|' + password) }), context => {
    return context.json({ 'basic basicAuth': context.get('kept') })
  })
  app.all('/jwt', jwt({ secret: 'secret', alg: 'HS256' }), context => context.json({ 'jwt jwt': context.get('jwtPayload').sub }))
  app.all('/login', context => context.json({ route: 'login' }))
  app.all('/api/items', context => context.json({ route: 'items' }))
  app.all('/users/:id', context => context.json({ route: 'user ' + context.req.param('id') }))
  serve({ fetch: app.fetch, port, hostname })
}

const frameworks = { http, 'express 5': () => express('express'), 'express 4': () => express('express4'), fastify, koa, hapi, hono }
await frameworks[framework]()
