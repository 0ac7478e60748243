// Counts visits with ioredis. Argument: the port of a node.
const { Cluster } = require("ioredis");

async function main() {
  const port = Number(process.argv[2] ?? 7000);
  const password = process.env.BASALT_PASSWORD;
  const store = new Cluster([{ host: "127.0.0.1", port }], { redisOptions: { password } });

  await store.hset("{user:7}:session", { name: "Ada", city: "London" });
  await store.expire("{user:7}:session", 3600);

  // Both or neither: they are in one slot.
  const now = Math.floor(Date.now() / 1000);
  const [[, visits]] = await store.multi().incr("{user:7}:visits").hset("{user:7}:session", "last", now).exec();

  console.log(`visit ${visits} of ${await store.hget("{user:7}:session", "name")}`);
  await store.quit();
}

main();
