// node-redis: transactions with WATCH, scripts, publish and subscribe, streams with a group.
const { createClient, defineScript } = require('redis');
const { port, killed, half, ok, check, again, until, madeAgain, run } = require('./trial');

const ENTRIES = 200;

run(async () => {
  const addOnce = defineScript({
    NUMBER_OF_KEYS: 2,
    SCRIPT: `if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then redis.call('XADD', KEYS[1], '*', 'number', ARGV[1]) end
             return redis.call('SCARD', KEYS[2])`,
    parseCommand(parser, stream, seen, number) {
      parser.pushKey(stream);
      parser.pushKey(seen);
      parser.push(number);
    },
    transformReply: (reply) => reply,
  });
  const client = async () => {
    const made = createClient({ socket: { port, reconnectStrategy: 100 }, scripts: { addOnce } });
    made.on('error', (error) => console.error('error', error.message));
    return made.connect();
  };
  const store = await client();
  const heard = [];
  const subscriber = await client();
  await subscriber.subscribe('news', (message) => heard.push(Number(message)));

  await store.xGroupCreate('stream', 'group', '0', { MKSTREAM: true });
  const worked = new Map();
  let closing = false;
  const consume = async (name) => {
    const own = await client();
    let from = '>';
    while (!closing || from === '0') {
      const answer = await again(() => own.xReadGroup('group', name, { key: 'stream', id: from }, { COUNT: 5, BLOCK: 500 })
        .catch((error) => {
          // What was given out unseen is still this consumer's.
          from = '0';
          throw error;
        }));
      const entries = answer?.[0].messages ?? [];
      if (entries.length === 0) from = '>';
      for (const { id, message } of entries) {
        worked.set(message.number, (worked.get(message.number) ?? 0) + 1);
        await again(() => own.xAck('stream', 'group', id));
      }
    }
  };
  const consumers = ['a', 'b'].map(consume);
  for (let number = 0; number < ENTRIES; number++) {
    if (number === ENTRIES / 2) half();
    await again(() => store.addOnce('stream', 'seen', String(number)));
    await again(() => store.publish('news', String(number)));
  }
  await until(() => worked.size === ENTRIES, () => `${worked.size} of ${ENTRIES} entries were read`);
  const pending = async () => (await again(() => store.xPending('stream', 'group'))).pending;
  await until(async () => (await pending()) === 0, 'entries stay pending');
  closing = true;
  await Promise.all(consumers);
  const more = [...worked.values()].filter((count) => count > 1).length;
  check(killed || more === 0, `${more} entries were read twice`);
  check(heard.every((number, at) => at === 0 || number >= heard[at - 1]), 'messages came out of order');
  check(killed || heard.length === ENTRIES, `${heard.length} of ${ENTRIES} messages`);

  const add = async () => {
    const own = await client();
    for (let turn = 0; turn < 20; turn++) {
      for (;;) {
        await own.watch('watched');
        const count = Number(await own.get('watched'));
        const done = await own.multi().set('watched', String(count + 1)).exec().catch((error) => {
          if (error.constructor.name === 'WatchError') return null;
          throw error;
        });
        if (done) break;
      }
    }
  };
  await Promise.all([add(), add(), add()]);
  check((await store.get('watched')) === '60', `${await store.get('watched')} of 60 watched`);
  ok(`${ENTRIES} entries read by a group, ${more ? `${more} more than once` : 'each once'}; ${heard.length} of ${ENTRIES} messages; WATCH${madeAgain()}`);
});
