// Uses a store of several nodes by ioredis, knowing the one on the port given. Prints KILL when a node is to die, OK at
// the end.
"use strict";
const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const { Cluster } = require("ioredis");

const KEYS = 200;
const RESUMES_WITHIN = 5000;
const WRITES_FOR = 4000;
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
  const keys = Array.from({ length: KEYS }, (_, n) => `key:${n}`);
  for (const key of keys) assert.equal(await client.set(key, of(key)), "OK");
  for (const key of keys) assert.equal(await client.get(key), of(key));
  const found = [];
  for (const node of client.nodes("master")) {
    for await (const some of node.scanStream({ count: 10 })) found.push(...some);
  }
  assert.deepEqual([...new Set(found)].sort(), keys.sort(), "the keys of SCAN");
  const fields = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`field:${n}`, `${n}`]));
  assert.equal(await client.hset("hash", fields), 50);
  assert.deepEqual({ ...(await client.hgetall("hash")) }, fields);
  const results = await client.multi().set("{tag}a", 1).incr("{tag}a").get("{tag}a").exec();
  assert.deepEqual(results, [[null, "OK"], [null, 2], [null, "2"]], "MULTI");
}

async function replicas() {
  const client = connect("slave");
  const deadline = Date.now() + RESUMES_WITHIN;
  for (let n = 0; n < KEYS; n++) {
    while ((await client.get(`key:${n}`)) !== of(`key:${n}`) && Date.now() < deadline);
    assert.equal(await client.get(`key:${n}`), of(`key:${n}`), "GET from a replica");
  }
  client.disconnect();
}

async function failover(client) {
  console.log("KILL");
  const written = [];
  let longest = 0;
  for (const begun = Date.now(); Date.now() < begun + WRITES_FOR; ) {
    const key = `failover:${written.length}`;
    const start = Date.now();
    for (;;) {
      try {
        await client.set(key, of(key));
        break;
      } catch (error) {
        assert(Date.now() < start + RESUMES_WITHIN, `SET ${key}: not in time: ${error}`);
        await sleep(50);
      }
    }
    longest = Math.max(longest, Date.now() - start);
    written.push(key);
    await sleep(2);
  }
  assert(longest < RESUMES_WITHIN, `a write took ${longest} ms`);
  for (const key of written) assert.equal(await client.get(key), of(key), "an acknowledged write");
  console.log(`${written.length} writes, the slowest in ${longest / 1000} s`);
}

async function main() {
  const client = connect("master");
  await commands(client);
  await replicas();
  await failover(client);
  client.disconnect();
  console.log("OK");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
