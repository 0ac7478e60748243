"""The test-suite of a package, from its source distribution: what passes on redis-server passes on Basalt."""

import os
import re
import socket
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as ElementTree

from trial import PORT, ok

# Tests connect to Redis's usual port: this sends them to another one.
REDIRECT = """
import os
import socket

connect, connect_ex = socket.socket.connect, socket.socket.connect_ex


def to(address):
    is_redis = isinstance(address, tuple) and address[0] in ("localhost", "127.0.0.1", "::1") and address[1] == 6379
    return ("127.0.0.1", int(os.environ["TRIAL_PORT"])) if is_redis else address


class Redirected(socket.socket):
    def connect(self, address):
        return super().connect(to(address))

    def connect_ex(self, address):
        return super().connect_ex(to(address))


socket.socket = Redirected
"""
SECONDS_MAX = 200


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


def passed(folder, port, arguments, report):
    """The names of the tests that pass against the server at that port, and how many do not."""
    os.makedirs("redirect", exist_ok=True)
    with open("redirect/sitecustomize.py", "w") as file:
        file.write(REDIRECT)
    path = os.pathsep.join([os.path.abspath("redirect"), os.path.abspath(folder)])
    env = {**os.environ, "PYTHONPATH": path, "TRIAL_PORT": str(port)}
    report = os.path.abspath(report)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=30", f"--junitxml={report}", "--tb=short"]
    arguments = [argument.replace("PORT", str(port)) for argument in arguments]
    subprocess.run(pytest + arguments, cwd=folder, env=env, stdout=sys.stderr, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX * 3)
    cases = list(ElementTree.parse(report).iter("testcase"))
    bad = {"failure", "error", "skipped"}
    fine = {f"{case.get('classname')}::{case.get('name')}" for case in cases if not bad & {child.tag for child in case}}
    return fine


def on_redis(folder, arguments):
    """The tests that pass on redis-server: found once."""
    known = "passed-on-redis"
    if not os.path.exists(known):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", "."]
        server = subprocess.Popen(["redis-server"] + options, stdout=subprocess.DEVNULL)
        try:
            time.sleep(1)
            names = passed(folder, port, arguments, "redis.xml")
        finally:
            server.kill()
        with open(known, "w") as file:
            file.write("\n".join(sorted(names)))
    with open(known) as file:
        return set(file.read().splitlines())


def run(package, arguments, excused):
    """Runs the suite. `excused` are patterns of tests that need not pass, each with the reason."""
    folder = source(package)
    wanted = on_redis(folder, arguments)
    assert wanted, "no test passes on redis-server"
    fine = passed(folder, PORT, arguments, "basalt.xml")
    missing = sorted(name for name in wanted - fine if not any(re.search(pattern, name) for pattern in excused))
    for name in missing:
        print(f"passes on redis-server alone: {name}", file=sys.stderr)
    assert not missing, f"{len(missing)} tests pass on redis-server and not here: {', '.join(missing[:8])}"
    lacking = len(wanted - fine)
    ok(f"{len(wanted & fine)} of the {len(wanted)} tests that pass on redis-server" + (f"; {lacking} excused" if lacking else ""))
