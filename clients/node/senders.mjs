// Does the job of a client that sends or fetches on its own: node senders.mjs CLIENT URL. What has arrived the backend counts;
// what was fetched is in files. The job ends with 1 when the client reports an error, and with 0 when it reports none.
import { writeFileSync } from 'node:fs';

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

// until waits until a condition holds, a minute at most.
async function until(holds) {
  for (let i = 0; i < 600 && !holds(); i++) await pause(100);
}

const jobs = {
  // Three sessions, one after another, with four messages each.
  async socket(url) {
    const { io } = await import('socket.io-client');
    for (let session = 0; session < 3; session++) {
      const socket = io(url, { transports: ['polling'], forceNew: true });
      socket.on('connect_error', (e) => console.log('connect_error', e.message, e.context?.status ?? ''));
      socket.on('disconnect', (reason, e) => console.log('disconnect', reason, e?.context?.status ?? ''));
      await until(() => socket.connected);
      for (let i = 0; i < 4; i++) {
        socket.emit('word', session, i);
        await pause(200);
      }
      await until(() => socket.connected && socket.sendBuffer.length === 0 && socket.io.engine.writeBuffer.length === 0);
      socket.disconnect();
    }
  },
  replicateOnce: (url) => replicate(url, {}),
  replicateLive: (url) => replicate(url, { live: true, retry: true }),
  // Three homes with a calendar of three events each.
  async calendars(url) {
    const { fetchCalendarObjects, fetchCalendars } = await import('tsdav');
    for (let i = 0; i < 3; i++) {
      const account = { accountType: 'caldav', serverUrl: url, rootUrl: url, homeUrl: `${url}/home${i}/` };
      const calendars = await fetchCalendars({ account });
      console.log(`home ${i}: ${calendars.length} calendars`);
      for (const calendar of calendars) {
        const events = await fetchCalendarObjects({ calendar });
        events.filter(({ data }) => /VEVENT/.test(data)).forEach(({ data }, j) => writeFileSync(`${i}-${j}.ics`, data));
      }
    }
  },
  // A file of five parts.
  async upload(url) {
    const { Upload } = await import('tus-js-client');
    await new Promise((resolve, reject) => {
      new Upload(Buffer.from('right'), { endpoint: `${url}/files`, chunkSize: 1, onError: reject, onSuccess: resolve }).start();
    });
  },
  // Four writes of five points each. The client is closed when all points are written.
  async points(url) {
    let left = 20;
    const api = await pointsApi(url, (lines) => { left -= lines.length; });
    await until(() => left === 0);
    await api.close();
  },
  // The same, but the client is closed at once, as at the end of a script.
  async pointsClosed(url) {
    await (await pointsApi(url, () => {})).close();
  },
};

async function pointsApi(url, writeSuccess) {
  const { InfluxDB, Point } = await import('@influxdata/influxdb-client');
  const api = new InfluxDB({ url, token: 'lab' }).getWriteApi('lab', 'lab', 'ns', { batchSize: 5, writeSuccess });
  for (let i = 1; i <= 20; i++) {
    api.writePoint(new Point('word').intField('value', i).timestamp(i));
    if (i % 5 === 0) await pause(100);
  }
  return api;
}

// replicate sends 30 documents, five at a time.
async function replicate(url, options) {
  const { default: PouchDB } = await import('pouchdb');
  const local = new PouchDB('local');
  await local.bulkDocs([...Array(30).keys()].map((i) => ({ _id: `document${i}` })));
  const replication = local.replicate.to(`${url}/lab`, { batch_size: 5, ...options });
  let written = 0;
  replication.on('change', (info) => { written = info.docs_written; });
  replication.on('paused', (e) => console.log('paused', e?.message ?? ''));
  if (options.live) {
    replication.catch((e) => { throw e; });
    await until(() => written === 30);
    replication.cancel();
  }
  const { ok, status } = await replication;
  console.log('replication', ok, status);
}

const [name, url] = process.argv.slice(2);
try {
  await jobs[name](url);
} catch (e) {
  console.log(`error ${e?.constructor?.name}: ${e?.message}`);
  process.exit(1);
}
process.exit(0);
