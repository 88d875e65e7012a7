// bun.mjs FRAMEWORK PORT serves Bun's own Request, or Elysia.
import { answer, pick, respond } from './answer.mjs'

const [framework, port] = process.argv.slice(2)
if (framework === 'bun') {
  console.log(`Bun ${Bun.version}`)
  Bun.serve({ port: Number(port), hostname: '127.0.0.1', fetch: respond })
} else {
  const { Elysia } = await import(process.env.MODULES + '/elysia')
  const { version } = await Bun.file(process.env.MODULES + '/elysia/package.json').json()
  console.log(`Elysia ${version}, Bun ${Bun.version}`)
  new Elysia()
    .post('/body', ({ body, headers }) => (typeof body === 'object' ? pick(body, headers['x-asked'], false) : answer(undefined)))
    .onError(({ error, set }) => {
      set.status = 400
      return 'refused: ' + error
    })
    .listen({ port: Number(port), hostname: '127.0.0.1' })
}
