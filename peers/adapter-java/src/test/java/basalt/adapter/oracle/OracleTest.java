package basalt.adapter.oracle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import basalt.adapter.Laboratory;
import basalt.adapter.LostUpdates;
import basalt.adapter.Request;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import oracle.nosql.driver.Nson;
import oracle.nosql.driver.ops.serde.nson.NsonProtocol;
import oracle.nosql.driver.util.BinaryProtocol.OpCode;
import oracle.nosql.driver.util.HttpConstants;
import oracle.nosql.driver.util.NettyByteInputStream;
import oracle.nosql.driver.util.NettyByteOutputStream;
import oracle.nosql.driver.values.ArrayValue;
import oracle.nosql.driver.values.MapValue;
import org.junit.jupiter.api.Test;

/** The published SDK against a proxy that speaks the documented protocol (NSON over HTTP): no registry has a real one. */
class OracleTest {
    /** A proxy that keeps rows in a map. */
    private static final class FakeProxy implements AutoCloseable {
        private static final int WRITE_LIMIT_EXCEEDED = 51;

        private final HttpServer http = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 10);
        private final Map<String, MapValue> rows = new TreeMap<>();
        private final Map<String, Integer> versions = new TreeMap<>();
        private final List<String> statements = Collections.synchronizedList(new ArrayList<>());
        private final List<MapValue> payloads = Collections.synchronizedList(new ArrayList<>());
        private boolean throttles;

        FakeProxy() throws IOException {
            http.setExecutor(Executors.newCachedThreadPool());
            http.createContext("/", exchange -> {
                try {
                    serve(exchange);
                } catch (RuntimeException | AssertionError wrong) {
                    // Otherwise it is only seen that nobody answers.
                    wrong.printStackTrace();
                    throw wrong;
                }
            });
            http.start();
        }

        int port() {
            return http.getAddress().getPort();
        }

        private void serve(HttpExchange exchange) throws IOException {
            byte[] body = exchange.getRequestBody().readAllBytes();
            NettyByteInputStream in = NettyByteInputStream.createFromBytes(body);
            assertEquals(NsonProtocol.V4_VERSION, in.readShort());
            MapValue request = Nson.readFieldValue(in).asMap();
            MapValue header = request.get(NsonProtocol.HEADER).asMap();
            OpCode code = OpCode.values()[header.get(NsonProtocol.OP_CODE).getInt()];
            MapValue payload = request.get(NsonProtocol.PAYLOAD).asMap();
            NettyByteOutputStream out = NettyByteOutputStream.createNettyByteOutputStream();
            Nson.writeFieldValue(out, answer(code, payload));
            byte[] answer = new byte[out.buffer().readableBytes()];
            out.buffer().readBytes(answer);
            exchange.getResponseHeaders().set("Content-Type", "application/octet-stream");
            String id = exchange.getRequestHeaders().getFirst(HttpConstants.REQUEST_ID_HEADER);
            exchange.getResponseHeaders().set(HttpConstants.REQUEST_ID_HEADER, id);
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        }

        private synchronized MapValue answer(OpCode code, MapValue payload) {
            MapValue answer = new MapValue();
            if (throttles && code == OpCode.PUT) {
                throttles = false;
                return answer.put(NsonProtocol.ERROR_CODE, WRITE_LIMIT_EXCEEDED).put(NsonProtocol.EXCEPTION, "too fast");
            }
            payloads.add(payload);
            switch (code) {
                case LIST_TABLES -> answer.put(NsonProtocol.TABLES, new ArrayValue()).put(NsonProtocol.LAST_INDEX, 0);
                case TABLE_REQUEST -> {
                    statements.add(payload.get(NsonProtocol.STATEMENT).getString());
                    answer.put(NsonProtocol.TABLE_NAME, "t").put(NsonProtocol.TABLE_STATE, 0);
                }
                case PREPARE -> {
                    statements.add(payload.get(NsonProtocol.STATEMENT).getString());
                    // The SDK takes nothing shorter for a plan.
                    answer.put(NsonProtocol.PREPARED_QUERY, java.util.Arrays.copyOf(new byte[] {(byte) statements.size()}, 10));
                    answer.put(NsonProtocol.TABLE_NAME, "t");
                }
                case QUERY -> answer.put(NsonProtocol.QUERY_RESULTS, query(payload));
                case GET -> get(payload.get(NsonProtocol.KEY).asMap().get("k").getString(), answer);
                case PUT -> put(payload.get(NsonProtocol.VALUE).asMap(), answer);
                case PUT_IF_VERSION -> {
                    MapValue row = payload.get(NsonProtocol.VALUE).asMap();
                    byte[] version = payload.get(NsonProtocol.ROW_VERSION).getBinary();
                    if (version[0] == versions.get(row.get("k").getString())) {
                        put(row, answer);
                    }
                }
                case DELETE -> {
                    String key = payload.get(NsonProtocol.KEY).asMap().get("k").getString();
                    answer.put(NsonProtocol.SUCCESS, rows.remove(key) != null);
                }
                default -> answer.put(NsonProtocol.ERROR_CODE, 1).put(NsonProtocol.EXCEPTION, "no " + code);
            }
            return answer;
        }

        private void get(String key, MapValue answer) {
            MapValue row = rows.get(key);
            if (row != null) {
                answer.put(NsonProtocol.ROW, new MapValue().put(NsonProtocol.MODIFIED, 0L).put(NsonProtocol.EXPIRATION, 0L)
                        .put(NsonProtocol.ROW_VERSION, new byte[] {versions.get(key).byteValue()})
                        .put(NsonProtocol.VALUE, row));
            }
        }

        private void put(MapValue row, MapValue answer) {
            String key = row.get("k").getString();
            rows.put(key, row);
            versions.merge(key, 1, Integer::sum);
            answer.put(NsonProtocol.ROW_VERSION, new byte[] {versions.get(key).byteValue()});
        }

        /** Does what the statement says whose number was prepared. */
        private ArrayValue query(MapValue payload) {
            String statement = statements.get(payload.get(NsonProtocol.PREPARED_QUERY).getBinary()[0] - 1);
            Map<String, byte[]> bound = new TreeMap<>();
            String[] key = {""};
            int[] limit = {0};
            payload.get(NsonProtocol.BIND_VARIABLES).asArray().forEach(variable -> {
                MapValue pair = variable.asMap();
                String name = pair.get(NsonProtocol.NAME).getString();
                switch (name) {
                    case "$k" -> key[0] = pair.get(NsonProtocol.VALUE).getString();
                    case "$n" -> limit[0] = pair.get(NsonProtocol.VALUE).getInt();
                    default -> bound.put(name, pair.get(NsonProtocol.VALUE).getBinary());
                }
            });
            ArrayValue results = new ArrayValue();
            if (statement.contains("UPDATE")) {
                String column = statement.replaceAll(".*SET t\\.(\\w+) = .*", "$1");
                MapValue row = rows.get(key[0]);
                if (row != null) {
                    row.put(column, bound.get("$v"));
                }
                return results.add(new MapValue().put("NumRowsUpdated", row == null ? 0 : 1));
            }
            rows.forEach((name, row) -> {
                int order = name.compareTo(key[0]);
                if ((order > 0 || (order == 0 && statement.contains(">="))) && results.size() < limit[0]) {
                    results.add(row);
                }
            });
            return results;
        }

        synchronized void throttle() {
            throttles = true;
        }

        MapValue lastPayload() {
            return payloads.get(payloads.size() - 1);
        }

        @Override
        public void close() {
            http.stop(0);
        }
    }

    @Test
    void hashesAreRowsOfManyColumns() throws Exception {
        try (FakeProxy proxy = new FakeProxy();
                Laboratory laboratory = new Laboratory(OracleStore::connect)) {
            String told = laboratory.open("oracle-nosql://127.0.0.1:" + proxy.port(), "hash", "durability=sync", "acks=all");
            assertTrue(told.contains("durability=master SYNC, replicas SYNC, acks ALL\n"), told);
            assertTrue(told.contains("consistency=ABSOLUTE"), told);
            assertEquals("CREATE TABLE IF NOT EXISTS basalt_usertable (k STRING, f0 BINARY, f1 BINARY, PRIMARY KEY (k))",
                    proxy.statements.get(0));
            assertEquals("0 *0", laboratory.read("HGETALL", "k"));
            assertEquals("0 :2", laboratory.write("HSET", "k", "f/a", "1", "f/b", "2"));
            // SYNC, SYNC, ALL in two bits each.
            assertEquals(0b01_01_01, proxy.lastPayload().get(NsonProtocol.DURABILITY).getInt());
            assertEquals("0 :1", laboratory.write("HSET", "k", "f/b", "3"));
            assertEquals("0 :0", laboratory.write("HSET", "absent", "f/b", "3"), "there is nothing to update");
            assertEquals("0 *4 $3 f/a $1 1 $3 f/b $1 3", laboratory.read("HGETALL", "k"));
            assertEquals("0 *1 $1 3", laboratory.read("HMGET", "k", "f/b"));
            laboratory.write("HSET", "l", "f/a", "4", "f/b", "5");
            assertEquals("0 *2 $-1 *1 *2 $1 l *4 $3 f/a $1 4 $3 f/b $1 5",
                    laboratory.read("KV.RANGE", "(k", "+", "LIMIT", "9", "VALUES"));
            assertEquals("0 :1", laboratory.write("DEL", "k"));
            assertEquals("0 :0", laboratory.write("DEL", "k"));
            proxy.throttle();
            assertEquals("1 LOADING", laboratory.write("HSET", "k", "f/a", "1", "f/b", "2"));
        }
    }

    @Test
    void stringsCompareTheVersionThatWasRead() throws Exception {
        try (FakeProxy proxy = new FakeProxy();
                Laboratory laboratory = new Laboratory(OracleStore::connect)) {
            laboratory.open("oracle-nosql://127.0.0.1:" + proxy.port(), "string", "read_from=any");
            assertEquals("0 $-1", laboratory.read("KV.GET", "k"));
            assertEquals("0 +OK", laboratory.write("SET", "k", "v"));
            String version = version(laboratory);
            assertEquals("0 :1", laboratory.write("KV.PUT", "k", "w", "IFVERSION", version));
            assertEquals("0 $-1", laboratory.write("KV.PUT", "k", "x", "IFVERSION", version));
            assertEquals("0 $1 w", laboratory.read("GET", "k"));
            assertNotEquals(version, version(laboratory), "a write makes another version");
        }
    }

    /** The number that stands for the version of the record. */
    private static String version(Laboratory laboratory) throws IOException {
        String[] words = laboratory.ask(Request.Access.LEADER_READ, "KV.GET", "k").split(" ");
        assertEquals(5, words.length);
        assertTrue(words[4].matches(":\\d+"), words[4]);
        return words[4].substring(1);
    }

    @Test
    void noUpdateIsLost() throws Exception {
        try (FakeProxy proxy = new FakeProxy();
                Laboratory laboratory = new Laboratory(OracleStore::connect)) {
            laboratory.open("oracle-nosql://127.0.0.1:" + proxy.port(), "string");
            LostUpdates.areNone(laboratory);
        }
    }

    /** Attempts are the laboratory's: the SDK makes one connection, and none again when it is closed. */
    @Test
    void theSdkMakesNoFurtherAttempt() throws Exception {
        AtomicInteger connections = new AtomicInteger();
        try (ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                Laboratory laboratory = new Laboratory(OracleStore::connect)) {
            Thread closes = new Thread(() -> {
                try {
                    while (true) {
                        listener.accept().close();
                        connections.incrementAndGet();
                    }
                } catch (IOException end) {
                    // The test is over.
                }
            });
            closes.setDaemon(true);
            closes.start();
            String target = "target=oracle-nosql://127.0.0.1:" + listener.getLocalPort();
            String told = laboratory.greet("what=hello", target, "timeout_ms=2000", "connections=1");
            assertTrue(told.startsWith("error=127.0.0.1:"), told);
        }
        assertTrue(connections.get() <= 3, connections + " connections");
    }

    @Test
    void aProxyThatIsNotThereIsNamed() throws Exception {
        try (Laboratory laboratory = new Laboratory(OracleStore::connect)) {
            String told = laboratory.greet("what=hello", "target=oracle-nosql://127.0.0.1:1", "timeout_ms=500", "connections=1");
            assertTrue(told.startsWith("error=127.0.0.1:1: "), told);
        }
    }
}
