// rate-limiter-flexible: as many as are allowed pass, and no more, with many clients at once.
const Redis = require('ioredis');
const { RateLimiterRedis, RateLimiterRes } = require('rate-limiter-flexible');
const { port, killed, half, ok, check, again, sleep, madeAgain, run } = require('./trial');

const USERS = 20;

run(async () => {
  const clients = [1, 2, 3].map(() => new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null }));
  const limiter = (storeClient, more) => new RateLimiterRedis({ storeClient, points: 50, duration: 60, keyPrefix: 'limit', ...more });
  const limiters = clients.map((client) => limiter(client, {}));
  // Whether it passes; a refusal is an answer, not a failure.
  const passes = (of, key) => again(() => of.consume(key).then(() => true, (refusal) => {
    if (refusal instanceof RateLimiterRes) return false;
    throw refusal;
  }));
  const passed = [];
  for (let user = 0; user < USERS; user++) {
    if (user === USERS / 2) half();
    const tries = Array.from({ length: 90 }, (_, number) => passes(limiters[number % 3], `user-${user}`));
    passed.push((await Promise.all(tries)).filter(Boolean).length);
  }
  const fewer = passed.filter((count) => count < 50).length;
  // A point whose answer is lost may be taken: fewer pass then, never more.
  check(passed.every((count) => count <= 50) && (killed || fewer === 0), `passed: ${passed}`);
  const short = limiter(clients[0], { points: 1, duration: 1, keyPrefix: 'short' });
  check(await passes(short, 'a'), 'the first is refused');
  check(!(await passes(short, 'a')), 'the second passes');
  await sleep(1200);
  check(await passes(short, 'a'), 'it is refused after its time');
  ok(`50 of 90 passed for ${USERS - fewer} of ${USERS} users${fewer ? ', fewer for the others' : ''}${madeAgain()}`);
});
