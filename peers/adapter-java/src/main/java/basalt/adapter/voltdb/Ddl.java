package basalt.adapter.voltdb;

import basalt.adapter.Shape;
import java.util.ArrayList;
import java.util.List;

/**
 * Tables and procedures. Columns are numbered, since VoltDB's names are not as free as a workload's. Reads and writes of
 * one record run in its partition; scans run in all of them, in the order of keys.
 */
final class Ddl {
    /** VoltDB's own bound of a VARBINARY. */
    private static final int VALUE_BYTES_MAX = 1 << 20;
    private static final int KEY_BYTES_MAX = 1024;
    /** What a packed record has beside a field's value: lengths, and a name of usual length. */
    private static final int FIELD_HEAD_BYTES = 70;

    private Ddl() {}

    static List<String> hashes(Shape shape) {
        StringBuilder columns = new StringBuilder();
        for (int field = 0; field < shape.fields().size(); field++) {
            columns.append(", f").append(field).append(" VARBINARY(").append(bound(shape.fieldBytesMax())).append(')');
        }
        List<String> ddl = new ArrayList<>(table("usertable", columns.toString()));
        for (int field = 0; field < shape.fields().size(); field++) {
            ddl.add(procedure("usertable", "read_" + field, 0, "SELECT f" + field + " FROM usertable WHERE k = ?"));
            ddl.add(procedure("usertable", "write_" + field, 1, "UPDATE usertable SET f" + field + " = ? WHERE k = ?"));
        }
        ddl.addAll(scans("usertable"));
        return ddl;
    }

    static List<String> strings(Shape shape) {
        long bytes = (long) shape.fields().size() * (shape.fieldBytesMax() + FIELD_HEAD_BYTES);
        String columns = ", v VARBINARY(" + bound(bytes) + "), version BIGINT DEFAULT 1 NOT NULL";
        List<String> ddl = new ArrayList<>(table("userstrings", columns));
        String put = "UPDATE userstrings SET v = ?, version = version + 1 WHERE k = ? AND version = ?";
        ddl.add(procedure("userstrings", "put_if", 1, put));
        ddl.addAll(scans("userstrings"));
        return ddl;
    }

    private static List<String> table(String name, String columns) {
        String key = "k VARCHAR(" + KEY_BYTES_MAX + " BYTES) NOT NULL";
        return List.of(
                "CREATE TABLE " + name + " (" + key + columns + ", PRIMARY KEY (k))",
                "PARTITION TABLE " + name + " ON COLUMN k");
    }

    private static String procedure(String table, String name, int keyParameter, String statement) {
        return "CREATE PROCEDURE " + table + "_" + name + " PARTITION ON TABLE " + table + " COLUMN k PARAMETER "
                + keyParameter + " AS " + statement;
    }

    private static List<String> scans(String table) {
        String rows = "SELECT * FROM " + table + " WHERE k %s ? ORDER BY k LIMIT ?";
        return List.of(
                "CREATE PROCEDURE " + table + "_from AS " + rows.formatted(">="),
                "CREATE PROCEDURE " + table + "_after AS " + rows.formatted(">"));
    }

    private static long bound(long bytes) {
        return Math.max(1, Math.min(VALUE_BYTES_MAX, bytes));
    }
}
