"""The test-suite of a package, from its source distribution: what passes on redis-server passes on Basalt."""

import os
import re
import socket
import subprocess
import sys
import tarfile
import time

from trial import PORT, ok

# Tests connect to ports that they know: this sends them to the server that they are for.
REDIRECT = """
import os
import socket

PORTS = {int(port) for port in os.environ["TRIAL_KNOWN_PORTS"].split(",")}


def to(address):
    is_known = isinstance(address, tuple) and address[0] in ("localhost", "127.0.0.1", "::1") and address[1] in PORTS
    return ("127.0.0.1", int(os.environ["TRIAL_PORT"])) if is_known else address


class Redirected(socket.socket):
    def connect(self, address):
        return super().connect(to(address))

    def connect_ex(self, address):
        return super().connect_ex(to(address))


socket.socket = Redirected
"""
# A line for each test that has passed: known also when the run is ended. Where a file names tests, the others are left out: names may
# hold what pytest cannot be told by its arguments.
REPORT = """
import os

import pytest

bad = set()
chosen = os.environ["TRIAL_ONLY"]


def name(nodeid):
    return nodeid.replace("\\n", " ")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if chosen:
        with open(chosen) as file:
            wanted = set(file.read().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if name(item.nodeid) not in wanted])
        items[:] = [item for item in items if name(item.nodeid) in wanted]


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report):
    if report.outcome != "passed" or hasattr(report, "wasxfail"):
        bad.add(report.nodeid)
    elif report.when == "teardown" and report.nodeid not in bad:
        with open(os.environ["TRIAL_REPORT"], "a") as file:
            file.write(name(report.nodeid) + "\\n")
"""
RUN_SECONDS_MAX = 1500


class Suite:
    """A suite with what it needs: `arguments` of pytest, of which each list is a run of its own, the ports that its tests
    know, variables of the environment, and how many seconds a test may take."""

    def __init__(self, package, runs, ports=(6379,), env=None, seconds=30):
        self.folder, self.runs, self.env, self.seconds = source(package), runs, env or {}, seconds
        self.ports = ",".join(map(str, ports))
        os.makedirs("plugins", exist_ok=True)
        for name, text in [("sitecustomize", REDIRECT), ("trial_report", REPORT)]:
            with open(f"plugins/{name}.py", "w") as file:
                file.write(text)

    def environment(self, port, report, only):
        path = os.pathsep.join([os.path.abspath("plugins"), os.path.abspath(self.folder)])
        shared = {"PYTHONPATH": path, "TRIAL_PORT": str(port), "TRIAL_KNOWN_PORTS": self.ports, "TRIAL_REPORT": report, "TRIAL_ONLY": only}
        return {**os.environ, **shared, **{name: value.replace("PORT", str(port)) for name, value in self.env.items()}}

    def passed(self, port, report, only=None):
        """The names of the tests that pass against the server at that port; of all tests, or of those that are named."""
        report = os.path.abspath(report)
        open(report, "w").close()
        chosen = ""
        if only is not None:
            chosen = f"{report}.only"
            with open(chosen, "w") as file:
                file.write("\n".join(only))
        for arguments in self.runs:
            pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "trial_report"]
            limits = [f"--timeout={self.seconds}", "--tb=short", "-o", "log_cli=false"]
            given = [argument.replace("PORT", str(port)) for argument in arguments]
            self.run(pytest + limits + given, self.environment(port, report, chosen))
        with open(report) as file:
            return set(file.read().splitlines())

    def run(self, command, env):
        """Runs it, and ends it when it takes too long: what passed until then counts."""
        child = subprocess.Popen(command, cwd=self.folder, env=env, stdout=sys.stderr, stdin=subprocess.DEVNULL)
        try:
            child.wait(RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            print(f"ended after {RUN_SECONDS_MAX} s", file=sys.stderr)
            child.kill()
            child.wait()

    def on_redis(self):
        """The tests that pass on redis-server: found once."""
        known = "passed-on-redis"
        if not os.path.exists(known):
            with Redis() as port:
                names = self.passed(port, "redis.report")
            assert names, "no test passes on redis-server"
            with open(known, "w") as file:
                file.write("\n".join(sorted(names)))
        with open(known) as file:
            return set(file.read().splitlines())


class Redis:
    """A redis-server that ends with the block; its port."""

    def __enter__(self):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", "."]
        self.server = subprocess.Popen(["redis-server"] + options, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return port
            except OSError:
                assert time.monotonic() < until, "redis-server does not start"
                time.sleep(0.05)

    def __exit__(self, *_):
        self.server.kill()
        self.server.wait()


def source(package):
    """The folder of the source distribution, fetched if it is not there."""
    name, version = package.split("==")
    folder = f"{name.replace('-', '_')}-{version}"
    if not os.path.exists(folder):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:"]
        subprocess.run(pip + ["--dest", "sdist", package], check=True)
        with tarfile.open(f"sdist/{folder}.tar.gz") as archive:
            archive.extractall(".", filter="data")
    return folder


def run(package, runs, excused, **needs):
    """Runs the suite. `excused` are patterns of tests that need not pass, each with the reason."""
    suite = Suite(package, runs, **needs)
    wanted = suite.on_redis()
    fine = suite.passed(PORT, "basalt.report") & wanted
    missing = {name for name in wanted - fine if not any(re.search(pattern, name) for pattern in excused)}
    if missing:
        # Some of the tests depend on time: one that passes alone passes.
        fine |= suite.passed(PORT, "again.report", missing) & wanted
        missing -= fine
    for name in sorted(missing):
        print(f"passes on redis-server alone: {name}", file=sys.stderr)
    assert not missing, f"{len(missing)} tests pass on redis-server and not here: {', '.join(sorted(missing)[:8])}"
    lacking = len(wanted - fine)
    ok(f"{len(fine)} of the {len(wanted)} tests that pass on redis-server" + (f"; {lacking} excused" if lacking else ""))
