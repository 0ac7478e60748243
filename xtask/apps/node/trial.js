// What the programs share: where the store is, what they say, and how calls are made again.
const port = Number(process.env.BASALT_PORT);
const killed = process.env.BASALT_SITUATION === 'killed';
const addresses = (name) => process.env[name].split(',').map((address) => {
  const [host, port] = address.split(':');
  return { host, port: Number(port) };
});

const say = (line) => process.stdout.write(`${line}\n`);
// The node that leads the shard of the key, or of database 0, is to be killed now.
const half = (key = '') => say(`HALF ${key}`.trim());
const ok = (what) => process.stdout.write(`OK ${what}\n`, () => process.exit(0));
const check = (holds, why) => {
  if (!holds) throw new Error(why);
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits until something holds.
async function until(holds, why, ms = 60000) {
  const end = Date.now() + ms;
  while (!(await holds())) {
    check(Date.now() < end, typeof why === 'function' ? why() : why);
    await sleep(20);
  }
}

// Makes a call again where it fails, as an application does whose server is replaced. Counts failures.
const failures = [];
async function again(call, tries = 60) {
  for (let left = tries; ; left--) {
    try {
      return await call();
    } catch (error) {
      failures.push(String(error));
      console.error(`made again after ${error}`);
      if (left === 0 || !killed) throw error;
      await sleep(250);
    }
  }
}
const madeAgain = () => (failures.length ? `; ${failures.length} calls made again` : '');

// Runs a program to its end; what it throws is what it saw.
function run(main) {
  process.on('unhandledRejection', (error) => {
    console.error('unhandled', error);
    process.exit(1);
  });
  main().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

// Runs all checks of some parts, by their names, one after the other, and says how many held; fails if one did not.
async function checks(parts, hold) {
  const counts = [];
  let failed = 0;
  for (const [part, all] of Object.entries(parts)) {
    for (const [name, one] of Object.entries(all)) {
      const begun = Date.now();
      try {
        await hold(one);
        console.error(`ok (${Date.now() - begun} ms): ${name}`);
      } catch (error) {
        failed++;
        console.error(`FAILED: ${name}: ${error.stack}`);
      }
    }
    counts.push(`${Object.keys(all).length} of ${part}`);
  }
  check(failed === 0, `${failed} checks do not hold`);
  ok(`checks: ${counts.join(', ')}`);
}

module.exports = { port, killed, addresses, half, ok, check, sleep, until, again, failures, madeAgain, run, checks };
