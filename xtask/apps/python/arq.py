"""arq: jobs by two workers, with results, a delay, a retry and unique ids."""

import asyncio
import sys

import redis
from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.jobs import Job, JobStatus

from trial import KILLED, PORT, Done, Workers, half, ok, summary

JOBS = 80
done = Done()
failures = []


async def work(context, number):
    done.add(number)
    await asyncio.sleep(0.01)
    return number * 2


async def fails_once(context, name):
    done.add(name)
    if context["job_try"] == 1:
        raise Retry(defer=0.1)
    return "the second time"


class WorkerSettings:
    functions = [work, fails_once]
    redis_settings = RedisSettings(port=PORT, retry_on_timeout=True, conn_retries=30)
    max_jobs = 4
    poll_delay = 0.05
    job_timeout = 20


async def again(function, *args, **kwargs):
    for left in range(60, -1, -1):
        try:
            return await function(*args, **kwargs)
        except (redis.RedisError, OSError) as error:
            failures.append(repr(error))
            if not (left and KILLED):
                raise
            await asyncio.sleep(0.25)


async def main():
    pool = await create_pool(RedisSettings(port=PORT))
    arq = [sys.executable.replace("python", "arq"), "program.WorkerSettings"]
    workers = Workers(arq, arq)
    jobs = {}

    async def enqueue(name, function="work", **kwargs):
        job = Job(f"job-{name}", pool)
        jobs[name] = None
        # None: the job is there, arq says; or EXEC answered that another had changed what it watches, as after a death.
        while jobs[name] is None and await again(job.status) == JobStatus.not_found:
            jobs[name] = await again(pool.enqueue_job, function, name, _job_id=job.job_id, **kwargs)
            assert KILLED or jobs[name], f"{name} was not taken"

    for number in range(JOBS // 2):
        await enqueue(number)
    half()
    for number in range(JOBS // 2, JOBS):
        await enqueue(number)
    await enqueue("later", _defer_by=1)
    await enqueue("twice", function="fails_once")
    assert KILLED or await pool.enqueue_job("work", 1, _job_id="job-1") is None, "an id was taken twice"
    # A worker that lost its connection has counted a try that was none.
    tries = ["twice"] * (1 if KILLED else 2)
    counts = await asyncio.to_thread(workers.wait_done, done, [*range(JOBS), "later", *tries], 90)
    for number in range(JOBS):
        # None: the answer to the first try was lost, and the job was there.
        if jobs[number] is not None:
            assert await again(jobs[number].result, timeout=30, poll_delay=0.05) == number * 2
    assert counts.pop("twice") >= len(tries), "the job that failed was not made again"
    more = {name: count for name, count in counts.items() if count > 1}
    assert KILLED or not more, f"done more than once: {more}"
    workers.stop()
    ok(summary(counts, failures, workers.restarts))


if __name__ == "__main__":
    asyncio.run(main())
