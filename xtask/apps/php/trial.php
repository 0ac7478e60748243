<?php
// What the programs share: where the store is, what they say, and how calls are made again.

const HOST = '127.0.0.1';
define('PORT', (int) getenv('BASALT_PORT'));
define('KILLED', getenv('BASALT_SITUATION') === 'killed');
$failures = 0;

// The node that leads the shard of the key, or of database 0, is to be killed now.
function half(string $key = ''): void
{
    fwrite(STDOUT, trim("HALF $key") . "\n");
}

function ok(string $what): void
{
    global $failures;
    fwrite(STDOUT, "OK $what" . ($failures ? "; $failures calls made again" : '') . "\n");
    exit(0);
}

function check(bool $holds, string $why): void
{
    if (!$holds) {
        fwrite(STDERR, "$why\n");
        exit(1);
    }
}

// Makes a call again where it fails, as an application does whose server is replaced. Counts failures.
function again(callable $call)
{
    global $failures;
    for ($left = 60; ; $left--) {
        try {
            return $call();
        } catch (Throwable $error) {
            $failures++;
            fwrite(STDERR, 'made again after ' . $error->getMessage() . "\n");
            check($left > 0 && KILLED, get_class($error) . ': ' . $error->getMessage());
            usleep(250000);
        }
    }
}
