// BullMQ: jobs by two workers, delayed, repeated after a failure, by priority, limited in rate, and a flow of parents and
// children; its events are heard.
const { Queue, Worker, FlowProducer, QueueEvents } = require('bullmq');
const { port, killed, half, ok, check, until, sleep, again, madeAgain, run } = require('./trial');

const JOBS = 120;
// A worker that is not told whether its job was completed takes it for failed, and does it again.
const defaultJobOptions = { attempts: 3, backoff: 100 };
const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };

run(async () => {
  const counts = new Map();
  const completed = new Set();
  const worked = (name) => counts.set(name, (counts.get(name) ?? 0) + 1);
  const queue = new Queue('work', { connection, defaultJobOptions });
  const events = new QueueEvents('work', { connection });
  events.on('completed', ({ jobId }) => completed.add(jobId));
  const quiet = (of) => of.on('error', (error) => console.error('error', error.message));
  [queue, events].forEach(quiet);
  await events.waitUntilReady();
  const processor = async (job) => {
    worked(job.id);
    if (job.name === 'fails once' && job.attemptsMade === 0) throw new Error('the first time');
    await sleep(10);
    return job.data.number * 2;
  };
  const workers = [1, 2].map(() => new Worker('work', processor, { connection, concurrency: 4, lockDuration: 4000, stalledInterval: 2000 }));
  workers.forEach(quiet);
  const add = (number) => again(() => queue.add('work', { number }, { jobId: `job-${number}` }));
  for (let number = 0; number < JOBS / 2; number++) await add(number);
  half();
  for (let number = JOBS / 2; number < JOBS; number++) await add(number);
  await again(() => queue.add('later', { number: 1 }, { jobId: 'later', delay: 500 }));
  await again(() => queue.add('fails once', { number: 2 }, { jobId: 'twice', attempts: 3, backoff: 100 }));
  await again(() => queue.addBulk([3, 4].map((number) => (
    { name: 'urgent', data: { number }, opts: { jobId: `urgent-${number}`, priority: number } }))));
  const all = JOBS + 4;
  await until(async () => (await again(() => queue.getCompletedCount())) === all,
    () => `${counts.size} of ${all} jobs were begun`, 90000);
  for (let number = 0; number < JOBS; number++) {
    const job = await again(() => queue.getJob(`job-${number}`));
    check(job.returnvalue === number * 2, `job ${number} answered ${job.returnvalue}`);
  }
  check(killed || counts.get('twice') >= 2, 'the job that failed was not made again');
  counts.delete('twice');
  const more = [...counts].filter(([, count]) => count > 1);
  // A worker that cannot tell whether its job is done lets it be taken again.
  check(killed || more.length === 0, `done more than once: ${more}`);
  await until(() => killed || completed.size === all, () => `${completed.size} of ${all} events were heard`);

  const flows = new FlowProducer({ connection });
  quiet(flows);
  const children = [1, 2, 3].map((number) => ({ name: 'child', queueName: 'children', data: { number } }));
  const sums = [];
  const child = new Worker('children', async (job) => job.data.number, { connection });
  const parent = new Worker('parents', async (job) => {
    sums.push(Object.values(await job.getChildrenValues()).reduce((sum, value) => sum + value, 0));
  }, { connection });
  [child, parent].forEach(quiet);
  await again(() => flows.add({ name: 'parent', queueName: 'parents', data: {}, children }));
  await until(() => sums.length === 1, 'the parent was not begun after its children');
  check(sums[0] === 6, `the children's values add up to ${sums[0]}`);

  const times = [];
  const limited = new Queue('limited', { connection });
  quiet(limited);
  const slow = new Worker('limited', async () => times.push(Date.now()), { connection, limiter: { max: 5, duration: 500 } });
  quiet(slow);
  await again(() => limited.addBulk(Array.from({ length: 15 }, (_, number) => ({ name: 'slow', data: {}, opts: { jobId: `s${number}` } }))));
  await until(() => times.length === 15, () => `${times.length} of 15 limited jobs were begun`);
  // Fifteen at five each half second take two waits.
  check(times[14] - times[0] >= 800, `15 jobs at 5 each 500 ms took ${times[14] - times[0]} ms`);
  ok(`${all} jobs done, ${more.length ? `${more.length} more than once` : 'each once'}; flow, rate limit, events${madeAgain()}`);
});
