"""django-redis: Django's cache and its sessions: values, counters, many keys, patterns, locks, expiry."""

import threading
import time

import django
from django.conf import settings

from trial import KILLED, URL, Again, half, ok

settings.configure(
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": f"{URL}/1"}},
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    INSTALLED_APPS=["django.contrib.sessions"],
    SECRET_KEY="secret",
)
django.setup()

import redis
from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import cache
from django_redis.exceptions import ConnectionInterrupted

THREADS, TURNS, USERS = 4, 20, 50
again = Again(redis.RedisError, ConnectionInterrupted)
failed = []


def locked(number):
    try:
        for turn in range(TURNS):
            with_lock = cache.lock("counter-lock", timeout=15)
            assert again(with_lock.acquire, blocking_timeout=60)
            count = again(cache.get, "counter", 0)
            again(cache.set, "counter", count + 1)
            try:
                with_lock.release()
            except redis.RedisError as error:
                # Released or not, where the answer is lost: it runs out.
                assert KILLED, repr(error)
                again.failures.append(repr(error))
            if number == 0 and turn == TURNS // 2:
                half()
    except BaseException as error:
        failed.append(repr(error))


again(cache.clear)
threads = [threading.Thread(target=locked, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
sessions = []
for user in range(USERS):
    session = SessionStore()
    session["user"] = user
    again(session.create)
    session["user"] = user
    again(session.save)
    sessions.append(session.session_key)
    again(cache.set_many, {f"user:{user}:{field}": [user, field] for field in ("name", "mail")}, timeout=300)
    found = again(cache.get_many, [f"user:{user}:name", f"user:{user}:mail", "none"])
    assert found == {f"user:{user}:{field}": [user, field] for field in ("name", "mail")}, found
    time.sleep(0.02)
for thread in threads:
    thread.join()
assert not failed, failed
assert cache.get("counter") == THREADS * TURNS, cache.get("counter")
for user, key in enumerate(sessions):
    assert again(SessionStore(key).load) == {"user": user}
assert len(list(cache.iter_keys("user:*"))) == 2 * USERS
assert cache.delete_pattern("user:1*") == 22, "user 1 and 10 to 19, two keys each"
assert len(cache.keys("user:*")) == 2 * USERS - 22
cache.set("number", 5)
assert cache.incr("number", 3) == 8 and cache.decr("number") == 7
assert cache.add("once", 1)
assert not cache.add("once", 2) and cache.get("once") == 1
cache.set("short", 1, timeout=1)
assert 0 < cache.ttl("short") <= 1 and cache.touch("short", 1)
time.sleep(1.3)
assert cache.get("short") is None, "a value outlives its time"
cache.set("version", "one", version=1)
assert cache.incr_version("version") == 2 and cache.get("version", version=2) == "one"
again(cache.clear)
assert cache.get("counter") is None and not cache.keys("*")
tried = f", {len(again.failures)} calls made again" if again.failures else ""
ok(f"{THREADS * TURNS} turns under a lock, {USERS} sessions, patterns, counters, expiry, versions{tried}")
