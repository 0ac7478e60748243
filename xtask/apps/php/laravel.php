<?php
// Laravel's queue: jobs by two workers, delayed, in bulk, released again after a failure; its cache and the cache's locks.
require __DIR__ . '/trial.php';
require 'Illuminate/autoload.php';

use Illuminate\Cache\CacheManager;
use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Capsule\Manager as Queue;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use Illuminate\Redis\RedisManager;

const JOBS = 100;
define('DONE', getenv('TRIAL_DONE') ?: __DIR__ . '/done-' . getmypid());

class Work
{
    public function fire($job, array $data): void
    {
        file_put_contents(DONE, $data['name'] . "\n", FILE_APPEND);
        usleep(10000);
        if ($data['name'] === 'twice' && $job->attempts() === 1) {
            throw new RuntimeException('the first time');
        }
        $job->delete();
    }
}

class Handler implements ExceptionHandler
{
    public function report(Throwable $error)
    {
        fwrite(STDERR, get_class($error) . ': ' . $error->getMessage() . "\n");
    }

    public function shouldReport(Throwable $error)
    {
        return true;
    }

    public function render($request, Throwable $error)
    {
    }

    public function renderForConsole($output, Throwable $error)
    {
    }
}

$container = Container::getInstance();
$connection = ['host' => HOST, 'port' => PORT, 'database' => 0, 'timeout' => 15, 'read_timeout' => 15];
$container->singleton('redis', fn () => new RedisManager($container, 'phpredis', ['default' => $connection]));
$container->singleton('events', fn () => new Dispatcher($container));
$queue = new Queue($container);
$queue->addConnection(['driver' => 'redis', 'connection' => 'default', 'queue' => 'work', 'retry_after' => 5, 'block_for' => 1]);

$container['config']['cache.default'] = 'redis';
$container['config']['cache.prefix'] = 'cache';
$container['config']['cache.stores.redis'] = ['driver' => 'redis', 'connection' => 'default'];

if (($argv[1] ?? '') === 'worker') {
    $worker = new Worker($queue->getQueueManager(), $container['events'], new Handler(), fn () => false);
    $options = new WorkerOptions('default', 0, 128, 60, 0.05, 5);
    for (;;) {
        $worker->runNextJob('default', 'work', $options);
    }
}

function counts(): array
{
    return is_file(DONE) ? array_count_values(file(DONE, FILE_IGNORE_NEW_LINES)) : [];
}

function start()
{
    return proc_open([PHP_BINARY, __FILE__, 'worker'], [0 => ['file', '/dev/null', 'r'], 1 => STDERR, 2 => STDERR], $pipes, null, ['TRIAL_DONE' => DONE] + getenv());
}

$workers = [start(), start()];
$restarts = 0;
$push = fn (string $name) => again(fn () => $queue->getConnection()->push(Work::class, ['name' => $name]));
for ($number = 0; $number < JOBS; $number++) {
    if ($number === JOBS / 2) {
        half();
    }
    $push("job-$number");
}
again(fn () => $queue->getConnection()->later(1, Work::class, ['name' => 'later']));
$push('twice');
$names = [...array_map(fn ($number) => "job-$number", range(0, JOBS - 1)), 'later', 'twice'];
$left = fn () => array_diff($names, array_keys(counts()));
for ($end = time() + 90; $left() || (counts()['twice'] ?? 0) < 2 || $queue->getConnection()->size() > 0; usleep(50000)) {
    check(time() < $end, 'never done: ' . implode(' ', array_slice($left(), 0, 10)) . ', left ' . again(fn () => $queue->getConnection()->size()));
    foreach ($workers as $number => $worker) {
        if (!proc_get_status($worker)['running']) {
            check(KILLED, 'a worker ended');
            $workers[$number] = start();
            $restarts++;
        }
    }
}
$counts = counts();
unset($counts['twice']);
$more = count(array_filter($counts, fn ($often) => $often > 1));
// What a worker that lost its answer has taken is given out again.
check(KILLED || $more === 0, "$more jobs were done more than once");
foreach ($workers as $worker) {
    proc_terminate($worker, 9);
}
$cache = (new CacheManager($container))->store();
check($cache->remember('answer', 60, fn () => 42) == 42 && $cache->get('answer') == 42, 'the cache');
check($cache->increment('number', 5) == 5 && $cache->many(['answer', 'none'])['none'] === null, 'the cache');
$lock = $cache->lock('lock', 10);
check($lock->get() && !$cache->lock('lock', 10)->get(), 'two hold a lock');
check($lock->release() && $cache->lock('lock', 10)->get(), 'a lock is not released');
unlink(DONE);
ok(count($counts) . ' jobs done, ' . ($more ? "$more more than once" : 'each once') . ($restarts ? "; $restarts workers started again" : '') . '; cache, locks');
