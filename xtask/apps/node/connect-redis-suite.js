// connect-redis's own tests, which its package has, and checks of ours by the same kinds of calls: a store of sessions that is asked
// directly, with each of its settings.
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { Cookie } = require('express-session');
const { RedisStore } = require('connect-redis');
const { createClient } = require('redis');
const { port, check, until, run, checks } = require('./trial');

const same = (found, wanted, what) => check(JSON.stringify(found) === JSON.stringify(wanted), `${what}: ${JSON.stringify(found)} for ${JSON.stringify(wanted)}`);
const numbers = (count) => Array.from({ length: count }, (_, number) => number);
const day = 86400;
const within = (ttl, least, most) => check(ttl >= least && ttl <= most, `it lives for ${ttl} s, not ${least} to ${most}`);
const soon = (seconds) => new Date(Date.now() + seconds * 1000);

const sessions = {
  'a session is kept, found and ended': async ({ store, client }) => {
    const session = { user: 'ä€𝄞', cart: [1, { deep: null }], cookie: { originalMaxAge: null } };
    await store.set('one', session);
    same([await store.get('one'), await store.get('none')], [session, undefined], 'sessions');
    within(await client.ttl('sess:one'), day - 5, day);
    await store.destroy('one');
    same([await store.get('one'), await store.length()], [undefined, 0], 'after its end');
  },
  'a session lives as long as its cookie': async ({ store, client }) => {
    await store.set('one', { cookie: { originalMaxAge: null, expires: soon(60) } });
    within(await client.ttl('sess:one'), 50, 60);
    await store.touch('one', { cookie: { originalMaxAge: null, expires: soon(500) } });
    within(await client.ttl('sess:one'), 490, 500);
    await store.set('one', { cookie: { originalMaxAge: null, expires: soon(-60) } });
    check((await store.length()) === 0, 'a cookie that is over');
  },
  'sessions end when their time is over': async ({ store, client }) => {
    for (const number of numbers(1000)) await store.set(`s${number}`, { cookie: { expires: soon(1) } });
    await client.set('sess:stays', '{}');
    await until(async () => (await store.length()) === 1, 'they are still counted');
    same([await store.ids(), await store.get('s999')], [['stays'], undefined], 'what is left');
  },
  'all sessions are counted, named and shown': async ({ store }) => {
    const cookie = new Cookie();
    cookie.expires = soon(300);
    for (const number of numbers(1000)) await store.set(`s${number}`, { number, cookie });
    check((await store.length()) === 1000, `${await store.length()} sessions`);
    same((await store.ids()).sort(), numbers(1000).map((number) => `s${number}`).sort(), 'ids');
    const all = await store.all();
    same(all.map(({ id, number }) => id === `s${number}`).filter(Boolean).length, 1000, 'what they hold');
    await store.clear();
    same([await store.length(), await store.ids(), await store.all()], [0, [], []], 'after they are cleared');
  },
  'keys of others are let alone': async ({ store, client }) => {
    await client.set('other', 'value');
    await client.set('session:x', 'value');
    await store.set('one', { cookie: {} });
    check((await store.length()) === 1, 'others are counted');
    await store.clear();
    same([await client.get('other'), await client.get('session:x')], ['value', 'value'], 'others');
  },
  'settings hold': async ({ client }) => {
    const of = (options) => new RedisStore({ client, ...options });
    const brief = of({ prefix: 'brief:', ttl: 40 });
    await brief.set('one', { cookie: {} });
    within(await client.ttl('brief:one'), 30, 40);
    const told = of({ prefix: 'told:', ttl: (session) => session.seconds });
    await told.set('one', { seconds: 77, cookie: {} });
    within(await client.ttl('told:one'), 67, 77);
    const lasting = of({ prefix: 'lasting:', disableTTL: true });
    await lasting.set('one', { cookie: {} });
    check((await client.ttl('lasting:one')) === -1, 'it has an end');
    const still = of({ prefix: 'still:', disableTouch: true, ttl: 40 });
    await still.set('one', { cookie: {} });
    await still.touch('one', { cookie: { expires: soon(500) } });
    within(await client.ttl('still:one'), 30, 40);
    const serializer = { stringify: (session) => `<${JSON.stringify(session)}>`, parse: (text) => JSON.parse(text.slice(1, -1)) };
    const own = of({ prefix: 'own:', serializer, scanCount: 3 });
    for (const number of numbers(50)) await own.set(`s${number}`, { number, cookie: {} });
    check((await client.get('own:s7')).startsWith('<{'), 'it is not written so');
    check((await own.get('s7')).number === 7 && (await own.length()) === 50, 'it is not read so');
  },
};

// What the package's tests take for granted of the machine's speed, and what stands there instead. A thousand sessions of a second each are
// written one by one, and then counted: they live for a day here. A session of a day is asked at once for how long it lives: a
// minute may have passed. That sessions end when their time is over is among the checks of ours.
const unhurried = [
  ['new Date(Date.now() + 1000)', 'new Date(Date.now() + 86400000)'],
  ['toBeGreaterThanOrEqual(86399)', 'toBeGreaterThanOrEqual(86340)'],
];

function unhurriedTest() {
  let text = fs.readFileSync('node_modules/connect-redis/index_test.ts', 'utf8');
  for (const [hurried, instead] of unhurried) {
    check(text.split(hurried).length === 2, `the package's tests have not one ${hurried}: look what they say now`);
    text = text.replace(hurried, instead);
  }
  return text;
}

// How many of the package's own tests there are, which all pass. The package lacks the part that starts a server: here there is one.
function own() {
  const server = `export const port = '${port}';\nexport const connect = async () => {};\nexport const disconnect = async () => {};\n`;
  fs.mkdirSync('suite/testdata', { recursive: true });
  fs.copyFileSync('node_modules/connect-redis/index.ts', 'suite/index.ts');
  fs.writeFileSync('suite/index_test.ts', unhurriedTest());
  fs.writeFileSync('suite/testdata/server.ts', server);
  fs.writeFileSync('suite/vitest.config.mjs', "export default { test: { include: ['*_test.ts'], testTimeout: 60000 } };\n");
  const given = ['run', '--root', 'suite', '--reporter=json', '--outputFile=report.json'];
  spawnSync(process.execPath, ['node_modules/vitest/vitest.mjs', ...given], { stdio: ['ignore', 2, 2] });
  const { numPassedTests, numTotalTests } = JSON.parse(fs.readFileSync('suite/report.json'));
  check(numPassedTests === numTotalTests && numTotalTests > 0, `${numPassedTests} of ${numTotalTests} of the package's own tests pass`);
  return numTotalTests;
}

run(async () => {
  const passed = own();
  const client = createClient({ socket: { port, reconnectStrategy: 100 } });
  client.on('error', (error) => console.error('error', error.message));
  await client.connect();
  await checks({ [`a store of sessions, and ${passed} tests of the package`]: sessions }, async (one) => {
    await client.flushDb();
    await one({ client, store: new RedisStore({ client }) });
  });
});
