"""redis-py's Sentinel: told of all nodes, connected to the one that leads, and at another when that is dead."""

import redis
from redis.sentinel import Sentinel

from trial import DATABASES, KILLED, Again, half, ok

COUNT = 400
again = Again(redis.RedisError)
sentinel = Sentinel(DATABASES, socket_timeout=15)
master = sentinel.master_for("mymaster", socket_timeout=15, decode_responses=True)
host, port = sentinel.discover_master("mymaster")
assert (host, port) == DATABASES[0], f"{host}:{port} is not the node that was asked, {DATABASES[0]}"
for number in range(COUNT):
    if number == COUNT // 2:
        half()
    # The same again is the same: nothing that was answered may be missing.
    again(master.hset, "numbers", number, number * 2)
    again(master.sadd, "seen", number)
while KILLED and not again.failures:
    # Its node dies at some moment.
    again(master.sadd, "seen", 0)
found = again(master.hgetall, "numbers")
assert found == {str(n): str(n * 2) for n in range(COUNT)}, f"{COUNT - len(found)} are missing"
assert again(master.scard, "seen") == COUNT
now = sentinel.discover_master("mymaster")
assert now != DATABASES[0] or not KILLED, "the dead node is named as master"
tried = f", {len(again.failures)} calls made again" if again.failures else ""
ok(f"{COUNT} writes, none missing{', the master another node' if KILLED else ''}{tried}")
