"""fakeredis's own tests that it runs against a real server, to know what to imitate."""

from suite import run

TESTS = ["test/test_mixins", "test/test_async", "test/test_hypothesis", "-m", "not fake"]

run(
    "fakeredis==2.41.0",
    # Commands drawn at random are compared with what fakeredis answers: the same ones each time.
    [TESTS + ["--hypothesis-seed=1"]],
    {
        "test_bgsave|test_lastsave|test_save": "there is no dump file: each write goes to the log",
        "test_eval_flushall": "a script is of one database",
        "test_function_help": "HELP is written from the command table",
        "test_xtrim_approximate": "nodes of a stream have a fixed size here",
    },
    ports=(6390,),
    env={"FAKEREDIS_HYPOTHESIS_EXAMPLES": "40"},
)
