// redlock: a lock that keeps a counter whole among many holders, with extensions.
const Redis = require('ioredis');
const Redlock = require('redlock');
const { port, half, ok, check, again, madeAgain, run } = require('./trial');

const HOLDERS = 8;
const TURNS = 25;

run(async () => {
  const client = () => new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
  let held = false;
  const hold = async (number) => {
    const store = client();
    const redlock = new Redlock([store], { retryCount: -1, retryDelay: 20, retryJitter: 20 });
    for (let turn = 0; turn < TURNS; turn++) {
      let lock = await again(() => redlock.lock('counter-lock', 15000));
      check(!held, 'two hold the lock');
      held = true;
      const count = Number(await again(() => store.get('counter')));
      if (turn % 5 === 0) lock = await again(() => lock.extend(15000)).catch(() => lock);
      await again(() => store.set('counter', count + 1));
      held = false;
      // Released or not: it runs out.
      await lock.unlock().catch((error) => console.error('unlock', error.message));
      if (number === 0 && turn === Math.floor(TURNS / 2)) half();
    }
    store.disconnect();
  };
  await Promise.all(Array.from({ length: HOLDERS }, (_, number) => hold(number)));
  const count = Number(await client().get('counter'));
  check(count === HOLDERS * TURNS, `${count} of ${HOLDERS * TURNS}`);
  ok(`${count} turns of ${HOLDERS} holders, none at once with another${madeAgain()}`);
});
