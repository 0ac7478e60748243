// Uses a store of several nodes by node-redis, knowing the one on the port given.
"use strict";
const assert = require("node:assert/strict");
const { existsSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const { createCluster } = require("redis");

const NAME = "node-redis";
const KEYS = 200;
const RESUMES_WITHIN = 5000;
const port = Number(process.argv[2]);

async function connect(useReplicas) {
  const client = createCluster({
    rootNodes: [{ url: `redis://127.0.0.1:${port}` }],
    useReplicas,
    // By itself the library asks five seconds after it lost a node where its slots are now.
    topologyRefreshOnReconnectionAttemptStrategy: 500,
    commandOptions: { timeout: 1000 },
    defaults: { socket: { connectTimeout: 1000, reconnectStrategy: 100 }, disableOfflineQueue: true },
  });
  client.on("error", () => {}); // told by the commands too
  await client.connect();
  return client;
}

const of = (key) => `of ${key}`;

async function commands(client) {
  const keys = Array.from({ length: KEYS }, (_, n) => `${NAME}:key:${n}`);
  for (const key of keys) assert.equal(await client.set(key, of(key)), "OK");
  for (const key of keys) assert.equal(await client.get(key), of(key));
  const found = [];
  for (const master of client.masters) {
    const node = await client.nodeClient(master);
    for await (const some of node.scanIterator({ MATCH: `${NAME}:key:*`, COUNT: 20 })) found.push(...some);
  }
  assert.deepEqual([...new Set(found)].sort(), keys.sort(), "the keys of SCAN");
  // All at once: the library sends what is asked for in one turn of its loop together.
  assert.deepEqual(await Promise.all(keys.map((key) => client.get(key))), keys.map(of), "pipeline");
  assert.deepEqual(await client.mGet(keys.slice(0, 20)), keys.slice(0, 20).map(of), "MGET over slots");
  assert((await client.dbSize()) >= KEYS, "DBSIZE of all nodes");
  const fields = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`field:${n}`, `${n}`]));
  assert.equal(await client.hSet(`${NAME}:hash`, fields), 50);
  assert.deepEqual({ ...(await client.hGetAll(`${NAME}:hash`)) }, fields);
  const a = `{${NAME}}a`;
  assert.deepEqual(await client.multi().set(a, 1).incr(a).get(a).exec(), ["OK", 2, "2"], "MULTI");
  assert.deepEqual(await client.multi().set(a, 1).incr(a).get(a).execAsPipeline(), ["OK", 2, "2"], "a pipeline");
}

// Another replica each time, and each is a little behind.
async function readable(client, key, deadline) {
  let found;
  while ((found = await client.get(key)) !== of(key) && Date.now() < deadline);
  assert.equal(found, of(key), "GET from a replica");
}

async function replicas() {
  const client = await connect(true);
  const deadline = Date.now() + RESUMES_WITHIN;
  for (let n = 0; n < KEYS; n++) {
    const key = `${NAME}:key:${n}`;
    await readable(client, key, deadline);
  }
  client.destroy();
}

async function followers() {
  const client = await connect(true);
  const deadline = Date.now() + RESUMES_WITHIN;
  for (let n = 0; n < 30; n++) {
    const key = `{${NAME}}${n}`;
    await client.set(key, of(key));
    await readable(client, key, deadline);
  }
}

let failures = 0;

async function retried(key, request) {
  const start = Date.now();
  for (;;) {
    try {
      return await request();
    } catch (error) {
      failures++;
      assert(Date.now() < start + RESUMES_WITHIN, `${key}: not in time: ${error}`);
      await sleep(50);
    }
  }
}

async function write(client, end) {
  console.log("WRITING");
  let written = 0;
  let longest = 0;
  for (; !existsSync(end); written++) {
    const key = `${NAME}:written:${written}`;
    const start = Date.now();
    await retried(key, () => client.set(key, of(key)));
    longest = Math.max(longest, Date.now() - start);
    await sleep(3);
  }
  assert(longest < RESUMES_WITHIN, `a write took ${longest} ms`);
  for (let n = 0; n < written; n++) {
    const key = `${NAME}:written:${n}`;
    assert.equal(await retried(key, () => client.get(key)), of(key), "an acknowledged write");
  }
  console.log(`${written} writes, the slowest in ${longest / 1000} s, ${failures} tried again`);
}

async function main() {
  if (process.argv[3] === "FOLLOWERS") {
    await followers();
  } else {
    const client = await connect(false);
    await commands(client);
    await replicas();
    await write(client, process.argv[3]);
  }
  console.log("OK");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
