"""What the programs share: where the store is, what they say, and a count of the jobs that were done."""

import collections
import faulthandler
import os
import subprocess
import sys
import time

URL = os.environ["BASALT_URL"]
PORT = int(os.environ["BASALT_PORT"])
DATABASES = [(host, int(port)) for host, port in (a.split(":") for a in os.environ["BASALT_DATABASES"].split(","))]
KILLED = os.environ["BASALT_SITUATION"] == "killed"

# Where its threads stand, for the log of one that does not end: before it is ended.
faulthandler.dump_traceback_later(100, repeat=True)


def half(key=""):
    """The node that leads the shard of the key, or of database 0, is to be killed now."""
    print(f"HALF {key}".strip(), flush=True)


def ok(what):
    print(f"OK {what}", flush=True)
    sys.stdout.flush()
    os._exit(0)


class Again:
    """Calls that are made again where they fail, as an application does whose server is replaced. Counts failures."""

    def __init__(self, *errors, tries=60, pause=0.25):
        self.errors, self.tries, self.pause, self.failures = errors, tries, pause, []

    def __call__(self, function, *args, **kwargs):
        for left in range(self.tries, -1, -1):
            try:
                return function(*args, **kwargs)
            except self.errors as error:
                self.failures.append(repr(error))
                if not (left and KILLED):
                    raise
                time.sleep(self.pause)


class Done:
    """Jobs that were done, a line each in a file: a job counts however the store behaves."""

    def __init__(self):
        # Workers are told by the environment.
        self.path = os.environ.setdefault("TRIAL_DONE", os.path.abspath(f"done-{os.environ['BASALT_SITUATION']}"))
        if "TRIAL_WORKERS" not in os.environ:
            os.environ["TRIAL_WORKERS"] = "this is not the first process"
            open(self.path, "w").close()

    def add(self, job):
        with open(self.path, "ab", buffering=0) as file:
            file.write(f"{job}\n".encode())

    def counts(self):
        with open(self.path) as file:
            return collections.Counter(file.read().split())

    def lacks(self, jobs):
        """The jobs that are not done yet: one that is named twice is to be done twice, as it fails the first time."""
        return collections.Counter(map(str, jobs)) - self.counts()

    def wait(self, jobs, seconds=60, missing=0):
        """Waits until all jobs are done, but for so many that may be missing; the counts."""
        wanted = {str(job) for job in jobs}
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.lacks(jobs):
            time.sleep(0.05)
        counts = self.counts()
        lost = wanted - counts.keys()
        assert len(lost) <= missing, f"never done: {sorted(lost)[:10]}, {len(lost)} in all"
        assert counts.keys() <= wanted, f"never asked for: {sorted(counts.keys() - wanted)[:10]}"
        return counts


class Workers:
    """Worker processes. One that ends is started again, as a service manager does; how often is counted."""

    def __init__(self, *commands):
        self.commands, self.restarts = commands, 0
        self.children = [self.start(command) for command in commands]

    @staticmethod
    def start(command):
        return subprocess.Popen(command, stdout=sys.stderr, stdin=subprocess.DEVNULL)

    def look_after(self):
        for number, child in enumerate(self.children):
            if child.poll() is not None:
                self.restarts += 1
                assert KILLED, f"a worker ended with {child.returncode}"
                time.sleep(0.2)
                self.children[number] = self.start(self.commands[number])

    def wait_done(self, done, jobs, seconds=60, missing=0):
        """Looks after the workers until all jobs are done; the counts."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and done.lacks(jobs):
            self.look_after()
            time.sleep(0.05)
        return done.wait(jobs, 0, missing)

    def stop(self):
        for child in self.children:
            child.kill()


def summary(counts, failures=(), restarts=0, lost=0):
    """How often jobs were done, and what it took."""
    twice = sum(1 for count in counts.values() if count > 1)
    parts = [f"{len(counts)} jobs done, {f'{twice} more than once' if twice else 'each once'}"]
    if lost:
        parts.append(f"{lost} lost with the node")
    if failures:
        parts.append(f"{len(failures)} calls made again")
    if restarts:
        parts.append(f"{restarts} workers started again")
    return "; ".join(parts)
