// Uses a store of several nodes by ioredis, knowing the one on the port given.
"use strict";
const assert = require("node:assert/strict");
const { existsSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const { Cluster } = require("ioredis");

const NAME = "ioredis";
const KEYS = 200;
const RESUMES_WITHIN = 5000;
const port = Number(process.argv[2]);

function connect(scaleReads) {
  const options = {
    scaleReads,
    slotsRefreshTimeout: 1000,
    clusterRetryStrategy: () => 100,
    retryDelayOnFailover: 100,
    retryDelayOnClusterDown: 100,
    redisOptions: { connectTimeout: 1000, commandTimeout: 1000 },
  };
  const client = new Cluster([{ host: "127.0.0.1", port }], options);
  client.on("error", () => {}); // told by the commands too
  return client;
}

const of = (key) => `of ${key}`;

async function commands(client) {
  const keys = Array.from({ length: KEYS }, (_, n) => `${NAME}:key:${n}`);
  for (const key of keys) assert.equal(await client.set(key, of(key)), "OK");
  for (const key of keys) assert.equal(await client.get(key), of(key));
  const found = [];
  for (const node of client.nodes("master")) {
    for await (const some of node.scanStream({ match: `${NAME}:key:*`, count: 20 })) found.push(...some);
  }
  assert.deepEqual(found.sort(), keys.sort(), "the keys of SCAN, each once");
  const fields = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`field:${n}`, `${n}`]));
  assert.equal(await client.hset(`${NAME}:hash`, fields), 50);
  assert.deepEqual({ ...(await client.hgetall(`${NAME}:hash`)) }, fields);
  const a = `{${NAME}}a`;
  const wanted = [[null, "OK"], [null, 2], [null, "2"]];
  assert.deepEqual(await client.multi().set(a, 1).incr(a).get(a).exec(), wanted, "MULTI");
  assert.deepEqual(await client.pipeline().set(a, 1).incr(a).get(a).exec(), wanted, "a pipeline");
}

// Another replica each time, and each is a little behind.
async function readable(client, key, deadline) {
  let found;
  while ((found = await client.get(key)) !== of(key) && Date.now() < deadline);
  assert.equal(found, of(key), "GET from a replica");
}

async function replicas() {
  const client = connect("slave");
  const deadline = Date.now() + RESUMES_WITHIN;
  for (let n = 0; n < KEYS; n++) {
    const key = `${NAME}:key:${n}`;
    await readable(client, key, deadline);
  }
  client.disconnect();
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
  const client = connect("master");
  await commands(client);
  await replicas();
  await write(client, process.argv[3]);
  console.log("OK");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
