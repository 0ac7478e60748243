package basalt.adapter.cql;

import static org.junit.jupiter.api.Assertions.assertEquals;

import basalt.adapter.Shape;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The statements; what they do is tested against a real Cassandra by the laboratory's own tests. */
class StatementsTest {
    private static final Shape HASH = new Shape(true, false, false, List.of("field0", "a\"b"), 8, 8);
    private static final Shape STRING = new Shape(false, true, false, List.of("field0"), 8, 8);

    @Test
    void keyspaces() {
        assertEquals(
                "CREATE KEYSPACE IF NOT EXISTS \"ks\" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
                Statements.createKeyspace(CqlStore.Kind.CASSANDRA, "ks", 3));
        assertEquals(
                "CREATE KEYSPACE IF NOT EXISTS \"ks\" WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 2}",
                Statements.createKeyspace(CqlStore.Kind.SCYLLA, "ks", 2));
    }

    @Test
    void rows() {
        assertEquals("SELECT \"field0\", \"a\"\"b\" FROM \"ks\".usertable WHERE k = ?",
                Statements.select("ks", HASH, HASH.fields()));
        assertEquals("INSERT INTO \"ks\".usertable (\"field0\", \"a\"\"b\", k) VALUES (?, ?, ?)",
                Statements.insert("ks", HASH, HASH.fields()));
        assertEquals("UPDATE \"ks\".usertable SET \"field0\" = ? WHERE k = ?",
                Statements.update("ks", HASH, List.of("field0")));
        assertEquals("UPDATE \"ks\".userstrings SET v = ?, version = ? WHERE k = ? IF version = ?",
                Statements.updateIfVersion("ks", STRING));
        assertEquals("SELECT k, \"v\" FROM \"ks\".userstrings WHERE token(k) > token(?) LIMIT ?",
                Statements.scan("ks", STRING, List.of("v"), true));
    }
}
