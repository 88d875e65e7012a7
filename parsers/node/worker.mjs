// The worker of workerd, which runs Cloudflare's.
import { respond } from './answer.mjs'

export default { fetch: respond }
