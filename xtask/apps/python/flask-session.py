"""Flask-Session: sessions of two servers of one application, that each know at once what the other has written."""

import time

import redis
from flask import Flask, session
from flask_session import Session

from trial import KILLED, PORT, Again, half, ok

USERS, VISITS = 20, 20
again = Again(redis.RedisError)


def serve(seconds):
    app = Flask("program")
    app.config.update(
        SESSION_TYPE="redis",
        SESSION_REDIS=redis.Redis(port=PORT),
        PERMANENT_SESSION_LIFETIME=seconds,
        PROPAGATE_EXCEPTIONS=True,
    )
    Session(app)

    @app.get("/visit/<int:number>")
    def visit(number):
        session["visits"] = number
        return {"visits": number}

    @app.get("/visits")
    def visits():
        return {"visits": session.get("visits", 0)}

    @app.get("/leave")
    def leave():
        session.clear()
        return {}

    return app


class User:
    """A browser that keeps its cookie over both servers."""

    def __init__(self):
        self.cookie = None

    def ask(self, app, path):
        client = app.test_client()
        if self.cookie:
            client.set_cookie("session", self.cookie)
        answer = client.get(path)
        assert answer.status_code == 200, f"{path}: {answer.status}"
        cookie = client.get_cookie("session")
        self.cookie = cookie.value if cookie else None
        return answer.json.get("visits")


servers = [serve(300), serve(300)]
users = [User() for _ in range(USERS)]
for visit in range(1, VISITS + 1):
    if visit == VISITS // 2:
        half()
    for number, user in enumerate(users):
        again(user.ask, servers[(number + visit) % 2], f"/visit/{visit}")
        assert again(user.ask, servers[(number + visit + 1) % 2], "/visits") == visit
store = redis.Redis(port=PORT)
count = len(again(store.keys, "session:*"))
# The answer to a first visit may be lost, with the cookie; the session stays till its time.
assert count == USERS or KILLED and count > USERS, count
user = users[0]
user.ask(servers[0], "/leave")
assert user.ask(servers[1], "/visits") == 0, "a session that was ended is still there"
brief, user = serve(1), User()
user.ask(brief, "/visit/1")
kept = user.cookie
assert user.ask(brief, "/visits") == 1
time.sleep(1.5)
user.cookie = kept
assert user.ask(brief, "/visits") == 0, "a session outlives its time"
tried = f", {len(again.failures)} requests made again" if again.failures else ""
ok(f"{USERS * VISITS} visits of {USERS} users over two servers, none forgotten{tried}")
