// deno.mjs PORT serves Deno's own Request.
import { respond } from './answer.mjs'

console.log(`Deno ${Deno.version.deno}`)
Deno.serve({ port: Number(Deno.args[0]), hostname: '127.0.0.1', onListen() {} }, respond)
