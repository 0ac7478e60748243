package basalt.adapter.voltdb;

import basalt.adapter.Handler;
import basalt.adapter.Lines;
import basalt.adapter.Shape;
import basalt.adapter.Store;
import basalt.adapter.Url;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.voltdb.VoltTable;
import org.voltdb.client.Client;
import org.voltdb.client.ClientConfig;
import org.voltdb.client.ClientFactory;
import org.voltdb.client.ProcCallException;

/** A VoltDB cluster. Its tables and procedures are made by DDL, so that nothing has to be installed there. */
public final class VoltStore implements Store {
    private static final int PORT = 21212;

    final Client client;
    private final Lines facts;

    private VoltStore(Client client) {
        this.client = client;
        this.facts = ask();
    }

    /** Connects to every node that was named; the client finds the others. */
    public static Store connect(Lines greeting) throws Exception {
        Url url = new Url(greeting.get("target"), PORT, Set.of());
        if (!greeting.get("durability").isEmpty() || !greeting.get("acks").isEmpty()) {
            String text = "VoltDB's deployment decides about its command log, and all copies execute every write: leave";
            throw new IOException(text + " --durability and --acks out");
        }
        int timeout = greeting.number("timeout_ms", 1);
        ClientConfig config = new ClientConfig(url.user, url.password);
        config.setProcedureCallTimeout(timeout);
        config.setConnectionResponseTimeout(timeout);
        config.setTopologyChangeAware(true);
        Client client = ClientFactory.createClient(config);
        try {
            connect(client, url);
            return new VoltStore(client);
        } catch (IOException failed) {
            client.close();
            throw failed;
        }
    }

    private static void connect(Client client, Url url) throws IOException {
        IOException last = null;
        int connected = 0;
        for (InetSocketAddress place : url.places) {
            try {
                client.createConnection(place.getHostString(), place.getPort());
                connected++;
            } catch (IOException failed) {
                last = new IOException(Url.shown(place) + ": " + failed.getMessage(), failed);
            }
        }
        if (connected == 0 && last != null) {
            throw last;
        }
    }

    private Lines ask() {
        Map<String, String> overview = new HashMap<>();
        Map<String, String> deployment = new HashMap<>();
        Set<String> nodes = new HashSet<>();
        for (VoltTable row = table("@SystemInformation", "OVERVIEW"); row.advanceRow(); ) {
            overview.put(row.getString("KEY"), row.getString("VALUE"));
            if ("IPADDRESS".equals(row.getString("KEY"))) {
                nodes.add(row.getLong("HOST_ID") + " " + row.getString("VALUE"));
            }
        }
        for (VoltTable row = table("@SystemInformation", "DEPLOYMENT"); row.advanceRow(); ) {
            deployment.put(row.getString("PROPERTY").toLowerCase(Locale.ROOT), row.getString("VALUE"));
        }
        int count = Math.max(1, nodes.size());
        Lines lines =
                new Lines()
                        .add("system", "VoltDB " + overview.getOrDefault("VERSION", "of unknown version"))
                        .add("durability", durability(deployment))
                        .add("replication", copies(deployment) + " on " + count + " nodes")
                        .add("consistency", "serializable")
                        .add("compression", "none")
                        .add("engine", "in memory");
        String port = overview.getOrDefault("CLIENTPORT", Integer.toString(PORT));
        nodes.stream().map(node -> node.split(" ", 2)[1] + ":" + port).sorted().forEach(node -> lines.add("node", node));
        return lines;
    }

    /** A table that a system procedure answers; an empty one where it does not. */
    private VoltTable table(String procedure, String what) {
        try {
            return client.callProcedure(procedure, what).getResults()[0];
        } catch (IOException | ProcCallException unknown) {
            return new VoltTable(new VoltTable.ColumnInfo[0]);
        }
    }

    private static String copies(Map<String, String> deployment) {
        try {
            return Integer.toString(1 + Integer.parseInt(deployment.getOrDefault("kfactor", "")));
        } catch (NumberFormatException unknown) {
            return "unknown";
        }
    }

    private static String durability(Map<String, String> deployment) {
        return switch (deployment.getOrDefault("commandlogenabled", "unknown")) {
            case "true" -> "command log, " + deployment.getOrDefault("commandlogmode", "mode unknown")
                    + ", every " + deployment.getOrDefault("commandlogfreqtime", "unknown") + " ms";
            case "false" -> "none: no command log; all copies hold a write in memory before its answer";
            default -> "unknown";
        };
    }

    @Override
    public Lines facts() {
        return facts;
    }

    @Override
    public Handler open(Shape shape, Lines told) throws Exception {
        String table = shape.hash() ? "USERTABLE" : "USERSTRINGS";
        Set<String> there = new HashSet<>();
        for (VoltTable row = client.callProcedure("@SystemCatalog", "TABLES").getResults()[0]; row.advanceRow(); ) {
            there.add(row.getString("TABLE_NAME").toUpperCase(Locale.ROOT));
        }
        if (!there.contains(table)) {
            List<String> statements = shape.hash() ? Ddl.hashes(shape) : Ddl.strings(shape);
            client.callProcedure("@AdHoc", String.join(";\n", statements) + ";");
        }
        told.add("scans", "ordered");
        return new VoltRecords(client, shape);
    }

    /** Its client waits half a minute for its own threads; nobody waits for that here. */
    @Override
    public void close() {
        Thread closing =
                new Thread(
                        () -> {
                            try {
                                client.close();
                            } catch (InterruptedException ending) {
                                Thread.currentThread().interrupt();
                            }
                        });
        closing.setDaemon(true);
        closing.start();
        try {
            closing.join(500);
        } catch (InterruptedException ending) {
            Thread.currentThread().interrupt();
        }
    }
}
