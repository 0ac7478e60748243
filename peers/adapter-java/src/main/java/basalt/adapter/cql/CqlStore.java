package basalt.adapter.cql;

import basalt.adapter.Handler;
import basalt.adapter.Lines;
import basalt.adapter.Shape;
import basalt.adapter.Store;
import basalt.adapter.Url;
import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.CqlSessionBuilder;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.internal.core.loadbalancing.DcInferringLoadBalancingPolicy;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A store that speaks CQL: Cassandra, ScyllaDB, YugabyteDB's YCQL. */
public final class CqlStore implements Store {
    private static final int PORT = 9042;
    private static final Duration SCHEMA_WITHIN = Duration.ofSeconds(60);
    private static final Set<String> OPTIONS = Set.of("keyspace", "replication_factor", "dc", "compression");

    /** Which of the three. */
    enum Kind {
        CASSANDRA,
        SCYLLA,
        YCQL;

        static Kind of(String scheme) {
            return switch (scheme) {
                case "scylla" -> SCYLLA;
                case "ycql" -> YCQL;
                default -> CASSANDRA;
            };
        }
    }

    /** What statements ask for. */
    record Levels(ConsistencyLevel read, ConsistencyLevel leaderRead, ConsistencyLevel write) {}

    final CqlSession session;
    final Kind kind;
    final String keyspace;
    final Levels levels;
    final boolean compresses;
    private final Lines facts;

    private CqlStore(CqlSession session, Kind kind, Url url, Levels levels, int copies) {
        this.session = session;
        this.kind = kind;
        this.keyspace = url.option("keyspace", "basalt");
        this.levels = levels;
        this.compresses = !url.option("compression", "").equals("none");
        session.execute(schema(Statements.createKeyspace(kind, keyspace, copies)));
        this.facts = new Facts(this).lines();
    }

    /** Connects to the cluster and makes the keyspace if it is not there. */
    public static Store connect(Lines greeting) throws IOException {
        Url url = new Url(greeting.get("target"), PORT, OPTIONS);
        Kind kind = Kind.of(url.scheme);
        Levels levels = levels(kind, greeting);
        CqlSession session = session(url, greeting);
        try {
            return new CqlStore(session, kind, url, levels, copies(session, url));
        } catch (RuntimeException failed) {
            session.close();
            throw failed;
        }
    }

    private static Levels levels(Kind kind, Lines greeting) throws IOException {
        if (!greeting.get("durability").isEmpty()) {
            String text = "commitlog_sync in the server's own settings decides when a write is on disk: leave --durability out";
            throw new IOException(text);
        }
        ConsistencyLevel write =
                switch (greeting.get("acks")) {
                    case "all" -> ConsistencyLevel.ALL;
                    case "none" -> ConsistencyLevel.ONE;
                    default -> ConsistencyLevel.QUORUM;
                };
        if (kind == Kind.YCQL && write != ConsistencyLevel.QUORUM) {
            throw new IOException("a majority acknowledges every write of YugabyteDB: leave --acks out");
        }
        boolean any = greeting.get("read_from").equals("any");
        return new Levels(any ? ConsistencyLevel.ONE : ConsistencyLevel.QUORUM, ConsistencyLevel.QUORUM, write);
    }

    private static CqlSession session(Url url, Lines greeting) throws IOException {
        Duration timeout = Duration.ofMillis(greeting.number("timeout_ms", 1));
        var config =
                DriverConfigLoader.programmaticBuilder()
                        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, timeout)
                        .withDuration(DefaultDriverOption.CONNECTION_INIT_QUERY_TIMEOUT, SCHEMA_WITHIN)
                        .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, SCHEMA_WITHIN)
                        .withDuration(DefaultDriverOption.METADATA_SCHEMA_REQUEST_TIMEOUT, SCHEMA_WITHIN)
                        .withClass(
                                DefaultDriverOption.LOAD_BALANCING_POLICY_CLASS, DcInferringLoadBalancingPolicy.class)
                        .withInt(
                                DefaultDriverOption.CONNECTION_POOL_LOCAL_SIZE,
                                Math.max(1, greeting.number("connections", 0)))
                        .withInt(DefaultDriverOption.CONNECTION_MAX_REQUESTS, 8192)
                        .build();
        CqlSessionBuilder builder = CqlSession.builder().withConfigLoader(config);
        url.places.forEach(place -> builder.addContactPoint(new InetSocketAddress(place.getHostString(), place.getPort())));
        if (!url.user.isEmpty()) {
            builder.withAuthCredentials(url.user, url.password);
        }
        if (!url.option("dc", "").isEmpty()) {
            builder.withLocalDatacenter(url.option("dc", ""));
        }
        return builder.build();
    }

    /** Copies of each record in a keyspace that is to be made: three, or as many as there are nodes. */
    private static int copies(CqlSession session, Url url) throws IOException {
        int nodes = session.getMetadata().getNodes().size();
        try {
            int copies = Integer.parseInt(url.option("replication_factor", Integer.toString(Math.min(3, nodes))));
            if (copies > 0) {
                return copies;
            }
        } catch (NumberFormatException bad) {
            // As below.
        }
        throw new IOException("the URL's replication_factor is not a number above 0");
    }

    static SimpleStatement schema(String text) {
        return SimpleStatement.newInstance(text).setTimeout(SCHEMA_WITHIN);
    }

    /** Every node's address, as clients reach it. */
    List<String> addresses() {
        List<String> addresses = new ArrayList<>();
        for (Node node : session.getMetadata().getNodes().values()) {
            if (node.getEndPoint().resolve() instanceof InetSocketAddress place) {
                addresses.add(place.getAddress() == null ? Url.shown(place) : place.getAddress().getHostAddress() + ":" + place.getPort());
            }
        }
        return addresses.stream().sorted().toList();
    }

    /** How many copies the keyspace keeps, as its settings say. */
    String copies() {
        Map<String, String> replication =
                session.getMetadata().getKeyspace(keyspace).map(found -> found.getReplication()).orElse(Map.of());
        int sum = 0;
        for (Map.Entry<String, String> entry : replication.entrySet()) {
            if (!entry.getKey().equals("class") && entry.getValue().matches("\\d+")) {
                sum += Integer.parseInt(entry.getValue());
            }
        }
        return sum == 0 ? "unknown" : Integer.toString(sum);
    }

    @Override
    public Lines facts() {
        return facts;
    }

    @Override
    public Handler open(Shape shape, Lines told) throws IOException {
        session.execute(schema(Statements.createTable(this, shape)));
        // In the order of the keys' hashes: no store that speaks CQL keeps all keys in order.
        told.add("scans", "unordered");
        return shape.hash() ? new HashRecords(this, shape) : new StringRecords(this, shape);
    }

    @Override
    public void close() {
        session.close();
    }
}
