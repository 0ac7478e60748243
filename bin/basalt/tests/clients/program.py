"""Uses a store of several nodes by redis-py, knowing the one on the port given. Prints KILL when a node is to die, OK at the end."""

import sys
import time

import redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

KEYS = 200
RESUMES_WITHIN = 5.0
WRITES_FOR = 4.0


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {str(found)[:300]} instead of {str(wanted)[:300]}")


def connect(port, **options):
    node = ClusterNode("127.0.0.1", port)
    retry = Retry(ConstantBackoff(0.1), 20)
    return RedisCluster(
        startup_nodes=[node], decode_responses=True, socket_timeout=1, retry=retry, **options
    )


def commands(client):
    keys = {f"key:{n}" for n in range(KEYS)}
    for key in keys:
        expect("SET", client.set(key, "of " + key), True)
    for key in keys:
        expect("GET", client.get(key), "of " + key)
    # Each node tells of the whole store, and the library asks all.
    expect("the keys of SCAN", set(client.scan_iter(match="*", count=10)), keys)
    expect("DBSIZE", client.dbsize(target_nodes=RedisCluster.PRIMARIES), KEYS)
    fields = {f"field:{n}": str(n) for n in range(50)}
    expect("HSET", client.hset("hash", mapping=fields), 50)
    expect("HGETALL", client.hgetall("hash"), fields)
    with client.pipeline(transaction=True) as transaction:
        transaction.set("{tag}a", 1)
        transaction.incr("{tag}a")
        transaction.get("{tag}a")
        expect("MULTI", transaction.execute(), ["OK", 2, "2"])
    pipeline = client.pipeline()
    for n in range(KEYS):
        pipeline.get(f"key:{n}")
    expect("pipeline", pipeline.execute(), [f"of key:{n}" for n in range(KEYS)])


def replicas(port):
    client = connect(port, read_from_replicas=True)
    deadline = time.monotonic() + RESUMES_WITHIN
    for n in range(KEYS):
        while client.get(f"key:{n}") != f"of key:{n}" and time.monotonic() < deadline:
            pass
        expect("GET from a replica", client.get(f"key:{n}"), f"of key:{n}")


def failover(client):
    print("KILL", flush=True)
    written, longest, begun = {}, 0.0, time.monotonic()
    while time.monotonic() < begun + WRITES_FOR:
        key, start = f"failover:{len(written)}", time.monotonic()
        while True:
            try:
                client.set(key, "of " + key)
                break
            except redis.RedisError as error:
                if time.monotonic() > start + RESUMES_WITHIN:
                    sys.exit(f"SET {key}: not within {RESUMES_WITHIN} s: {error!r}")
                time.sleep(0.05)
        longest = max(longest, time.monotonic() - start)
        written[key] = "of " + key
        time.sleep(0.002)
    if longest > RESUMES_WITHIN:
        sys.exit(f"a write took {longest} s")
    for key, value in written.items():
        expect("an acknowledged write", client.get(key), value)
    print(f"{len(written)} writes, the slowest in {longest:.2f} s")


port = int(sys.argv[1])
client = connect(port)
commands(client)
replicas(port)
failover(client)
print("OK")
