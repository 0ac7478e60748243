"""redis-py's RedisCluster: locks, pipelines over slots, publish and subscribe, and a script, as of a Redis Cluster."""

import threading

import redis
from redis.cluster import ClusterNode, RedisCluster

from trial import KILLED, PORT, Again, half, ok

THREADS, TURNS = 4, 30
again = Again(redis.RedisError)
failed = []


def client():
    return RedisCluster(startup_nodes=[ClusterNode("127.0.0.1", PORT)], decode_responses=True, socket_timeout=15)


def locked(number):
    try:
        store = client()
        for turn in range(TURNS):
            lock = store.lock("{counter}lock", timeout=15, blocking_timeout=60)
            assert again(lock.acquire), "the lock was never had"
            count = int(again(store.get, "{counter}") or 0)
            again(store.set, "{counter}", count + 1)
            try:
                lock.release()
            except redis.RedisError as error:
                # Released or not, where the answer is lost: it runs out.
                assert KILLED, repr(error)
                again.failures.append(repr(error))
            if number == 0 and turn == TURNS // 2:
                half("{counter}")
    except BaseException as error:
        failed.append(repr(error))


threads = [threading.Thread(target=locked, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
store = client()
once = store.register_script("if redis.call('sadd', KEYS[1], ARGV[1]) == 1 then return redis.call('rpush', KEYS[2], ARGV[1]) end return 0")
for number in range(200):
    again(once, keys=[f"{{list-{number % 7}}}seen", f"{{list-{number % 7}}}"], args=[number])
    pipe = store.pipeline()
    for key in range(20):
        pipe.set(f"many:{key}", number)
    again(pipe.execute)
for thread in threads:
    thread.join()
assert not failed, failed
assert int(again(store.get, "{counter}")) == THREADS * TURNS
lists = [again(store.lrange, f"{{list-{n}}}", 0, -1) for n in range(7)]
assert sorted(int(one) for items in lists for one in items) == list(range(200)), "an element is missing or doubled"
assert again(store.mget_nonatomic, [f"many:{key}" for key in range(20)]) == ["199"] * 20
tried = f", {len(again.failures)} calls made again" if again.failures else ""
ok(f"{THREADS * TURNS} turns under a lock, 200 scripts, 4,000 SETs in pipelines{tried}")
