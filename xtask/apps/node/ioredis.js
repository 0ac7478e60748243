// ioredis: pipelines, transactions, a script, publish and subscribe, blocking pops, a scan.
const Redis = require('ioredis');
const { port, killed, half, ok, check, again, until, madeAgain, run } = require('./trial');

const ITEMS = 200;

run(async () => {
  const client = () => new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null, autoPipeline: false });
  const store = client();
  store.defineCommand('putOnce', { numberOfKeys: 2, lua: `
    if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end
    return redis.call('RPUSH', KEYS[1], ARGV[1])` });
  const heard = [];
  const subscriber = client();
  subscriber.on('message', (_, message) => heard.push(Number(message)));
  await subscriber.subscribe('news');

  const popped = new Map();
  let closing = false;
  const consume = async () => {
    const own = client();
    while (!closing) {
      const answer = await again(() => own.blpop('queue', 1));
      if (answer) popped.set(answer[1], (popped.get(answer[1]) ?? 0) + 1);
    }
  };
  const consumers = [1, 2, 3].map(consume);
  for (let number = 0; number < ITEMS; number++) {
    if (number === ITEMS / 2) half();
    await again(() => store.putOnce('queue', 'seen', String(number)));
    await again(() => store.publish('news', number));
    const [[, left], [, right]] = await again(() => store.multi().set('left', number).set('right', number).exec());
    check(left === 'OK' && right === 'OK', 'a transaction answered otherwise');
    const both = await again(() => store.mget('left', 'right'));
    check(both[0] === both[1], `a transaction was seen in part: ${both}`);
  }
  await until(async () => (await again(() => store.llen('queue'))) === 0, 'the queue is not emptied');
  closing = true;
  await Promise.all(consumers);
  const lost = ITEMS - popped.size;
  // An element whose answer is lost with the node is popped all the same; each consumer waits for one.
  check(killed ? lost <= 3 : lost === 0, `${lost} elements were never popped`);
  check([...popped.values()].every((count) => count === 1), 'an element was popped twice');
  check(heard.every((number, at) => at === 0 || number >= heard[at - 1]), 'messages came out of order');
  check(killed || heard.length === ITEMS, `${heard.length} of ${ITEMS} messages`);

  const pipeline = store.pipeline();
  for (let number = 0; number < 1000; number++) pipeline.set(`key:${number}`, number);
  check((await pipeline.exec()).every(([error]) => !error), 'a pipeline failed');
  const keys = new Set();
  for await (const page of store.scanStream({ match: 'key:*', count: 100 })) page.forEach((key) => keys.add(key));
  check(keys.size === 1000, `${keys.size} of 1000 keys scanned`);
  ok(`${ITEMS} elements popped, ${lost ? `${lost} lost` : 'each once'}; ${heard.length} of ${ITEMS} messages; transactions, scan${madeAgain()}`);
});
