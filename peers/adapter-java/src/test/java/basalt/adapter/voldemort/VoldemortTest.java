package basalt.adapter.voldemort;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import basalt.adapter.Laboratory;
import basalt.adapter.LostUpdates;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The adapter against frames as the protocol's documents have them: there is no server to be had. */
class VoldemortTest {
    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    @Test
    void messagesLieAsDocumented() throws IOException {
        byte[] key = "k".getBytes(UTF_8);
        // type GET, should_route, store "s", get {key "k"}
        assertEquals("080010011a0173" + "2203" + "0a016b", hex(Message.get("s", key, true)));
        assertEquals("080410011a0173" + "2203" + "0a016b", hex(Message.getVersion("s", key)));
        Clock clock = Clock.NONE.with(3, 1).at(5);
        // put {key, versioned {value, clock {entry {node 3, version 1}, timestamp 5}}}
        String entry = "0a04" + "0803" + "1001";
        assertEquals(
                "080210011a0173" + "3212" + "0a016b" + "120d" + "0a0176" + "1208" + entry + "1005",
                hex(Message.put("s", key, "v".getBytes(UTF_8), clock)));
        assertEquals("080310011a0173" + "3a0d" + "0a016b" + "1208" + entry + "1005", hex(Message.delete("s", key, clock)));
    }

    @Test
    void siblingsAreMerged() {
        Clock one = Clock.NONE.with(1, 4).with(2, 1).at(10);
        Clock other = Clock.NONE.with(1, 3).with(3, 7).at(9);
        Clock merged = Clock.merged(java.util.List.of(one, other));
        assertEquals("{1=4, 2=1, 3=7} 10", merged.versions() + " " + merged.timestamp());
        assertEquals(12, merged.writes());
    }

    /**
     * The servers of a store, as strict as real ones that route: the server that is asked counts the write under the key's
     * first replica, whichever it is itself; refuses a clock that a stored one has reached; and keeps concurrent versions
     * side by side.
     */
    private static final class FakeCluster implements AutoCloseable {
        /** The key's first replica: none of the servers that are asked. */
        private static final int FIRST_REPLICA = 7;

        private record Stored(byte[] value, Clock clock) {}

        private final List<ServerSocket> listeners = new ArrayList<>();
        private final Map<String, List<Stored>> values = new HashMap<>();
        /** Whether requests are routed; servers without that hang up. */
        private boolean routes = true;
        /** The next put comes too late. */
        private boolean obsolete;
        /** The next request is not answered. */
        private boolean dies;

        FakeCluster(int servers) throws IOException {
            for (int i = 0; i < servers; i++) {
                ServerSocket listener = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
                listeners.add(listener);
                daemon(() -> accept(listener));
            }
        }

        private static void daemon(Runnable runs) {
            Thread thread = new Thread(runs);
            thread.setDaemon(true);
            thread.start();
        }

        int port() {
            return listeners.get(0).getLocalPort();
        }

        private void accept(ServerSocket listener) {
            while (!listener.isClosed()) {
                try {
                    Socket socket = listener.accept();
                    daemon(() -> serve(socket));
                } catch (IOException closed) {
                    return;
                }
            }
        }

        private void serve(Socket socket) {
            try (socket) {
                DataInputStream in = new DataInputStream(socket.getInputStream());
                DataOutputStream out = new DataOutputStream(socket.getOutputStream());
                assertEquals("pb0", new String(in.readNBytes(3), UTF_8));
                out.write("ok".getBytes(UTF_8));
                while (true) {
                    byte[] request = in.readNBytes(in.readInt());
                    byte[] answer = answer(request);
                    if (answer == null) {
                        return;
                    }
                    out.writeInt(answer.length);
                    out.write(answer);
                }
            } catch (IOException end) {
                // The adapter has closed the connection.
            }
        }

        private synchronized byte[] answer(byte[] request) throws IOException {
            if (dies) {
                dies = false;
                return null;
            }
            CodedInputStream in = CodedInputStream.newInstance(request);
            int type = -1;
            boolean routed = false;
            String store = "";
            Map<Integer, byte[]> body = Map.of();
            for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
                switch (tag >>> 3) {
                    case 1 -> type = in.readEnum();
                    case 2 -> routed = in.readBool();
                    case 3 -> store = in.readString();
                    default -> body = parts(in.readByteArray());
                }
            }
            String key = new String(body.get(1), UTF_8);
            if (store.equals("metadata")) {
                return message(out -> out.writeByteArray(1, versioned(metadata(key).getBytes(UTF_8), Clock.NONE)));
            }
            if (!routed || !routes) {
                return null;
            }
            List<Stored> stored = values.getOrDefault(key, List.of());
            return switch (type) {
                case 0 -> message(out -> {
                    for (Stored one : stored) {
                        out.writeByteArray(1, versioned(one.value, one.clock));
                    }
                });
                case 4 -> message(out -> {
                    for (Stored one : stored) {
                        out.writeByteArray(1, bytes(one.clock));
                    }
                });
                case 2 -> put(key, stored, parts(body.get(2)));
                default -> removed(key, stored, clock(body.get(2)));
            };
        }

        private byte[] put(String key, List<Stored> stored, Map<Integer, byte[]> versioned) throws IOException {
            Clock sent = clock(versioned.get(2));
            Clock counted = sent.with(FIRST_REPLICA, sent.versions().getOrDefault(FIRST_REPLICA, 0L) + 1);
            if (obsolete || stored.stream().anyMatch(one -> reaches(one.clock, counted))) {
                obsolete = false;
                byte[] error = message(out -> {
                    out.writeInt32(1, Message.OBSOLETE);
                    out.writeString(2, "obsolete");
                });
                return message(out -> out.writeByteArray(1, error));
            }
            List<Stored> left = new ArrayList<>(stored);
            left.removeIf(one -> reaches(counted, one.clock));
            left.add(new Stored(versioned.get(1), counted));
            values.put(key, left);
            return new byte[0];
        }

        private byte[] removed(String key, List<Stored> stored, Clock clock) throws IOException {
            List<Stored> left = new ArrayList<>(stored);
            boolean was = left.removeIf(one -> reaches(clock, one.clock));
            values.put(key, left);
            return message(out -> out.writeBool(1, was));
        }

        /** Whether one clock has every write of another. */
        private static boolean reaches(Clock one, Clock other) {
            return other.versions().entrySet().stream()
                    .allMatch(entry -> one.versions().getOrDefault(entry.getKey(), 0L) >= entry.getValue());
        }

        private String metadata(String key) {
            if (!key.equals("cluster.xml")) {
                return "<stores><store><name>usertable</name><persistence>bdb</persistence><replication-factor>3"
                        + "</replication-factor><required-reads>2</required-reads><required-writes>2</required-writes>"
                        + "</store></stores>";
            }
            StringBuilder servers = new StringBuilder();
            for (int i = 0; i < listeners.size(); i++) {
                servers.append("<server><id>" + i + "</id><host>127.0.0.1</host><http-port>1</http-port><socket-port>"
                        + listeners.get(i).getLocalPort() + "</socket-port><partitions>" + i + "</partitions></server>");
            }
            return "<cluster><name>c</name>" + servers + "</cluster>";
        }

        private static byte[] versioned(byte[] value, Clock clock) throws IOException {
            return message(out -> {
                out.writeByteArray(1, value);
                out.writeByteArray(2, bytes(clock));
            });
        }

        private static byte[] bytes(Clock clock) throws IOException {
            return message(out -> {
                for (var entry : clock.versions().entrySet()) {
                    out.writeByteArray(1, message(inner -> {
                        inner.writeInt32(1, entry.getKey());
                        inner.writeInt64(2, entry.getValue());
                    }));
                }
                out.writeInt64(2, clock.timestamp());
            });
        }

        private static Clock clock(byte[] bytes) throws IOException {
            byte[] answer = message(out -> out.writeByteArray(1, bytes));
            return Message.clocks(answer).get(0);
        }

        private static Map<Integer, byte[]> parts(byte[] bytes) throws IOException {
            Map<Integer, byte[]> parts = new HashMap<>();
            CodedInputStream in = CodedInputStream.newInstance(bytes);
            for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
                parts.put(tag >>> 3, in.readByteArray());
            }
            return parts;
        }

        private interface Writer {
            void write(CodedOutputStream out) throws IOException;
        }

        private static byte[] message(Writer writer) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            CodedOutputStream out = CodedOutputStream.newInstance(bytes);
            writer.write(out);
            out.flush();
            return bytes.toByteArray();
        }

        synchronized void nextIsObsolete() {
            obsolete = true;
        }

        synchronized void nextDies() {
            dies = true;
        }

        synchronized void routesNothing() {
            routes = false;
        }

        @Override
        public void close() throws IOException {
            for (ServerSocket listener : listeners) {
                listener.close();
            }
        }
    }

    @Test
    void hashesAreValuesThatAreReadAndWrittenBack() throws Exception {
        try (FakeCluster server = new FakeCluster(1);
                Laboratory laboratory = new Laboratory(VoldemortStore::connect)) {
            String told = laboratory.open("voldemort://127.0.0.1:" + server.port(), "hash");
            assertTrue(told.contains("replication=3 on 1 nodes\nconsistency=R = 2, W = 2"), told);
            assertTrue(told.contains("node=127.0.0.1:" + server.port() + "\n"), told);
            assertEquals("0 *0", laboratory.read("HGETALL", "k"));
            assertEquals("0 :2", laboratory.write("HSET", "k", "f/a", "1", "f/b", "2"));
            server.nextIsObsolete();
            assertEquals("0 :1", laboratory.write("HSET", "k", "f/b", "3"));
            assertEquals("0 *4 $3 f/a $1 1 $3 f/b $1 3", laboratory.read("HGETALL", "k"));
            assertEquals("0 *1 $1 3", laboratory.read("HMGET", "k", "f/b"));
            assertEquals("0 :1", laboratory.write("DEL", "k"));
            assertEquals("0 :0", laboratory.write("DEL", "k"));
            server.nextDies();
            assertEquals("2 disconnected", laboratory.write("HSET", "k", "f/b", "3"));
            assertEquals("0 *2 $-1 $-1", laboratory.read("HMGET", "k", "f/a", "f/b"));
        }
    }

    @Test
    void stringsCompareTheClockThatWasRead() throws Exception {
        try (FakeCluster server = new FakeCluster(1);
                Laboratory laboratory = new Laboratory(VoldemortStore::connect)) {
            laboratory.open("voldemort://127.0.0.1:" + server.port() + "?store=usertable", "string");
            assertEquals("0 $-1", laboratory.read("KV.GET", "k"));
            assertEquals("0 +OK", laboratory.write("SET", "k", "v"));
            assertEquals("0 *2 $1 v :1", laboratory.read("KV.GET", "k"));
            assertEquals("0 :2", laboratory.write("KV.PUT", "k", "w", "IFVERSION", "1"));
            server.nextIsObsolete();
            assertEquals("0 $-1", laboratory.write("KV.PUT", "k", "x", "IFVERSION", "1"));
            assertEquals("0 $1 w", laboratory.read("GET", "k"));
        }
    }

    @Test
    void noUpdateIsLost() throws Exception {
        try (FakeCluster server = new FakeCluster(3);
                Laboratory laboratory = new Laboratory(VoldemortStore::connect)) {
            laboratory.open("voldemort://127.0.0.1:" + server.port(), "string");
            LostUpdates.areNone(laboratory);
        }
    }

    @Test
    void whatCannotBeIsRefusedInWords() throws Exception {
        try (FakeCluster server = new FakeCluster(1);
                Laboratory laboratory = new Laboratory(VoldemortStore::connect)) {
            String url = "voldemort://127.0.0.1:" + server.port();
            assertTrue(laboratory.open(url + "?store=no", "hash").contains("there is no store no"));
            assertTrue(laboratory.open(url, "hash", "durability=sync").contains("leave --durability"));
            server.routesNothing();
            assertTrue(laboratory.open(url, "hash").contains("enable.server.routing=true"));
        }
    }
}
