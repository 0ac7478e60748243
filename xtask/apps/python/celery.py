"""Celery: tasks by two workers, with results, a group, a chord and a chain, a retry and a countdown."""

import sys
import time

import celery

from trial import KILLED, URL, Done, Workers, half, ok, summary

TASKS = 80
app = celery.Celery("program", broker=f"{URL}/0", backend=f"{URL}/0")
app.conf.update(
    task_acks_late=True,
    broker_transport_options={"visibility_timeout": 8, "unacked_mail_timeout": 1},
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    result_backend_always_retry=True,
    task_default_queue="tasks",
)
done = Done()


@app.task
def work(number):
    done.add(number)
    time.sleep(0.01)
    return number * 2


@app.task
def add(numbers):
    done.add("sum")
    return sum(numbers)


@app.task(bind=True, max_retries=3)
def fails_once(self, name):
    done.add(name)
    if done.counts()[name] == 1:
        raise self.retry(countdown=0.2)
    return "the second time"


def main():
    import program
    from celery.exceptions import TimeoutError

    worker = [sys.executable, "-m", "celery", "-A", "program", "worker", "--loglevel=INFO", "--concurrency=2", "-n"]
    workers = Workers(worker + ["one@%h"], worker + ["two@%h"])
    failures = []

    def result_of(send, seconds=20):
        """Sends again what is not answered: with the node, a message that was just taken is lost."""
        for left in range(3, -1, -1):
            try:
                sent = send()
                return wait(sent, seconds)
            except (TimeoutError, app.backend.ResponseError, *app.connection().connection_errors) as error:
                assert KILLED and left, f"no result: {error!r}"
                failures.append(repr(error))

    def wait(sent, seconds):
        until = time.monotonic() + seconds
        while not sent.ready():
            workers.look_after()
            if time.monotonic() > until:
                raise TimeoutError("too late")
            time.sleep(0.02)
        return sent.get(timeout=5)

    def send(number):
        for left in range(40, -1, -1):
            try:
                return program.work.apply_async((number,), task_id=f"task-{number}")
            except Exception as error:
                assert KILLED and left, f"not sent: {error!r}"
                failures.append(repr(error))
                time.sleep(0.25)

    sent = [send(number) for number in range(TASKS // 2)]
    half()
    sent += [send(number) for number in range(TASKS // 2, TASKS)]
    for number, result in enumerate(sent):
        assert result_of(lambda number=number, result=result: result or send(number)) == number * 2
    group = celery.group(program.work.s(f"g{number}") for number in range(10))
    assert sorted(result_of(group.apply_async)) == sorted(f"g{number}" * 2 for number in range(10))
    chord = celery.chord((program.work.s(number) for number in range(10)), program.add.s())
    assert result_of(chord.apply_async) == 90
    chain = program.work.s(1) | program.work.s() | program.work.s()
    assert result_of(chain.apply_async) == 8
    assert result_of(lambda: program.work.apply_async(("later",), countdown=1)) == "laterlater"
    assert result_of(lambda: program.fails_once.delay("twice")) == "the second time"
    counts = done.counts()
    for number in range(TASKS):
        # The chord and the chain work on 0 to 9 again.
        often = counts[str(number)] - (number < 10) - (number in (1, 2, 4))
        assert often == 1 or KILLED and often > 1, f"task {number} was done {often} times"
    workers.stop()
    tasks = {number: counts[str(number)] - (number < 10) - (number in (1, 2, 4)) for number in range(TASKS)}
    ok(summary(tasks, failures, workers.restarts) + "; group, chord, chain, retry, countdown")


if __name__ == "__main__":
    main()
