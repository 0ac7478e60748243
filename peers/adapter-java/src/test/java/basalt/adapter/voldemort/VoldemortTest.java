package basalt.adapter.voldemort;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import basalt.adapter.Laboratory;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.HashMap;
import java.util.HexFormat;
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
        Clock clock = Clock.NONE.next(3, 5);
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
        assertEquals(13, merged.next(2, 11).writes());
    }

    /** A server of one store that keeps one version of each value. */
    private static final class FakeServer implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
        private final Map<String, byte[]> values = new HashMap<>();
        private final Map<String, byte[]> clocks = new HashMap<>();
        /** The next put comes too late. */
        private boolean obsolete;
        /** The next request is not answered. */
        private boolean dies;

        FakeServer() throws IOException {
            Thread thread = new Thread(this::accept);
            thread.setDaemon(true);
            thread.start();
        }

        int port() {
            return listener.getLocalPort();
        }

        private void accept() {
            while (!listener.isClosed()) {
                try {
                    Socket socket = listener.accept();
                    Thread thread = new Thread(() -> serve(socket));
                    thread.setDaemon(true);
                    thread.start();
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
            String store = "";
            Map<Integer, byte[]> body = Map.of();
            for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
                switch (tag >>> 3) {
                    case 1 -> type = in.readEnum();
                    case 2 -> in.readBool();
                    case 3 -> store = in.readString();
                    default -> body = parts(in.readByteArray());
                }
            }
            String key = new String(body.get(1), UTF_8);
            if (store.equals("metadata")) {
                return found(metadata(key).getBytes(UTF_8), new byte[0]);
            }
            return switch (type) {
                case 0 -> values.containsKey(key) ? found(values.get(key), clocks.get(key)) : new byte[0];
                case 4 -> clocks.containsKey(key) ? message(out -> out.writeByteArray(1, clocks.get(key))) : new byte[0];
                case 2 -> put(key, parts(body.get(2)));
                default -> removed(key);
            };
        }

        private byte[] put(String key, Map<Integer, byte[]> versioned) throws IOException {
            if (obsolete) {
                obsolete = false;
                byte[] error = message(out -> {
                    out.writeInt32(1, Message.OBSOLETE);
                    out.writeString(2, "obsolete");
                });
                return message(out -> out.writeByteArray(1, error));
            }
            values.put(key, versioned.get(1));
            clocks.put(key, versioned.get(2));
            return new byte[0];
        }

        private byte[] removed(String key) throws IOException {
            clocks.remove(key);
            boolean was = values.remove(key) != null;
            return message(out -> out.writeBool(1, was));
        }

        private String metadata(String key) {
            return key.equals("cluster.xml")
                    ? "<cluster><name>c</name><server><id>0</id><host>127.0.0.1</host><http-port>1</http-port><socket-port>"
                            + port() + "</socket-port><partitions>0, 1</partitions></server></cluster>"
                    : "<stores><store><name>usertable</name><persistence>bdb</persistence><replication-factor>3"
                            + "</replication-factor><required-reads>2</required-reads><required-writes>2</required-writes>"
                            + "</store></stores>";
        }

        private static byte[] found(byte[] value, byte[] clock) throws IOException {
            byte[] versioned = message(out -> {
                out.writeByteArray(1, value);
                out.writeByteArray(2, clock);
            });
            return message(out -> out.writeByteArray(1, versioned));
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

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }

    @Test
    void hashesAreValuesThatAreReadAndWrittenBack() throws Exception {
        try (FakeServer server = new FakeServer();
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
        try (FakeServer server = new FakeServer();
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
    void whatCannotBeIsRefusedInWords() throws Exception {
        try (FakeServer server = new FakeServer();
                Laboratory laboratory = new Laboratory(VoldemortStore::connect)) {
            String url = "voldemort://127.0.0.1:" + server.port();
            assertTrue(laboratory.open(url + "?store=no", "hash").contains("there is no store no"));
            assertTrue(laboratory.open(url, "hash", "durability=sync").contains("leave --durability"));
        }
    }
}
