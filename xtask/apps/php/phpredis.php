<?php
// phpredis: PHP's own sessions with its locks, by many requests of their own processes, and transactions and scripts.
require __DIR__ . '/trial.php';

const USERS = 8;
const VISITS = 10;

if (($argv[1] ?? '') === 'request') {
    ini_set('session.save_handler', 'redis');
    ini_set('session.save_path', 'tcp://' . HOST . ':' . PORT . '?timeout=15&read_timeout=15');
    ini_set('redis.session.locking_enabled', '1');
    ini_set('redis.session.lock_retries', '-1');
    ini_set('redis.session.lock_wait_time', '2000');
    ini_set('redis.session.lock_expire', '15');
    ini_set('session.use_cookies', '0');
    session_id($argv[2]);
    session_start() || exit(1);
    // Two steps that another request of the session would spoil.
    $count = $_SESSION['visits'] ?? 0;
    usleep(2000);
    $_SESSION['visits'] = $count + 1;
    session_write_close() || exit(1);
    exit(0);
}

function request(string $user)
{
    return proc_open([PHP_BINARY, __FILE__, 'request', $user], [1 => STDERR, 2 => STDERR], $pipes);
}

$redis = new Redis();
again(fn () => $redis->connect(HOST, PORT, 15, null, 100, 15));
$failed = 0;
for ($visit = 0; $visit < VISITS; $visit++) {
    if ($visit === VISITS / 2) {
        half();
    }
    for ($user = 0; $user < USERS; $user++) {
        // Two requests of one session at once: the lock keeps them apart.
        $both = [request("user-$user"), request("user-$user")];
        foreach ($both as $one) {
            $failed += proc_close($one) === 0 ? 0 : 1;
        }
    }
}
check($failed === 0 || KILLED, "$failed requests failed");
for ($user = 0; $user < USERS; $user++) {
    $kept = again(fn () => $redis->get("PHPREDIS_SESSION:user-$user"));
    $visits = (int) substr($kept, strpos($kept, 'i:') + 2);
    check($visits <= 2 * VISITS && $visits >= 2 * VISITS - $failed, "user $user: $visits of " . 2 * VISITS . ' visits');
}
for ($number = 0; $number < 100; $number++) {
    $answers = again(fn () => $redis->multi()->set('left', $number)->set('right', $number)->incr('count')->exec());
    check(count($answers) === 3, 'a transaction answered otherwise');
}
check(array_unique($redis->mget(['left', 'right'])) === ['99'], 'a transaction was made in part');
check($redis->eval("return redis.call('incrby', KEYS[1], ARGV[1])", ['count', 5], 1) >= 105, 'the script');
for ($number = 0; $number < 500; $number++) {
    $redis->set("key:$number", $number);
}
$redis->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$seen = [];
$cursor = null;
while ($keys = $redis->scan($cursor, 'key:*', 50)) {
    array_push($seen, ...$keys);
}
check(count(array_unique($seen)) === 500, count($seen) . ' of 500 keys scanned');
ok(2 * USERS * VISITS . ' requests of ' . USERS . ' sessions under locks' . ($failed ? ", $failed failed" : ', none lost') . '; 100 transactions, a script, a scan');
