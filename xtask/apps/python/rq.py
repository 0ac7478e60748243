"""RQ: jobs by two workers, with results, a chain that depends on each other, retries, and a scheduled job."""

import sys
import time
from datetime import timedelta

import redis

from trial import KILLED, PORT, Again, Done, Workers, half, ok, summary

JOBS = 80
done = Done()


def work(number):
    done.add(number)
    time.sleep(0.01)
    return number * 2


def fails_once(number):
    done.add(number)
    if done.counts()[str(number)] == 1:
        raise RuntimeError("the first time")
    return "the second time"


def main():
    import program
    from rq import Queue, Retry
    from rq.job import Job

    connection = redis.Redis(port=PORT)
    again = Again(redis.RedisError)
    queue = Queue("work", connection=connection)
    rq = [sys.executable.replace("python", "rq"), "worker", "--url", f"redis://127.0.0.1:{PORT}/0", "--with-scheduler"]
    workers = Workers(rq + ["work"], rq + ["work"])

    def enqueue(number):
        # The same id each time: made again, it is the same job. A worker that is not answered takes its job for failed.
        return again(queue.enqueue, program.work, number, job_id=f"job-{number}", retry=Retry(max=3))

    jobs = [enqueue(number) for number in range(JOBS // 2)]
    half()
    jobs += [enqueue(number) for number in range(JOBS // 2, JOBS)]
    first = again(queue.enqueue, program.work, "first", job_id="first")
    again(queue.enqueue, program.work, "second", job_id="second", depends_on=first)
    again(queue.enqueue_in, timedelta(seconds=1), program.work, "later", job_id="later")
    again(queue.enqueue, program.fails_once, "twice", job_id="twice", retry=Retry(max=3))
    names = [*range(JOBS), "first", "second", "later", "twice"]
    workers.wait_done(done, names, 90)
    until = time.monotonic() + 60
    for name in names:
        job = again(Job.fetch, f"job-{name}" if isinstance(name, int) else name, connection=connection)
        while again(job.get_status, refresh=True) != "finished":
            workers.look_after()
            assert time.monotonic() < until, f"{name} is {job.get_status(refresh=True)}: {job.latest_result()}"
            time.sleep(0.05)
        if isinstance(name, int):
            assert again(job.return_value) == name * 2
    counts = done.counts()
    assert counts.pop("twice") >= 2, "the job that failed was not made again"
    more = {name: count for name, count in counts.items() if count > 1}
    # A worker that lost its answer leaves its job to be taken again.
    assert not more or KILLED, f"done more than once: {more}"
    workers.stop()
    ok(summary(counts, again.failures, workers.restarts))


if __name__ == "__main__":
    main()
