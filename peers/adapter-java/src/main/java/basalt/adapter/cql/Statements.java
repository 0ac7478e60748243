package basalt.adapter.cql;

import basalt.adapter.Shape;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.stream.Collectors;

/** The text of every statement. A hash is a row with a column for each field; a string has one value and a version. */
final class Statements {
    private Statements() {}

    static String createKeyspace(CqlStore.Kind kind, String keyspace, int copies) {
        // YugabyteDB takes the clause, and keeps as many copies as its cluster is set to.
        String strategy = kind == CqlStore.Kind.SCYLLA ? "NetworkTopologyStrategy" : "SimpleStrategy";
        return "CREATE KEYSPACE IF NOT EXISTS " + quoted(keyspace) + " WITH replication = {'class': '" + strategy
                + "', 'replication_factor': " + copies + "}";
    }

    static String createTable(CqlStore store, Shape shape) {
        String columns =
                shape.hash()
                        ? shape.fields().stream().map(name -> quoted(name) + " blob").collect(Collectors.joining(", "))
                        : "v blob, version bigint";
        String made =
                "CREATE TABLE IF NOT EXISTS " + table(store.keyspace, shape) + " (k blob PRIMARY KEY, " + columns + ")";
        if (store.compresses || store.kind == CqlStore.Kind.YCQL) {
            return made;
        }
        String none = store.kind == CqlStore.Kind.SCYLLA ? "{'sstable_compression': ''}" : "{'enabled': 'false'}";
        return made + " WITH compression = " + none;
    }

    /** A name of any letters. */
    static String quoted(String name) {
        return '"' + name.replace("\"", "\"\"") + '"';
    }

    private static String table(String keyspace, Shape shape) {
        return quoted(keyspace) + (shape.hash() ? ".usertable" : ".userstrings");
    }

    private static String names(Collection<String> columns) {
        return columns.stream().map(Statements::quoted).collect(Collectors.joining(", "));
    }

    static String select(String keyspace, Shape shape, List<String> columns) {
        return "SELECT " + names(columns) + " FROM " + table(keyspace, shape) + " WHERE k = ?";
    }

    /** Columns and key, in this order. */
    static String update(String keyspace, Shape shape, List<String> columns) {
        String set = columns.stream().map(name -> quoted(name) + " = ?").collect(Collectors.joining(", "));
        return "UPDATE " + table(keyspace, shape) + " SET " + set + " WHERE k = ?";
    }

    /** Columns and key, in this order. */
    static String insert(String keyspace, Shape shape, List<String> columns) {
        String marks = String.join(", ", Collections.nCopies(columns.size() + 1, "?"));
        return "INSERT INTO " + table(keyspace, shape) + " (" + names(columns) + ", k) VALUES (" + marks + ")";
    }

    /** New value, new version, key and old version. */
    static String updateIfVersion(String keyspace, Shape shape) {
        return "UPDATE " + table(keyspace, shape) + " SET v = ?, version = ? WHERE k = ? IF version = ?";
    }

    static String delete(String keyspace, Shape shape) {
        return "DELETE FROM " + table(keyspace, shape) + " WHERE k = ?";
    }

    /** The key that the rows begin at or after, and how many. */
    static String scan(String keyspace, Shape shape, List<String> columns, boolean after) {
        String order = after ? ">" : ">=";
        return "SELECT k, " + names(columns) + " FROM " + table(keyspace, shape) + " WHERE token(k) " + order + " token(?) LIMIT ?";
    }
}
