package basalt.adapter.cql;

import basalt.adapter.Lines;
import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.metadata.Node;
import java.util.HashMap;
import java.util.Map;

/** What a store that speaks CQL tells of itself. */
final class Facts {
    private final CqlStore store;

    Facts(CqlStore store) {
        this.store = store;
    }

    Lines lines() {
        int nodes = store.session.getMetadata().getNodes().size();
        Lines lines =
                new Lines()
                        .add("system", system())
                        .add("durability", durability() + "; writes at " + store.levels.write())
                        .add("replication", (store.kind == CqlStore.Kind.YCQL ? "as the store was made" : store.copies()) + " on " + nodes + " nodes")
                        .add("consistency", consistency())
                        .add("compression", compression())
                        .add("engine", engine());
        store.addresses().forEach(address -> lines.add("node", address));
        return lines;
    }

    private String system() {
        String driver = store.session.getContext().getProtocolVersion() + " by " + driver();
        return switch (store.kind) {
            case CASSANDRA -> "Cassandra " + release() + ", CQL protocol " + driver;
            case SCYLLA -> "ScyllaDB " + one("SELECT version FROM system.versions", "version") + ", CQL protocol " + driver;
            case YCQL -> "YugabyteDB (YCQL, like Cassandra " + release() + "), CQL protocol " + driver;
        };
    }

    private static String driver() {
        var version = com.datastax.oss.driver.api.core.session.Session.OSS_DRIVER_COORDINATES;
        return version.getName() + " " + version.getVersion();
    }

    private String release() {
        return store.session.getMetadata().getNodes().values().stream()
                .map(Node::getCassandraVersion)
                .filter(version -> version != null)
                .findFirst()
                .map(Object::toString)
                .orElse("of unknown version");
    }

    private String durability() {
        if (store.kind == CqlStore.Kind.YCQL) {
            return "not told; by default a majority holds a write in its memory, and syncs its log every 1000 ms";
        }
        Map<String, String> told = settings();
        String sync = told.getOrDefault("commitlog_sync", "unknown");
        // The names and units of these settings have changed over the versions.
        String period =
                told.entrySet().stream()
                        .filter(entry -> entry.getKey().startsWith("commitlog_sync_period"))
                        .map(entry -> " every " + entry.getValue() + (entry.getKey().endsWith("_ms") ? " ms" : ""))
                        .findFirst()
                        .orElse("");
        return "commitlog_sync " + sync + (sync.equals("periodic") ? period : "");
    }

    /** The settings that concern durability, where a server tells its settings. */
    private Map<String, String> settings() {
        String table = store.kind == CqlStore.Kind.SCYLLA ? "system.config" : "system_views.settings";
        Map<String, String> settings = new HashMap<>();
        try {
            for (Row row : store.session.execute("SELECT name, value FROM " + table)) {
                String name = row.getString("name");
                String value = row.getString("value");
                if (name != null && value != null && name.startsWith("commitlog_sync")) {
                    settings.put(name, value.replace("\"", ""));
                }
            }
        } catch (DriverException noSuchTable) {
            // Then it is unknown.
        }
        return settings;
    }

    private String consistency() {
        ConsistencyLevel level = store.levels.read();
        if (store.kind == CqlStore.Kind.YCQL) {
            return level.equals(ConsistencyLevel.ONE) ? "any replica" : "leader reads";
        }
        return level.equals(ConsistencyLevel.ONE)
                ? "reads at ONE: any replica, which may be behind"
                : "reads at " + level + ": what a majority has acknowledged; the last write wins by its clock";
    }

    private String compression() {
        if (!store.compresses) {
            return "none";
        }
        return "the server's default for new tables (" + (store.kind == CqlStore.Kind.YCQL ? "Snappy" : "LZ4") + ")";
    }

    private String engine() {
        return switch (store.kind) {
            case CASSANDRA, SCYLLA -> "LSM tree";
            case YCQL -> "DocDB on RocksDB";
        };
    }

    private String one(String query, String column) {
        try {
            Row row = store.session.execute(query).one();
            return row == null ? "of unknown version" : row.getString(column);
        } catch (DriverException noSuchTable) {
            return "of unknown version";
        }
    }
}
