"""Huey: tasks by a consumer with four threads, with results, a schedule, a lock, a retry and priorities."""

import sys
import time

import redis
from huey import PriorityRedisHuey, RedisHuey

from trial import KILLED, PORT, Again, Done, Workers, half, ok, summary

TASKS = 100
done = Done()
huey = RedisHuey("tasks", port=PORT)
urgent = PriorityRedisHuey("urgent", port=PORT)


@huey.task(retries=3)
def work(number):
    done.add(number)
    time.sleep(0.01)
    return number * 2


@huey.task(retries=2, retry_delay=0)
def fails_once(name):
    done.add(name)
    if done.counts()[name] == 1:
        raise RuntimeError("the first time")
    return "the second time"


@huey.task(retries=5)
@huey.lock_task("alone")
def alone():
    time.sleep(0.02)
    return "alone"


def main():
    import program

    again = Again(redis.RedisError)
    consumer = [sys.executable, "-m", "huey.bin.huey_consumer", "program.huey", "--workers", "4", "-C"]
    workers = Workers(consumer)
    results = [again(program.work, number) for number in range(TASKS // 2)]
    half()
    results += [again(program.work, number) for number in range(TASKS // 2, TASKS)]
    results.append(again(program.work.schedule, args=("later",), delay=1))
    twice = again(program.fails_once, "twice")
    # A message that a consumer has just taken is lost with the node: Huey takes it from the list before it works.
    lost = 4 if KILLED else 0
    counts = workers.wait_done(done, [*range(TASKS), "later", "twice"], 40, lost)
    if not KILLED:
        for number, result in enumerate(results[:TASKS]):
            assert result.get(blocking=True, timeout=10) == number * 2
        assert twice.get(blocking=True, timeout=10) == "the second time"
        assert program.alone().get(blocking=True, timeout=10) == "alone"
        assert not program.huey.storage.enqueued_items()
    else:
        result = again(program.work, "behind")
        assert again(result.get, blocking=True, timeout=20) == "behindbehind", "no task is done after the node's death"
    counts.pop("twice", None)
    more = {name: count for name, count in counts.items() if count > 1}
    assert KILLED or not more, f"done more than once: {more}"
    for priority in (1, 5, 3):
        again(program.urgent.storage.enqueue, str(priority).encode(), priority)
    order = [again(program.urgent.storage.dequeue) for _ in range(3)]
    assert order == [b"5", b"3", b"1"], order
    workers.stop()
    missing = TASKS + 2 - len(counts) - 1
    ok(summary(counts, again.failures, workers.restarts, max(missing, 0)))


if __name__ == "__main__":
    main()
