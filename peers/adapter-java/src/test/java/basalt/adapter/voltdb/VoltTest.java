package basalt.adapter.voltdb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import basalt.adapter.Laboratory;
import basalt.adapter.LostUpdates;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.voltdb.ClientResponseImpl;
import org.voltdb.ParameterSet;
import org.voltdb.VoltTable;
import org.voltdb.VoltType;
import org.voltdb.client.ClientResponse;

/** The published client against a server that speaks the documented wire protocol: there is no real one to be had. */
class VoltTest {
    /** A server whose procedures keep rows in a map. */
    private static final class FakeServer implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
        private final Map<String, Object[]> rows = new TreeMap<>();
        private final List<String> ddl = Collections.synchronizedList(new ArrayList<>());
        private final boolean hash;
        /** What the next procedure of a record answers instead. */
        private byte nextStatus = ClientResponse.SUCCESS;

        FakeServer(boolean hash) throws IOException {
            this.hash = hash;
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

        private static ByteBuffer frame(DataInputStream in) throws IOException {
            return ByteBuffer.wrap(in.readNBytes(in.readInt()));
        }

        private void serve(Socket socket) {
            try (socket) {
                DataInputStream in = new DataInputStream(socket.getInputStream());
                DataOutputStream out = new DataOutputStream(socket.getOutputStream());
                frame(in);
                byte[] build = "VoltDB 9.9.9".getBytes(StandardCharsets.UTF_8);
                // Version, result code, host, connection, cluster's start, leader's address, build.
                ByteBuffer login = ByteBuffer.allocate(30 + build.length);
                login.put((byte) 0).put((byte) 0).putInt(0).putLong(1).putLong(1000).putInt(0x7f000001);
                login.putInt(build.length).put(build).flip();
                out.writeInt(login.limit());
                out.write(login.array(), 0, login.limit());
                while (true) {
                    byte[] answer = answer(frame(in));
                    out.writeInt(answer.length);
                    out.write(answer);
                }
            } catch (IOException end) {
                // The client has closed the connection.
            }
        }

        private byte[] answer(ByteBuffer request) throws IOException {
            byte version = request.get();
            byte[] name = new byte[request.getInt()];
            request.get(name);
            long handle = request.getLong();
            if (version == 2) {
                for (int left = request.get(); left > 0; left--) {
                    request.get();
                    int size = request.get();
                    request.position(request.position() + (size == 0 ? 0 : 1 << (size - 1)));
                }
            }
            Object[] parameters = ParameterSet.fromByteBuffer(request).toArray();
            ClientResponseImpl response;
            try {
                response = new ClientResponseImpl(ClientResponse.SUCCESS,
                        new VoltTable[] {call(new String(name, StandardCharsets.UTF_8), parameters)}, "");
            } catch (Refusal refusal) {
                response = new ClientResponseImpl(refusal.status, new VoltTable[0], "refused");
            }
            response.setClientHandle(handle);
            ByteBuffer buffer = ByteBuffer.allocate(response.getSerializedSize());
            response.flattenToBuffer(buffer);
            return buffer.array();
        }

        private static final class Refusal extends Exception {
            final byte status;

            Refusal(byte status) {
                this.status = status;
            }
        }

        private synchronized VoltTable call(String name, Object[] parameters) throws Refusal {
            switch (name) {
                case "@SystemInformation" -> {
                    return parameters[0].equals("OVERVIEW") ? overview() : deployment();
                }
                case "@SystemCatalog" -> {
                    return new VoltTable(new VoltTable.ColumnInfo("TABLE_NAME", VoltType.STRING));
                }
                case "@AdHoc" -> {
                    ddl.addAll(List.of(((String) parameters[0]).split(";\n?")));
                    return count(0);
                }
                default -> {
                    if (name.startsWith("@")) {
                        throw new Refusal(ClientResponse.GRACEFUL_FAILURE);
                    }
                }
            }
            byte status = nextStatus;
            nextStatus = ClientResponse.SUCCESS;
            if (status != ClientResponse.SUCCESS) {
                throw new Refusal(status);
            }
            return record(name, parameters);
        }

        private VoltTable record(String name, Object[] parameters) throws Refusal {
            String[] parts = name.split("[._]", 2);
            switch (parts[1]) {
                case "upsert" -> {
                    rows.put((String) parameters[0], parameters.clone());
                    return count(1);
                }
                case "delete" -> {
                    return count(rows.remove(parameters[0]) == null ? 0 : 1);
                }
                case "select" -> {
                    return table(rows.containsKey(parameters[0]) ? List.of(new Object[][] {rows.get(parameters[0])}) : List.of());
                }
                case "read_1" -> {
                    VoltTable one = new VoltTable(new VoltTable.ColumnInfo("F1", VoltType.VARBINARY));
                    if (rows.containsKey(parameters[0])) {
                        one.addRow(rows.get(parameters[0])[2]);
                    }
                    return one;
                }
                case "write_1" -> {
                    Object[] row = rows.get(parameters[1]);
                    if (row != null) {
                        row[2] = parameters[0];
                    }
                    return count(row == null ? 0 : 1);
                }
                case "put_if" -> {
                    Object[] row = rows.get(parameters[1]);
                    if (!row[2].equals(parameters[2])) {
                        return count(0);
                    }
                    rows.put((String) parameters[1], new Object[] {parameters[1], parameters[0], (Long) row[2] + 1});
                    return count(1);
                }
                case "from", "after" -> {
                    List<Object[]> found = new ArrayList<>();
                    rows.forEach((key, row) -> {
                        int order = key.compareTo((String) parameters[0]);
                        if ((order > 0 || (order == 0 && parts[1].equals("from")))
                                && found.size() < ((Number) parameters[1]).intValue()) {
                            found.add(row);
                        }
                    });
                    return table(found);
                }
                default -> throw new Refusal(ClientResponse.UNEXPECTED_FAILURE);
            }
        }

        private VoltTable table(List<Object[]> found) {
            VoltTable.ColumnInfo last = new VoltTable.ColumnInfo("F1", hash ? VoltType.VARBINARY : VoltType.BIGINT);
            VoltTable table = new VoltTable(new VoltTable.ColumnInfo("K", VoltType.STRING),
                    new VoltTable.ColumnInfo("F0", VoltType.VARBINARY), last);
            found.forEach(row -> table.addRow(row));
            return table;
        }

        private static VoltTable count(long modified) {
            VoltTable table = new VoltTable(new VoltTable.ColumnInfo("modified_tuples", VoltType.BIGINT));
            table.addRow(modified);
            return table;
        }

        private VoltTable overview() {
            VoltTable table = new VoltTable(new VoltTable.ColumnInfo("HOST_ID", VoltType.INTEGER),
                    new VoltTable.ColumnInfo("KEY", VoltType.STRING), new VoltTable.ColumnInfo("VALUE", VoltType.STRING));
            table.addRow(0, "VERSION", "9.9.9");
            table.addRow(0, "IPADDRESS", "127.0.0.1");
            table.addRow(0, "CLIENTPORT", Integer.toString(port()));
            return table;
        }

        private static VoltTable deployment() {
            VoltTable table = new VoltTable(new VoltTable.ColumnInfo("PROPERTY", VoltType.STRING),
                    new VoltTable.ColumnInfo("VALUE", VoltType.STRING));
            table.addRow("kfactor", "1");
            table.addRow("commandlogenabled", "false");
            return table;
        }

        synchronized void next(byte status) {
            nextStatus = status;
        }

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }

    @Test
    void hashesAreRowsOfManyColumns() throws Exception {
        try (FakeServer server = new FakeServer(true);
                Laboratory laboratory = new Laboratory(VoltStore::connect)) {
            String told = laboratory.open("voltdb://127.0.0.1:" + server.port(), "hash");
            assertTrue(told.contains("system=VoltDB 9.9.9\ndurability=none: no command log"), told);
            assertTrue(told.contains("replication=2 on 1 nodes\n"), told);
            assertTrue(told.contains("node=127.0.0.1:" + server.port() + "\n"), told);
            assertEquals("CREATE TABLE usertable (k VARCHAR(1024 BYTES) NOT NULL, f0 VARBINARY(8), f1 VARBINARY(8), PRIMARY KEY (k))",
                    server.ddl.get(0));
            assertTrue(server.ddl.contains("CREATE PROCEDURE usertable_write_1 PARTITION ON TABLE usertable COLUMN k"
                    + " PARAMETER 1 AS UPDATE usertable SET f1 = ? WHERE k = ?"), server.ddl.toString());
            assertEquals("0 *0", laboratory.read("HGETALL", "k"));
            assertEquals("0 :2", laboratory.write("HSET", "k", "f/a", "1", "f/b", "2"));
            assertEquals("0 :1", laboratory.write("HSET", "k", "f/b", "3"));
            assertEquals("0 :0", laboratory.write("HSET", "absent", "f/b", "3"), "there is nothing to update");
            assertEquals("0 *4 $3 f/a $1 1 $3 f/b $1 3", laboratory.read("HGETALL", "k"));
            assertEquals("0 *1 $1 3", laboratory.read("HMGET", "k", "f/b"));
            assertEquals("0 *2 $1 3 $1 1", laboratory.read("HMGET", "k", "f/b", "f/a"));
            laboratory.write("HSET", "l", "f/a", "4", "f/b", "5");
            assertEquals("0 *2 $-1 *1 *2 $1 l *4 $3 f/a $1 4 $3 f/b $1 5",
                    laboratory.read("KV.RANGE", "(k", "+", "LIMIT", "9", "VALUES"));
            assertEquals("0 :1", laboratory.write("DEL", "k"));
            assertEquals("0 :0", laboratory.write("DEL", "k"));
        }
    }

    @Test
    void statusesAreTroubleOrErrors() throws Exception {
        try (FakeServer server = new FakeServer(true);
                Laboratory laboratory = new Laboratory(VoltStore::connect)) {
            laboratory.open("voltdb://127.0.0.1:" + server.port(), "hash");
            server.next(ClientResponse.SERVER_UNAVAILABLE);
            assertEquals("1 CLUSTERDOWN", laboratory.read("HGETALL", "k"));
            server.next(ClientResponse.TXN_RESTART);
            assertEquals("1 LOADING", laboratory.read("HGETALL", "k"));
            server.next(ClientResponse.RESPONSE_UNKNOWN);
            assertEquals("2 timeout", laboratory.write("HSET", "k", "f/b", "3"));
            server.next(ClientResponse.UNEXPECTED_FAILURE);
            assertEquals("0 -VOLTDB status -3 refused", laboratory.read("HGETALL", "k"));
        }
    }

    @Test
    void stringsCompareTheirVersion() throws Exception {
        try (FakeServer server = new FakeServer(false);
                Laboratory laboratory = new Laboratory(VoltStore::connect)) {
            laboratory.open("voltdb://127.0.0.1:" + server.port(), "string");
            assertEquals("0 $-1", laboratory.read("KV.GET", "k"));
            assertEquals("0 +OK", laboratory.write("SET", "k", "v"));
            assertEquals("0 *2 $1 v :1", laboratory.read("KV.GET", "k"));
            assertEquals("0 :2", laboratory.write("KV.PUT", "k", "w", "IFVERSION", "1"));
            assertEquals("0 $-1", laboratory.write("KV.PUT", "k", "x", "IFVERSION", "1"));
            assertEquals("0 $1 w", laboratory.read("GET", "k"));
        }
    }

    @Test
    void noUpdateIsLost() throws Exception {
        try (FakeServer server = new FakeServer(false);
                Laboratory laboratory = new Laboratory(VoltStore::connect)) {
            laboratory.open("voltdb://127.0.0.1:" + server.port(), "string");
            LostUpdates.areNone(laboratory);
        }
    }
}
