// BullMQ by the kinds of work that its tests are about: queues, workers, flows and limits of rates. Each check has queues of its own.
const { Queue, Worker, FlowProducer, QueueEvents, UnrecoverableError, DelayedError, WaitingChildrenError } = require('bullmq');
const IORedis = require('ioredis');
const { port, check, until, sleep, run, checks } = require('./trial');

const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
const same = (found, wanted, what) => check(JSON.stringify(found) === JSON.stringify(wanted), `${what}: ${JSON.stringify(found)} for ${JSON.stringify(wanted)}`);
const refused = async (call, what) => check(await call().then(() => false, () => true), `${what} was not refused`);
const numbers = (count) => Array.from({ length: count }, (_, number) => number);

let made = 0;
// What a check opens, and closes again.
class Bench {
  constructor() { [this.name, this.opened, this.heard] = [`work-${process.pid}-${made++}`, [], []]; }

  open(one) {
    one.on('error', (error) => console.error('error', error.message));
    this.opened.push(one);
    return one;
  }

  queue(name = this.name, options = {}) { return this.open(new Queue(name, { connection, ...options })); }

  worker(processor, options = {}, name = this.name) { return this.open(new Worker(name, processor, { connection, drainDelay: 1, ...options })); }

  flow() { return this.open(new FlowProducer({ connection })); }

  // Listens to events of these kinds, from the first on.
  async events(...kinds) {
    const events = this.open(new QueueEvents(this.name, { connection, lastEventId: '0-0' }));
    kinds.forEach((kind) => events.on(kind, (event) => this.heard.push({ kind, ...event })));
    await events.waitUntilReady();
    return events;
  }

  hears(kind, count) { return until(() => this.heard.filter((event) => event.kind === kind).length >= count, () => `${kind}: ${JSON.stringify(this.heard)}`, 20000); }

  async close() {
    await Promise.all(this.opened.filter((one) => one instanceof Worker).map((one) => one.close(true)));
    const queues = this.opened.filter((one) => one instanceof Queue);
    for (const queue of queues) await queue.obliterate({ force: true });
    await Promise.all(this.opened.filter((one) => !(one instanceof Worker)).map((one) => one.close()));
  }
}

const done = (queue, count, state = 'completed') => until(async () => (await queue.getJobCountByTypes(state)) >= count, `${count} jobs are not ${state}`, 30000);
const bulk = (queue, count, opts = {}) => queue.addBulk(numbers(count).map((number) => ({ name: 'job', data: { number }, opts })));

const queues = {
  'what is set for a queue is known': async (bench) => {
    const queue = bench.queue();
    check((await queue.getVersion()).startsWith('bullmq:'), 'a queue does not know its version');
    await queue.setGlobalConcurrency(3);
    await queue.setGlobalRateLimit(4, 500);
    same([await queue.getGlobalConcurrency(), await queue.getGlobalRateLimit()], [3, { max: 4, duration: 500 }], 'settings');
    await queue.pause();
    check(await queue.isPaused(), 'it is not paused');
    await queue.resume();
    await queue.removeGlobalConcurrency();
    await queue.removeGlobalRateLimit();
    same([await queue.isPaused(), await queue.getGlobalConcurrency(), await queue.getGlobalRateLimit()], [false, null, null], 'what is left');
  },
  'jobs are counted by their states and listed in their order': async (bench) => {
    const queue = bench.queue();
    await bulk(queue, 4);
    await bulk(queue, 3, { delay: 60000 });
    await bulk(queue, 2, { priority: 5 });
    same(await queue.getJobCounts('waiting', 'delayed', 'prioritized', 'failed'), { waiting: 4, delayed: 3, prioritized: 2, failed: 0 }, 'counts');
    same((await queue.getJobs(['waiting'], 1, 2, true)).map((job) => job.data.number), [1, 2], 'a range');
    same(await queue.getCountsPerPriority([5, 6]), { 5: 2, 6: 0 }, 'by priority');
    check((await queue.count()) === 9, `${await queue.count()} wait`);
  },
  'an id is given once': async (bench) => {
    const queue = bench.queue();
    await queue.add('job', { number: 1 }, { jobId: 'mine' });
    await queue.add('job', { number: 2 }, { jobId: 'mine' });
    same([(await queue.getJob('mine')).data.number, await queue.getWaitingCount()], [1, 1], 'the first');
    await refused(() => queue.add('job', {}, { jobId: '7' }), 'a number as an id');
    await refused(() => queue.add('job', {}, { jobId: 'a:b' }), 'an id with a colon');
    const ids = (await bulk(queue, 5)).map((job) => Number(job.id));
    same(ids, numbers(5).map((number) => ids[0] + number), 'ids that are made');
  },
  'a drain removes what waits, and what is delayed if asked': async (bench) => {
    const queue = bench.queue();
    await bulk(queue, 5);
    await bulk(queue, 5, { priority: 2 });
    await bulk(queue, 2, { delay: 60000 });
    await queue.drain();
    same(await queue.getJobCounts('waiting', 'prioritized', 'delayed'), { waiting: 0, prioritized: 0, delayed: 2 }, 'after a drain');
    await queue.drain(true);
    check((await queue.count()) === 0, 'delayed jobs are left');
  },
  'what has failed or is done is taken up again': async (bench) => {
    const [queue, seen] = [bench.queue(), new Map()];
    bench.worker(async (job) => {
      seen.set(job.id, (seen.get(job.id) ?? 0) + 1);
      if (seen.get(job.id) === 1) throw new Error('the first time');
    }, { concurrency: 4 });
    await bulk(queue, 8);
    await done(queue, 8, 'failed');
    await queue.retryJobs({ count: 3 });
    await done(queue, 8);
    check((await queue.getFailedCount()) === 0, 'failed jobs are left');
    await queue.retryJobs({ state: 'completed' });
    await until(() => [...seen.values()].every((count) => count === 3), () => `runs: ${[...seen.values()]}`);
  },
  'delayed jobs are promoted': async (bench) => {
    const queue = bench.queue();
    await bulk(queue, 20, { delay: 60000 });
    await (await queue.getDelayed(0, 0))[0].promote();
    check((await queue.getWaitingCount()) === 1, 'one was not promoted');
    await queue.promoteJobs({ count: 5 });
    bench.worker(async () => {});
    await done(queue, 20);
  },
  'old jobs are cleaned, so many at a time': async (bench) => {
    const queue = bench.queue();
    bench.worker(async (job) => { if (job.data.number % 2) throw new Error('odd'); });
    await bulk(queue, 10);
    await done(queue, 5);
    await done(queue, 5, 'failed');
    check((await queue.clean(60000, 100, 'completed')).length === 0, 'young jobs were cleaned');
    check((await queue.clean(0, 3, 'completed')).length === 3, 'not three');
    check((await queue.clean(0, 100, 'failed')).length === 5, 'not all that failed');
    same(await queue.getJobCounts('completed', 'failed'), { completed: 2, failed: 0 }, 'what is left');
  },
  'nothing is left of a queue that is obliterated': async (bench) => {
    const queue = bench.queue();
    bench.worker(async () => {});
    await bulk(queue, 30);
    await bulk(queue, 30, { delay: 60000 });
    await done(queue, 30);
    await Promise.all(bench.opened.filter((one) => one instanceof Worker).map((one) => one.close()));
    await queue.obliterate();
    const client = new IORedis(connection);
    const left = await client.keys(`bull:${bench.name}:*`);
    await client.quit();
    check(left.every((key) => key.endsWith(':meta')), `left: ${left}`);
  },
  'a job that is removed is told of, and is nowhere': async (bench) => {
    const queue = bench.queue();
    await bench.events('removed', 'added');
    const job = await queue.add('job', { text: 'ä€𝄞', list: [1, { deep: null }], long: 'x'.repeat(200000) });
    same((await queue.getJob(job.id)).data, job.data, 'what was given');
    await job.remove();
    await bench.hears('removed', 1);
    check((await queue.getJob(job.id)) === undefined && (await job.getState()) === 'unknown', 'it is there');
  },
  'a job that is there already is not added anew': async (bench) => {
    const queue = bench.queue();
    await bench.events('deduplicated');
    const first = await queue.add('job', { number: 1 }, { deduplication: { id: 'only' } });
    const second = await queue.add('job', { number: 2 }, { deduplication: { id: 'only' } });
    same([second.id, await queue.getDeduplicationJobId('only'), await queue.getWaitingCount()], [first.id, first.id, 1], 'ids');
    await bench.hears('deduplicated', 1);
    await queue.removeDeduplicationKey('only');
    check((await queue.add('job', {}, { deduplication: { id: 'only', ttl: 300 } })).id !== first.id, 'the key is there');
    await until(async () => (await queue.getDeduplicationJobId('only')) === null, 'its time does not end', 10000);
  },
  'a scheduler makes job after job until it is removed': async (bench) => {
    const [queue, seen] = [bench.queue(), []];
    bench.worker(async (job) => seen.push(job.data.number));
    await queue.upsertJobScheduler('clock', { every: 150 }, { name: 'tick', data: { number: 1 } });
    await until(() => seen.length >= 2, () => `${seen.length} ticks`);
    await queue.upsertJobScheduler('clock', { every: 100 }, { name: 'tick', data: { number: 2 } });
    await until(() => seen.filter((number) => number === 2).length >= 2, () => `ticks: ${seen}`);
    same([await queue.getJobSchedulersCount(), await queue.removeJobScheduler('clock'), await queue.getJobSchedulersCount()], [1, true, 0], 'schedulers');
  },
  'logs, priorities and delays of a job change': async (bench) => {
    const queue = bench.queue();
    const job = await queue.add('job', {}, { delay: 60000 });
    for (const number of numbers(5)) await job.log(`line ${number}`);
    same(await queue.getJobLogs(job.id, 1, 2), { logs: ['line 1', 'line 2'], count: 5 }, 'logs');
    await job.clearLogs(1);
    same((await queue.getJobLogs(job.id)).logs, ['line 4'], 'the last');
    await job.changeDelay(50);
    const events = await bench.events('completed');
    bench.worker(async () => 'later');
    check((await job.waitUntilFinished(events, 20000)) === 'later', 'it was not done sooner');
    await queue.pause();
    const [low, high] = [await queue.add('job', {}, { priority: 9 }), await queue.add('job', {}, { priority: 8 })];
    await low.changePriority({ priority: 1 });
    same((await queue.getPrioritized()).map((one) => one.id), [low.id, high.id], 'by priority');
  },
};

const workers = {
  'five hundred jobs are done once each': async (bench) => {
    const [queue, seen] = [bench.queue(), []];
    numbers(3).forEach(() => bench.worker(async (job) => { seen.push(job.data.number); return job.data.number + 1; }, { concurrency: 25 }));
    await bulk(queue, 500);
    await done(queue, 500);
    same(seen.sort((one, other) => one - other), numbers(500), 'jobs');
    const jobs = await queue.getCompleted();
    check(jobs.length === 500 && jobs.every((job) => job.returnvalue === job.data.number + 1), 'what they answered');
  },
  'jobs come in their order, or the last first': async (bench) => {
    const [queue, seen] = [bench.queue(), []];
    await queue.pause();
    await bulk(queue, 6);
    await bulk(queue, 3, { lifo: true });
    bench.worker(async (job) => seen.push(job.data.number));
    await queue.resume();
    await done(queue, 9);
    same(seen, [2, 1, 0, ...numbers(6)], 'order');
  },
  'jobs come by priority, and of one priority in their order': async (bench) => {
    const [queue, seen] = [bench.queue(), []];
    for (const [number, priority] of [3, 1, 2, 1, 3, 2, 0].entries()) await queue.add('job', { number }, { priority });
    bench.worker(async (job) => seen.push(job.data.number));
    await done(queue, 7);
    same(seen, [6, 1, 3, 2, 5, 0, 4], 'order');
  },
  'a job is tried so often, ever later': async (bench) => {
    const [queue, times] = [bench.queue(), []];
    bench.worker(async () => { times.push(Date.now()); throw new Error(`try ${times.length}`); });
    const job = await queue.add('job', {}, { attempts: 4, backoff: { type: 'exponential', delay: 100 } });
    await done(queue, 1, 'failed');
    const found = await queue.getJob(job.id);
    same([found.attemptsMade, found.failedReason, found.stacktrace.length], [4, 'try 4', 4], 'what is kept');
    numbers(3).forEach((n) => check(times[n + 1] - times[n] >= 95 * 2 ** n, `waits: ${times}`));
  },
  'what cannot be mended is not tried again': async (bench) => {
    const queue = bench.queue();
    bench.worker(async () => { throw new UnrecoverableError('never'); });
    const job = await queue.add('job', {}, { attempts: 5 });
    await done(queue, 1, 'failed');
    check((await queue.getJob(job.id)).attemptsMade === 1, 'it was tried again');
  },
  'as many jobs at a time as a worker takes, or all workers together': async (bench) => {
    let [now, most] = [0, 0];
    const slow = async () => { most = Math.max(most, ++now); await sleep(30); now--; };
    const queue = bench.queue();
    bench.worker(slow, { concurrency: 5 });
    await bulk(queue, 25);
    await done(queue, 25);
    check(most === 5, `${most} at a time`);
    await queue.setGlobalConcurrency(2);
    most = 0;
    bench.worker(slow, { concurrency: 5 });
    await bulk(queue, 12);
    await done(queue, 37);
    check(most === 2, `${most} at a time of two`);
  },
  'a job whose worker is gone is taken by another': async (bench) => {
    const queue = bench.queue();
    await bench.events('stalled');
    const gone = bench.worker(null, { lockDuration: 400 });
    const job = await queue.add('job', { number: 1 });
    check((await gone.getNextJob('token')).id === job.id, 'it took nothing');
    bench.worker(async () => 'by another', { stalledInterval: 200, lockDuration: 400 });
    await done(queue, 1);
    await bench.hears('stalled', 1);
    check((await queue.getJob(job.id)).returnvalue === 'by another', 'not by the other');
  },
  'a job is ended by who holds its lock': async (bench) => {
    const queue = bench.queue();
    const hand = bench.worker(null);
    await bulk(queue, 3);
    const [one, other] = [await hand.getNextJob('mine'), await hand.getNextJob('mine')];
    await refused(() => one.moveToCompleted('x', 'not mine', false), 'the lock of another');
    await one.moveToCompleted('value', 'mine', false);
    await other.moveToFailed(new Error('by hand'), 'mine', false);
    same([await one.getState(), await other.getState(), await queue.getWaitingCount()], ['completed', 'failed', 1], 'states');
    const third = await hand.getNextJob('mine');
    check((await third.extendLock('mine', 5000)) === 1, 'its lock is not its');
    await third.moveToWait('mine');
    check((await third.getState()) === 'waiting', 'it does not wait');
  },
  'a job puts itself off': async (bench) => {
    const [queue, times] = [bench.queue(), []];
    bench.worker(async (job, token) => {
      times.push(Date.now());
      if (times.length > 1) return 'done';
      await job.updateData({ step: 2 });
      await job.moveToDelayed(Date.now() + 300, token);
      throw new DelayedError();
    });
    const job = await queue.add('job', { step: 1 });
    await done(queue, 1);
    check(times[1] - times[0] >= 290, `it came back after ${times[1] - times[0]} ms`);
    same((await queue.getJob(job.id)).data, { step: 2 }, 'its data');
  },
  'as many old jobs are kept as asked for': async (bench) => {
    const queue = bench.queue(undefined, { defaultJobOptions: { removeOnComplete: { count: 3 }, removeOnFail: true } });
    const seen = [];
    bench.worker(async (job) => { seen.push(job.id); if (job.data.number === 4) throw new Error('one'); });
    await bulk(queue, 10);
    await until(async () => seen.length === 10 && (await queue.getActiveCount()) === 0, 'they do not end');
    same(await queue.getJobCounts('completed', 'failed'), { completed: 3, failed: 0 }, 'kept');
  },
  'a worker and a queue pause and go on': async (bench) => {
    const [queue, seen] = [bench.queue(), []];
    await bench.events('paused', 'resumed', 'drained');
    const worker = bench.worker(async (job) => seen.push(job.data.number));
    await worker.waitUntilReady();
    await worker.pause();
    await bulk(queue, 3);
    check(worker.isPaused() && seen.length === 0, 'a paused worker works');
    worker.resume();
    await done(queue, 3);
    await queue.pause();
    await bulk(queue, 3);
    await queue.resume();
    await done(queue, 6);
    await bench.hears('resumed', 1);
    await bench.hears('drained', 1);
  },
  'progress and results are heard': async (bench) => {
    const queue = bench.queue();
    const events = await bench.events('progress', 'active', 'completed', 'failed', 'waiting');
    bench.worker(async (job) => {
      await job.updateProgress(50);
      await job.updateProgress({ of: 2, at: 1 });
      if (job.data.fails) throw new Error('as told');
      return { answer: 42 };
    });
    const job = await queue.add('job', {});
    same(await job.waitUntilFinished(events, 20000), { answer: 42 }, 'result');
    await refused(async () => (await queue.add('job', { fails: true })).waitUntilFinished(events, 20000), 'a failure');
    await bench.hears('progress', 4);
    same(bench.heard.filter((event) => event.kind === 'progress' && event.jobId === job.id).map((event) => event.data), [50, { of: 2, at: 1 }], 'progress');
    ['active', 'waiting'].forEach((kind) => check(bench.heard.filter((event) => event.kind === kind).length === 2, `${kind}: ${JSON.stringify(bench.heard)}`));
  },
  'a worker that closes ends what it has begun': async (bench) => {
    const [queue, seen] = [bench.queue(), []];
    const worker = bench.worker(async (job) => { seen.push(job.id); await sleep(200); });
    await bulk(queue, 3);
    await until(() => seen.length === 1, 'it begins nothing');
    await worker.close();
    same(await queue.getJobCounts('completed', 'active', 'waiting'), { completed: 1, active: 0, waiting: 2 }, 'states');
  },
};

const flows = {
  'children come before their parents, over queues and generations': async (bench) => {
    const [above, between, below] = ['above', 'between', 'below'].map((part) => `${bench.name}-${part}`);
    const [parents, seen] = [bench.queue(above), []];
    [between, below].forEach((name) => bench.queue(name));
    const add = async (job) => {
      seen.push(job.name);
      return Object.values(await job.getChildrenValues()).reduce((sum, value) => sum + value, job.data.number);
    };
    [above, between, below].forEach((name) => bench.worker(add, { concurrency: 3 }, name));
    const leaf = (number) => ({ name: 'leaf', queueName: below, data: { number } });
    const child = (number) => ({ name: 'child', queueName: between, data: { number }, children: [leaf(number), leaf(10 * number)] });
    const tree = await bench.flow().add({ name: 'root', queueName: above, data: { number: 1000 }, children: [child(1), child(2)] });
    await done(parents, 1);
    check((await parents.getJob(tree.job.id)).returnvalue === 1036, `the sum is ${(await parents.getJob(tree.job.id)).returnvalue}`);
    check(seen.length === 7 && seen.at(-1) === 'root' && seen.indexOf('child') >= 2, `order: ${seen}`);
  },
  'a tree is shown with what is done of it': async (bench) => {
    const [queue, flow] = [bench.queue(), bench.flow()];
    const below = `${bench.name}-below`;
    const kids = bench.queue(below);
    const tree = await flow.add({ name: 'root', queueName: bench.name, data: {}, children: numbers(5).map((number) => ({ name: 'child', queueName: below, data: { number } })) });
    const hand = bench.worker(null, {}, below);
    for (const number of numbers(2)) await (await hand.getNextJob('mine')).moveToCompleted(number, 'mine', false);
    check((await tree.job.getState()) === 'waiting-children', await tree.job.getState());
    same(await tree.job.getDependenciesCount({ processed: true, unprocessed: true }), { processed: 2, unprocessed: 3 }, 'counts');
    const shown = await flow.getFlow({ id: tree.job.id, queueName: bench.name });
    check(shown.children.length === 5, `${shown.children.length} children`);
    check((await queue.getDependencies(tree.job.id, 'processed', 0, 10)).total === 2, 'pages of what is done');
    await kids.drain();
  },
  'a child that fails fails its parents': async (bench) => {
    const [queue, below, lowest] = [bench.queue(), `${bench.name}-below`, `${bench.name}-lowest`];
    [below, lowest].forEach((name) => bench.queue(name));
    bench.worker(async () => {});
    bench.worker(async () => {}, {}, below);
    bench.worker(async () => { throw new Error('the child'); }, {}, lowest);
    const opts = { failParentOnFailure: true };
    const leaf = { name: 'leaf', queueName: lowest, data: {}, opts };
    const tree = await bench.flow().add({ name: 'root', queueName: bench.name, data: {}, children: [{ name: 'child', queueName: below, data: {}, opts, children: [leaf] }] });
    await done(queue, 1, 'failed');
    check((await tree.children[0].job.getState()) === 'failed', 'the one between');
    check((await queue.getJob(tree.job.id)).failedReason.includes('failed'), (await queue.getJob(tree.job.id)).failedReason);
  },
  'a parent goes on without children that have failed': async (bench) => {
    const [queue, below] = [bench.queue(), `${bench.name}-below`];
    bench.queue(below);
    bench.worker(async (job) => ({ values: Object.values(await job.getChildrenValues()), ignored: Object.values(await job.getIgnoredChildrenFailures()) }));
    bench.worker(async (job) => { if (job.data.number) throw new Error('the child'); return 'fine'; }, {}, below);
    for (const [opts, ignored] of [[{ ignoreDependencyOnFailure: true }, ['the child']], [{ removeDependencyOnFailure: true }, []]]) {
      const children = numbers(2).map((number) => ({ name: 'child', queueName: below, data: { number }, opts }));
      const { job } = await bench.flow().add({ name: 'root', queueName: bench.name, data: {}, children });
      await until(() => job.isCompleted(), `the parent is not done: ${JSON.stringify(opts)}`);
      same((await queue.getJob(job.id)).returnvalue, { values: ['fine'], ignored }, JSON.stringify(opts));
    }
  },
  'a parent begins at the first failure if asked': async (bench) => {
    const [queue, below] = [bench.queue(), `${bench.name}-below`];
    const kids = bench.queue(below);
    bench.worker(async (job) => {
      const failures = Object.values(await job.getIgnoredChildrenFailures());
      await job.removeUnprocessedChildren();
      return failures;
    });
    const hand = bench.worker(null, {}, below);
    const children = numbers(3).map((number) => ({ name: 'child', queueName: below, data: { number }, opts: { continueParentOnFailure: true } }));
    const { job } = await bench.flow().add({ name: 'root', queueName: bench.name, data: {}, children });
    await (await hand.getNextJob('mine')).moveToFailed(new Error('the first'), 'mine', false);
    await done(queue, 1);
    same((await queue.getJob(job.id)).returnvalue, ['the first'], 'failures');
    check((await kids.getWaitingCount()) === 0, 'the others are left');
  },
  'a job waits for children that it adds while it runs': async (bench) => {
    const [queue, below] = [bench.queue(), `${bench.name}-below`];
    const kids = bench.queue(below);
    bench.worker(async (job) => job.data.number * 3, {}, below);
    bench.worker(async (job, token) => {
      if (job.data.step === 1) {
        await kids.addBulk(numbers(4).map((number) => ({ name: 'child', data: { number }, opts: { parent: { id: job.id, queue: job.queueQualifiedName } } })));
        await job.updateData({ step: 2 });
      }
      if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
      return Object.values(await job.getChildrenValues()).sort((one, other) => one - other);
    });
    const job = await queue.add('root', { step: 1 });
    await done(queue, 1);
    same((await queue.getJob(job.id)).returnvalue, [0, 3, 6, 9], 'values');
  },
  'trees are added together, and removed with their children': async (bench) => {
    const [queue, below] = [bench.queue(), `${bench.name}-below`];
    const kids = bench.queue(below);
    const tree = (number) => ({ name: 'root', queueName: bench.name, data: { number }, opts: { priority: number + 1 }, children: numbers(3).map((child) => ({ name: 'child', queueName: below, data: { child }, opts: { delay: child ? 0 : 60000 } })) });
    const trees = await bench.flow().addBulk(numbers(4).map(tree));
    same([await queue.getWaitingChildrenCount(), await kids.getWaitingCount(), await kids.getDelayedCount()], [4, 8, 4], 'counts');
    await trees[0].job.remove({ removeChildren: true });
    same([await queue.getWaitingChildrenCount(), await kids.getWaitingCount(), await kids.getDelayedCount()], [3, 6, 3], 'without one');
    await trees[1].children[0].job.removeChildDependency();
    same(await trees[1].job.getDependenciesCount({ unprocessed: true }), { unprocessed: 2 }, 'of the second');
  },
};

const limits = {
  'a worker begins no more jobs than its limit': async (bench) => {
    const [queue, times] = [bench.queue(), []];
    bench.worker(async () => times.push(Date.now()), { limiter: { max: 1, duration: 200 } });
    await bulk(queue, 6);
    await done(queue, 6);
    check(times[5] - times[0] >= 5 * 190, `six took ${times[5] - times[0]} ms`);
    check((await queue.getDelayedCount()) === 0, 'they were delayed');
  },
  'two workers share a limit': async (bench) => {
    const [queue, times] = [bench.queue(), []];
    numbers(2).forEach(() => bench.worker(async () => times.push(Date.now()), { concurrency: 10, limiter: { max: 4, duration: 400 } }));
    await bulk(queue, 12);
    await done(queue, 12);
    check(times[11] - times[0] >= 2 * 380, `twelve took ${times[11] - times[0]} ms`);
  },
  'a limit of the queue holds for all its workers until it is removed': async (bench) => {
    const [queue, times] = [bench.queue(), []];
    await queue.setGlobalRateLimit(1, 200);
    numbers(2).forEach(() => bench.worker(async () => times.push(Date.now())));
    await bulk(queue, 5);
    await done(queue, 5);
    check(times[4] - times[0] >= 4 * 190, `five took ${times[4] - times[0]} ms`);
    await queue.removeGlobalRateLimit();
    check((await queue.getGlobalRateLimit()) === null, 'it is there');
    await bulk(queue, 20);
    await done(queue, 25);
  },
  'a job says that there is a limit, and comes again': async (bench) => {
    const [queue, times] = [bench.queue(), []];
    check((await queue.getRateLimitTtl()) === -2, 'there is a limit');
    bench.worker(async (job) => {
      times.push(Date.now());
      if (job.attemptsStarted > 1) return;
      await queue.rateLimit(300);
      const left = await queue.getRateLimitTtl();
      check(left > 0 && left <= 300, `${left} ms are left`);
      throw Worker.RateLimitError();
    }, { limiter: { max: 1, duration: 50 } });
    const job = await queue.add('job', {});
    await done(queue, 1);
    check(times.length === 2 && times[1] - times[0] >= 285, `it came again after ${times[1] - times[0]} ms`);
    check((await queue.getJob(job.id)).attemptsMade === 1, 'that counts as a try');
  },
  'a limit is looked at and taken away': async (bench) => {
    const queue = bench.queue();
    await queue.rateLimit(60000);
    check((await queue.getRateLimitTtl()) > 50000 && (await queue.isMaxed()) === false, 'no limit');
    const seen = [];
    const worker = bench.worker(async () => seen.push(1), { limiter: { max: 10, duration: 100 } });
    await worker.waitUntilReady();
    await bulk(queue, 3);
    check(seen.length === 0, 'it is not kept to');
    await queue.removeRateLimitKey();
    check((await queue.getRateLimitTtl()) === -2, 'it is there');
    await worker.close();
    bench.worker(async () => seen.push(1));
    await done(queue, 3);
  },
  'a limit keeps to priorities': async (bench) => {
    const [queue, seen] = [bench.queue(), []];
    for (const [number, priority] of [5, 1, 4, 2, 3].entries()) await queue.add('job', { number }, { priority });
    bench.worker(async (job) => seen.push(job.data.number), { limiter: { max: 1, duration: 50 } });
    await done(queue, 5);
    same(seen, [1, 3, 4, 2, 0], 'order');
  },
};

run(async () => {
  const parts = { queues, workers, flows, 'limits of rates': limits };
  await checks(parts, async (one) => {
    const bench = new Bench();
    try {
      await one(bench);
    } finally {
      await bench.close();
    }
  });
});
