import java.io.File;
import java.util.*;
import java.util.function.Supplier;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.util.JedisClusterCRC16;

/**
 * Uses a store of several nodes by Jedis 2.9, the one in YCSB, knowing the node on the port given. It cannot read from
 * replicas, and pipelines and transactions are those of one connection.
 */
final class Program {
    private static final String NAME = "jedis-2.9";
    private static final int KEYS = 200;
    private static final long RESUMES_WITHIN_MS = 5_000;

    private static void expect(String what, Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(what + ": " + found + " instead of " + wanted);
        }
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }

    private static void commands(JedisCluster client) {
        var keys = new TreeSet<String>();
        for (int n = 0; n < KEYS; n++) {
            keys.add(NAME + ":key:" + n);
        }
        keys.forEach(key -> expect("SET", client.set(key, "of " + key), "OK"));
        keys.forEach(key -> expect("GET", client.get(key), "of " + key));
        expect("nodes that were discovered", client.getClusterNodes().size(), 3);
        var scanned = new TreeSet<String>();
        for (var pool : client.getClusterNodes().values()) {
            try (var node = pool.getResource()) {
                var cursor = ScanParams.SCAN_POINTER_START;
                do {
                    var page = node.scan(cursor, new ScanParams().match(NAME + ":key:*").count(20));
                    scanned.addAll(page.getResult());
                    cursor = page.getStringCursor();
                } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            }
        }
        expect("the keys of SCAN", scanned, keys);
        // What YCSB's binding sends.
        var fields = new HashMap<String, String>();
        for (int n = 0; n < 50; n++) {
            fields.put("field:" + n, "" + n);
        }
        var hash = NAME + ":hash";
        expect("HMSET", client.hmset(hash, fields), "OK");
        expect("HGETALL", client.hgetAll(hash), fields);
        expect("HMGET", client.hmget(hash, "field:7", "none"), Arrays.asList("7", null));
        expect("DEL", client.del(hash), 1L);
        var a = "{" + NAME + "}a";
        var handler = new JedisSlotBasedConnectionHandler(
            Set.of(new HostAndPort("127.0.0.1", port)), new GenericObjectPoolConfig(), 1_000);
        try (var connection = handler.getConnectionFromSlot(JedisClusterCRC16.getSlot(a))) {
            var pipeline = connection.pipelined();
            pipeline.set(a, "1");
            pipeline.incr(a);
            var got = pipeline.get(a);
            pipeline.sync();
            expect("pipeline", got.get(), "2");
            var transaction = connection.multi();
            transaction.set(a, "1");
            transaction.incr(a);
            transaction.get(a);
            expect("MULTI", transaction.exec(), List.of("OK", 2L, "2"));
        }
    }

    private static int failures = 0;

    private static <T> T retried(String key, Supplier<T> request) {
        for (long start = now(); ; ) {
            try {
                return request.get();
            } catch (JedisException e) {
                failures++;
                if (now() > start + RESUMES_WITHIN_MS) {
                    throw new AssertionError(key + ": not in time", e);
                }
                java.util.concurrent.locks.LockSupport.parkNanos(50_000_000);
            }
        }
    }

    private static void write(JedisCluster client, File end) throws InterruptedException {
        System.out.println("WRITING");
        int written = 0;
        long longest = 0;
        for (; !end.exists(); written++) {
            var key = NAME + ":written:" + written;
            long start = now();
            retried(key, () -> client.set(key, "of " + key));
            longest = Math.max(longest, now() - start);
            Thread.sleep(3);
        }
        expect("writes in time (slowest " + longest + " ms)", longest < RESUMES_WITHIN_MS, true);
        for (int n = 0; n < written; n++) {
            var key = NAME + ":written:" + n;
            expect("an acknowledged write", retried(key, () -> client.get(key)), "of " + key);
        }
        System.out.println(written + " writes, the slowest in " + longest / 1e3 + " s, " + failures + " tried again");
    }

    private static int port;

    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[0]);
        // Each of so many tries may find a dead node; the library itself waits for nothing between them.
        try (var client = new JedisCluster(new HostAndPort("127.0.0.1", port), 1_000, 1_000, 5, new GenericObjectPoolConfig())) {
            commands(client);
            write(client, new File(arguments[1]));
        }
        System.out.println("OK");
    }
}
