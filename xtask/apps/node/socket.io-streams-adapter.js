// The adapter of socket.io over streams: what one server sends to all reaches the clients of the other.
const { createServer } = require('http');
const { Server } = require('socket.io');
const { io } = require('socket.io-client');
const { createAdapter } = require('@socket.io/redis-streams-adapter');
const Redis = require('ioredis');
const { port, killed, half, ok, check, until, sleep, run } = require('./trial');

const MESSAGES = 200;

run(async () => {
  const client = () => new Redis(port, '127.0.0.1', { maxRetriesPerRequest: null });
  const serve = async () => {
    const server = createServer();
    const sockets = new Server(server, { adapter: createAdapter(client(), { readCount: 50, blockTimeInMs: 500 }) });
    sockets.on('connection', (socket) => socket.join(socket.handshake.query.room));
    await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    return { sockets, url: `http://127.0.0.1:${server.address().port}` };
  };
  const servers = [await serve(), await serve()];
  const listen = (number) => {
    const heard = [];
    const socket = io(servers[number % 2].url, { query: { room: `room-${number % 3}` } });
    socket.on('news', (message) => heard.push(message));
    return { socket, heard, room: number % 3 };
  };
  const listeners = Array.from({ length: 12 }, (_, number) => listen(number));
  await until(() => listeners.every(({ socket }) => socket.connected), 'clients do not connect');
  await until(async () => (await servers[0].sockets.fetchSockets()).length === 12, 'the servers do not know of each other');
  for (let number = 0; number < MESSAGES; number++) {
    if (number === MESSAGES / 2) half();
    servers[number % 2].sockets.to(`room-${number % 3}`).emit('news', number);
    await sleep(10);
  }
  // The last messages prove that all is well again.
  await sleep(killed ? 5000 : 0);
  [0, 1, 2].forEach((room) => servers[0].sockets.to(`room-${room}`).emit('news', MESSAGES + room));
  await until(() => listeners.every(({ heard, room }) => heard.at(-1) === MESSAGES + room), 'clients hear nothing any more');
  let missing = 0;
  for (const { heard, room } of listeners) {
    check(heard.every((number) => number >= MESSAGES || number % 3 === room), 'a message of another room');
    check(new Set(heard).size === heard.length, 'a message came twice');
    missing += Array.from({ length: MESSAGES }, (_, n) => n).filter((n) => n % 3 === room && !heard.includes(n)).length;
  }
  check(killed || missing === 0, `${missing} messages are missing`);
  check((await servers[1].sockets.fetchSockets()).length === 12, 'the servers do not know of each other any more');
  ok(`${MESSAGES} messages to rooms over two servers and 12 clients${missing ? `, ${missing} of ${MESSAGES * 4} not heard` : ', all heard'}`);
});
