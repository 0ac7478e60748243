// connect-redis: sessions of an Express application, kept by many requests and two processes' worth of servers.
const express = require('express');
const session = require('express-session');
const { RedisStore } = require('connect-redis');
const { createClient } = require('redis');
const { port, half, ok, check, again, sleep, madeAgain, run } = require('./trial');

const USERS = 20;
const VISITS = 20;

run(async () => {
  const serve = async (ttl) => {
    const client = createClient({ socket: { port, reconnectStrategy: 100 } });
    client.on('error', (error) => console.error('error', error.message));
    await client.connect();
    const app = express();
    const store = new RedisStore({ client, ttl });
    app.use(session({ store, secret: 'secret', resave: false, saveUninitialized: false, cookie: { maxAge: ttl * 1000 } }));
    app.get('/visit/:number', (request, response) => {
      request.session.visits = Number(request.params.number);
      response.json({ visits: request.session.visits });
    });
    app.get('/visits', (request, response) => response.json({ visits: request.session.visits ?? 0 }));
    app.get('/leave', (request, response) => request.session.destroy(() => response.json({})));
    app.use((error, request, response, next) => response.status(500).json({ error: String(error) }));
    return new Promise((resolve) => { const server = app.listen(0, '127.0.0.1', () => resolve({ server, store })); });
  };
  const servers = [await serve(300), await serve(300)];
  const ask = async ({ server }, path, user) => {
    const answer = await fetch(`http://127.0.0.1:${server.address().port}${path}`, { headers: user.cookie ? { cookie: user.cookie } : {} });
    check(answer.status === 200, `${path}: ${answer.status} ${await answer.clone().text()}`);
    user.cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? user.cookie;
    return answer.json();
  };
  const users = Array.from({ length: USERS }, () => ({}));
  for (let visit = 1; visit <= VISITS; visit++) {
    if (visit === VISITS / 2) half();
    await Promise.all(users.map((user, number) => again(() => ask(servers[(number + visit) % 2], `/visit/${visit}`, user))));
    // The other server knows what was just written.
    const seen = await Promise.all(users.map((user, number) => again(() => ask(servers[(number + visit + 1) % 2], '/visits', user))));
    check(seen.every(({ visits }) => visits === visit), `visit ${visit}: ${JSON.stringify(seen)}`);
  }
  const { store } = servers[0];
  check((await store.length()) === USERS, `${await store.length()} sessions`);
  await Promise.all(users.slice(0, 5).map((user) => ask(servers[0], '/leave', user)));
  check((await store.length()) === USERS - 5, 'sessions that were ended are still there');
  const brief = await serve(1);
  const user = {};
  await ask(brief, '/visit/1', user);
  check((await ask(brief, '/visits', user)).visits === 1, 'a session of a second is not there');
  await sleep(1500);
  check((await ask(brief, '/visits', user)).visits === 0, 'a session outlives its time');
  ok(`${USERS * VISITS} visits of ${USERS} users over two servers, none forgotten${madeAgain()}`);
});
