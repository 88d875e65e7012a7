// Calls an API with an SDK: node run.mjs SDK URL. Each call is told in a line: ok, bogus (it returned something else than
// data), or error. The first error ends the job.
import { calls } from './sdks.mjs';

const [name, url] = process.argv.slice(2);
const call = await calls[name](url);
let exit = 0;
for (let i = 1; i <= 4 && exit === 0; i++) {
  try {
    const data = await call();
    console.log(data === 'right' ? `${i} ok` : `${i} bogus ${JSON.stringify(data)}`);
  } catch (e) {
    console.log(`${i} error ${e?.constructor?.name}: ${e?.message}`);
    exit = 1;
  }
}
process.exit(exit);
