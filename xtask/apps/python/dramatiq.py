"""Dramatiq: messages by two worker processes, with results, a delay, a retry, a group and a pipeline."""

import sys
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from trial import KILLED, PORT, Again, Done, Workers, half, ok, summary

MESSAGES = 80
broker = RedisBroker(port=PORT, heartbeat_timeout=4000, maintenance_chance=100000)
broker.add_middleware(Results(backend=RedisBackend(port=PORT)))
dramatiq.set_broker(broker)
done = Done()


@dramatiq.actor(store_results=True, min_backoff=100, max_backoff=500)
def work(number):
    done.add(number)
    time.sleep(0.01)
    return number * 2


@dramatiq.actor(store_results=True, max_retries=3, min_backoff=100, max_backoff=200)
def fails_once(name):
    done.add(name)
    if done.counts()[name] == 1:
        raise RuntimeError("the first time")
    return "the second time"


def main():
    import program

    again = Again(redis.RedisError, dramatiq.errors.ConnectionError)
    command = [sys.executable, "-m", "dramatiq", "program", "--processes", "1", "--threads", "4"]
    workers = Workers(command, command)

    def send(number, **options):
        message = program.work.message_with_options(args=(number,), **options)
        again(program.broker.enqueue, message, delay=options.get("delay"))
        return message

    messages = [send(number) for number in range(MESSAGES // 2)]
    half()
    messages += [send(number) for number in range(MESSAGES // 2, MESSAGES)]
    send("later", delay=1000)
    again(program.fails_once.send, "twice")
    counts = workers.wait_done(done, [*range(MESSAGES), "later", "twice", "twice"], 90)
    for number, message in enumerate(messages):
        assert again(message.get_result, block=True, timeout=20000) == number * 2
    assert counts.pop("twice") >= 2, "the message that failed was not tried again"
    more = {name: count for name, count in counts.items() if count > 1}
    assert KILLED or not more, f"done more than once: {more}"
    pipe = program.work.message(5) | program.work.message()
    assert again(lambda: pipe.run().get_result(block=True, timeout=20000)) == 20
    group = dramatiq.group(program.work.message(number) for number in range(10))
    assert again(lambda: list(group.run().get_results(block=True, timeout=20000))) == [n * 2 for n in range(10)]
    workers.stop()
    ok(summary(counts, again.failures, workers.restarts) + "; group, pipeline, delay, retry")


if __name__ == "__main__":
    main()
