// What a way of reading answers: the value that it has for the asked name.
export function answer(value) {
  if (value === undefined || value === null) return 'none'
  if (typeof value === 'string') return 'text ' + JSON.stringify(value)
  if (typeof value === 'number') return 'number ' + (Object.is(value, -0) ? '-0' : value)
  return 'other ' + JSON.stringify(value)
}

// The value in what a parser has made of a form, or of a document. Some parsers make objects of names with brackets.
export function pick(from, asked, nests) {
  if (from === undefined || from === null) return 'none'
  if (asked === 'user.email') return answer(from.user?.email)
  return answer((asked === 'user[email]' && nests && from.user?.email) || from[asked])
}

// The ways of the standard Request, which Node, Bun, Deno and workerd each have.
export async function readRequest(request, way, asked) {
  if (way === 'json') return pick(await request.json(), asked)
  const form = await request.formData()
  return way === 'get' ? answer(form.get(asked)) : pick(Object.fromEntries(form), asked, false)
}

export async function respond(request) {
  try {
    const way = new URL(request.url).pathname.slice(1)
    return new Response(await readRequest(request, way, request.headers.get('x-asked')))
  } catch (error) {
    return new Response('refused: ' + error, { status: 400 })
  }
}
