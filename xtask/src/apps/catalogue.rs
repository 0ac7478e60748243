//! The applications, in the order of the page.

use super::application::{Application, Listener};
use super::situation::{SITUATIONS, Situation};
use super::toolchain::Toolchain::{self, Go, Java, Node, Php, Python, Ruby};
use std::time::Duration;

/// Longest time for an application to do its job, while a node is killed or not.
const JOB_BOUND: Duration = Duration::from_secs(240);
/// Longest time for the tests of a package: those of Celery take half an hour. They run on redis-server first.
const SUITE_BOUND: Duration = Duration::from_secs(7_200);

const fn job(
    toolchain: Toolchain,
    name: &'static str,
    packages: &'static [&'static str],
    does: &'static str,
    listener: Listener,
) -> Application {
    Application {
        name,
        toolchain,
        packages,
        listener,
        situations: &SITUATIONS,
        bound: JOB_BOUND,
        is_suite: false,
        is_killed_in_gate: false,
        does,
    }
}

const fn databases(
    toolchain: Toolchain,
    name: &'static str,
    packages: &'static [&'static str],
    does: &'static str,
) -> Application {
    job(toolchain, name, packages, does, Listener::Databases)
}

const fn cluster(
    toolchain: Toolchain,
    name: &'static str,
    packages: &'static [&'static str],
    does: &'static str,
) -> Application {
    job(toolchain, name, packages, does, Listener::Cluster)
}

/// A package's own tests.
const fn suite(
    toolchain: Toolchain,
    name: &'static str,
    packages: &'static [&'static str],
    does: &'static str,
) -> Application {
    Application { bound: SUITE_BOUND, is_suite: true, ..checks(toolchain, name, packages, does) }
}

/// Checks of ours, by the kinds of work that a package's own tests are about: of one whose package in the registry has no tests.
const fn checks(
    toolchain: Toolchain,
    name: &'static str,
    packages: &'static [&'static str],
    does: &'static str,
) -> Application {
    let situations = &[Situation::Single, Situation::Three];
    Application { situations, ..job(toolchain, name, packages, does, Listener::Databases) }
}

/// All of them. The gate runs every fourth in turn, so those of a language are spread over its turns.
pub const APPLICATIONS: &[Application] = &[
    databases(
        Python,
        "redis-py",
        &["redis==8.1.0"],
        "a counter under `Lock` by six threads, publish and subscribe, pipelines, optimistic transactions",
    )
    .killed_in_gate(),
    databases(
        Python,
        "redis-py-sentinel",
        &["redis==8.1.0"],
        "800 writes by way of Sentinel; the node that is killed is the one that it is connected to",
    ),
    cluster(
        Python,
        "redis-py-cluster",
        &["redis==8.1.0"],
        "a counter under a lock by four threads, scripts, pipelines over all slots",
    ),
    databases(
        Python,
        "rq",
        &["rq==2.12.0", "redis==8.1.0"],
        "84 jobs by two workers: results, a dependency, a retry, the scheduler",
    ),
    databases(
        Python,
        "celery",
        &["celery[redis]==5.7.0"],
        "80 tasks by two workers, with results; group, chord, chain, retry, countdown",
    )
    .killed_in_gate(),
    databases(
        Python,
        "huey",
        &["huey==3.5.4", "redis==8.1.0"],
        "102 tasks by a consumer of four threads: results, schedule, lock, retry, priorities",
    ),
    databases(Python, "arq", &["arq==0.28.0"], "82 jobs by two workers: results, a delay, a retry, unique ids"),
    databases(
        Python,
        "dramatiq",
        &["dramatiq[redis]==2.2.1"],
        "82 messages by two workers: results, a delay, a retry, a group, a pipeline",
    ),
    databases(
        Python,
        "django-redis",
        &["django-redis==7.0.0", "django==5.2.19"],
        "a counter under a lock, 50 sessions, patterns, counters, expiry, versions",
    ),
    databases(
        Python,
        "flask-session",
        &["flask-session==0.8.0", "redis==8.1.0"],
        "400 visits of 20 users over two servers, a session that ends, one that expires",
    ),
    databases(
        Python,
        "flask-caching",
        &["flask-caching==2.5.1", "redis==8.1.0"],
        "40 pages and 40 functions of two servers, each computed once; expiry, eviction",
    ),
    databases(
        Node,
        "bullmq",
        &["bullmq@6.7.0", "ioredis@5.11.1"],
        "124 jobs by two workers: delay, retry, priority; a flow, a rate limit, events",
    )
    .killed_in_gate(),
    databases(Node, "bee-queue", &["bee-queue@2.0.0"], "122 jobs by two workers: results, a delay, a retry"),
    databases(
        Node,
        "redlock",
        &["redlock@4.2.0", "ioredis@5.10.0"],
        "a counter under a lock by eight holders, with extensions",
    )
    .killed_in_gate(),
    databases(
        Node,
        "rate-limiter-flexible",
        &["rate-limiter-flexible@11.4.0", "ioredis@6.0.0"],
        "50 of 90 tries at once of each of 20 users; a window that ends",
    )
    .killed_in_gate(),
    databases(
        Node,
        "ioredis",
        &["ioredis@6.0.0"],
        "200 elements through BLPOP, scripts, transactions, messages, a scan",
    ),
    databases(
        Node,
        "node-redis",
        &["redis@6.3.1"],
        "200 entries of a stream read by a group, scripts, messages, WATCH",
    ),
    databases(
        Node,
        "connect-redis",
        &["connect-redis@9.0.0", "redis@6.3.1", "express@5.3.0", "express-session@1.19.0"],
        "400 visits of 20 users over two servers, sessions that end and expire",
    ),
    databases(
        Node,
        "socket.io-adapter",
        &["@socket.io/redis-adapter@8.3.0", "socket.io@4.8.4", "socket.io-client@4.8.4", "ioredis@6.0.0"],
        "200 messages to rooms of 12 clients at two servers",
    )
    .killed_in_gate(),
    databases(
        Node,
        "socket.io-streams-adapter",
        &["@socket.io/redis-streams-adapter@0.3.1", "socket.io@4.8.4", "socket.io-client@4.8.4", "ioredis@6.0.0"],
        "200 messages to rooms of 12 clients at two servers",
    )
    .killed_in_gate(),
    databases(
        Go,
        "go-redis",
        &["github.com/redis/go-redis/v9@v9.23.0"],
        "200 entries of a stream read by a group, scripts, messages, 75 transactions with WATCH",
    ),
    databases(
        Go,
        "asynq",
        &["github.com/hibiken/asynq@v0.26.0"],
        "102 tasks by two servers: priorities, a delay, a retry, unique ids",
    ),
    cluster(
        Go,
        "rueidis",
        &["github.com/redis/rueidis@v1.0.79", "github.com/redis/rueidis/rueidislock@v1.0.79"],
        "50 keys cached by the client over eight rounds of writes, scripts, its lock",
    )
    .killed_in_gate(),
    databases(
        Java,
        "jedis",
        &["redis.clients:jedis:8.0.2"],
        "200 scripts and transactions, messages, a pipeline, KEYS",
    ),
    databases(
        Java,
        "lettuce",
        &["io.lettuce:lettuce-core:7.7.0.RELEASE"],
        "200 elements through BLPOP, scripts, messages, WATCH by four threads",
    ),
    databases(
        Java,
        "redisson",
        &["org.redisson:redisson:4.3.0"],
        "a counter under a lock by six threads, messages, maps, a fair lock, a semaphore, a blocking queue",
    )
    .killed_in_gate(),
    databases(
        Java,
        "spring",
        &[
            "org.springframework.boot:spring-boot-dependencies:3.5.7",
            "org.springframework.boot:spring-boot-starter-web",
            "org.springframework.boot:spring-boot-starter-data-redis",
            "org.springframework.boot:spring-boot-starter-cache",
            "org.springframework.session:spring-session-data-redis",
        ],
        "Spring Boot with Spring Session (indexed, events of expiry), Cache and Data Redis: 200 visits over two servers",
    )
    .killed_in_gate(),
    databases(
        Ruby,
        "sidekiq",
        &["ruby", "ruby-sidekiq=6.4.1"],
        "122 jobs by two processes: in bulk, scheduled, retried, by weight of queues",
    ),
    databases(
        Php,
        "phpredis",
        &["php-cli", "php-redis=5.3.7"],
        "160 requests of eight PHP sessions under their locks, transactions, a script, a scan",
    ),
    databases(
        Php,
        "laravel",
        &["php-cli", "php-redis=5.3.7", "php-laravel-framework=8.83.26"],
        "102 jobs by two workers: a delay, a retry; its cache with locks",
    ),
    checks(
        Node,
        "bullmq-work",
        &["bullmq@6.7.0", "ioredis@5.11.1"],
        "38 checks of ours, by the kinds of work of BullMQ's own tests (its package has none): queues, workers, flows, limits of rates",
    ),
    suite(
        Node,
        "connect-redis-suite",
        &["connect-redis@9.0.0", "redis@6.3.1", "express-session@1.19.0", "vitest@4.1.11"],
        "connect-redis's own tests, which its package has, and six checks of ours: the store of sessions, with each of its settings",
    ),
    suite(
        Python,
        "rq-suite",
        &["rq==2.12.0", "redis==8.1.0", "pytest", "pytest-timeout", "psutil"],
        "RQ's own tests: those that pass on redis-server",
    ),
    suite(
        Python,
        "huey-suite",
        &["huey==3.5.4", "redis==8.1.0", "pytest", "pytest-timeout"],
        "Huey's own tests: those that pass on redis-server",
    ),
    suite(
        Python,
        "redis-py-suite",
        &["redis==8.1.0", "pytest", "pytest-timeout", "pytest-asyncio", "numpy", "xxhash", "pybreaker", "aiohttp", "pyjwt"],
        "redis-py's own tests: those that pass on redis-server, without those of clusters and modules",
    ),
    suite(
        Python,
        "kombu-suite",
        &["kombu[redis]==5.7.0", "pytest", "pytest-timeout"],
        "kombu's own tests of its transport for Redis: those that pass on redis-server",
    ),
    suite(
        Python,
        "celery-suite",
        &["celery[redis,pytest,pydantic]==5.7.0", "cryptography", "pytest", "pytest-timeout", "pytest-rerunfailures", "pytest-subtests"],
        "Celery's own tests with a server and a worker: those that pass on redis-server",
    ),
    suite(
        Python,
        "django-redis-suite",
        &["django-redis==7.0.0", "django==5.2.19", "pytest", "pytest-timeout", "pytest-mock", "pytest-xdist", "msgpack", "lz4", "pyzstd"],
        "django-redis's own tests, with each of its settings: those that pass on redis-server",
    ),
    suite(
        Python,
        "fakeredis-suite",
        &["fakeredis[lua]==2.41.0", "redis==8.1.0", "valkey", "hypothesis", "pytest", "pytest-timeout", "pytest-asyncio", "pytest-mock"],
        "what fakeredis imitates, and random commands that it compares: its tests of a real server that pass on redis-server",
    ),
    suite(
        Python,
        "walrus-suite",
        &["walrus==0.9.8", "redis==8.1.0", "pytest", "pytest-timeout"],
        "walrus's own tests (containers, models, locks, limits, streams): those that pass on redis-server",
    ),
    suite(
        Python,
        "channels-suite",
        &["channels-redis==4.3.0", "pytest", "pytest-timeout", "pytest-asyncio", "async-timeout", "cryptography"],
        "the tests of Django Channels' layers: those that pass on redis-server",
    ),
    suite(
        Python,
        "aiocache-suite",
        &["aiocache[redis,memcached,msgpack]==0.12.3", "redis<6", "pytest", "pytest-timeout", "pytest-asyncio", "pytest-mock", "pytest-cov", "marshmallow"],
        "aiocache's own tests: those that pass on redis-server",
    ),
    suite(
        Go,
        "asynq-suite",
        &["github.com/hibiken/asynq@v0.26.0"],
        "Asynq's own tests: those that pass on redis-server",
    ),
];
