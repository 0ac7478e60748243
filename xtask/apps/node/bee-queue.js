// bee-queue: jobs by two workers, with results, progress, retries and a delay.
const Queue = require('bee-queue');
const { port, killed, half, ok, check, until, sleep, again, madeAgain, run } = require('./trial');

const JOBS = 120;

run(async () => {
  const redis = { port, retry_strategy: () => 100 };
  const make = (isWorker) => {
    const queue = new Queue('work', {
      redis, isWorker, activateDelayedJobs: true, stallInterval: 2000, removeOnSuccess: false, autoConnect: true,
    });
    queue.on('error', (error) => console.error('error', error.message));
    return queue;
  };
  const counts = new Map();
  const worked = (name) => counts.set(name, (counts.get(name) ?? 0) + 1);
  const workers = [make(true), make(true)];
  workers.forEach((queue) => queue.process(4, async (job) => {
    worked(job.data.name);
    if (job.data.name === 'twice' && counts.get('twice') === 1) throw new Error('the first time');
    await sleep(10);
    return job.data.name;
  }));
  workers.forEach((queue) => queue.checkStalledJobs(1000));
  const queue = make(false);
  const results = new Map();
  queue.on('job succeeded', (id, result) => results.set(id, result));
  await queue.ready();
  const add = (name, change = (job) => job) => again(() => change(queue.createJob({ name })).setId(name).timeout(10000).retries(2).save());
  for (let number = 0; number < JOBS / 2; number++) await add(`job-${number}`);
  half();
  for (let number = JOBS / 2; number < JOBS; number++) await add(`job-${number}`);
  await add('later', (job) => job.delayUntil(Date.now() + 500));
  await add('twice');
  await until(() => counts.size === JOBS + 2, () => `${counts.size} of ${JOBS + 2} jobs were begun`, 90000);
  await until(async () => (await again(() => queue.checkHealth())).succeeded === JOBS + 2, 'not all jobs have succeeded', 60000);
  check(killed || counts.get('twice') >= 2, 'the job that failed was not made again');
  counts.delete('twice');
  await until(() => killed || results.size === JOBS + 2, () => `${results.size} results were heard`);
  const more = [...counts].filter(([, count]) => count > 1);
  check(killed || more.length === 0, `done more than once: ${more}`);
  ok(`${JOBS + 2} jobs done, ${more.length ? `${more.length} more than once` : 'each once'}${madeAgain()}`);
});
