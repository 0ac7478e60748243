package basalt.adapter.voltdb;

import basalt.adapter.Answer;
import basalt.adapter.Handler;
import basalt.adapter.Reply;
import basalt.adapter.Request;
import basalt.adapter.Shape;
import basalt.adapter.Trouble;
import java.io.IOException;
import org.voltdb.VoltTable;
import org.voltdb.client.Client;
import org.voltdb.client.ClientResponse;
import org.voltdb.client.NoConnectionsException;

/** Requests on rows of one table. */
final class VoltRecords implements Handler {
    private static final long FIRST_VERSION = 1;

    private final Client client;
    private final Shape shape;
    private final String table;

    VoltRecords(Client client, Shape shape) {
        this.client = client;
        this.shape = shape;
        this.table = shape.hash() ? "usertable" : "userstrings";
    }

    /** Makes a reply of a table. */
    private interface Read {
        Reply reply(VoltTable table) throws IOException;
    }

    @Override
    public void handle(Request request, Answer answer) throws Exception {
        switch (request.name()) {
            case "HGETALL" -> call(answer, crud("select"), this::all, request.text(1));
            case "HMGET" -> some(request, answer);
            case "HSET" -> set(request, answer);
            case "GET" -> call(answer, crud("select"), VoltRecords::value, request.text(1));
            case "KV.GET" -> call(answer, crud("select"), VoltRecords::versioned, request.text(1));
            case "SET" -> call(
                    answer, crud("upsert"), done -> new Reply().ok(), request.text(1), request.arg(2), FIRST_VERSION);
            case "KV.PUT" -> putIf(request, answer);
            case "DEL" -> call(answer, crud("delete"), done -> new Reply().integer(done.asScalarLong()), request.text(1));
            case "KV.RANGE" -> {
                String key = new String(request.boundKey(), java.nio.charset.StandardCharsets.UTF_8);
                call(answer, table + (request.isAfter() ? "_after" : "_from"), this::rows, key, request.limit());
            }
            default -> throw request.unknown();
        }
    }

    /** A procedure that every table has. */
    private String crud(String what) {
        return table.toUpperCase(java.util.Locale.ROOT) + "." + what;
    }

    private void some(Request request, Answer answer) throws IOException, Trouble {
        if (request.count() == 3) {
            String procedure = table + "_read_" + shape.placeOf(request.arg(2));
            call(answer, procedure, found -> one(found), request.text(1));
            return;
        }
        int[] columns = new int[request.count() - 2];
        for (int i = 0; i < columns.length; i++) {
            // The key is the first column.
            columns[i] = 1 + shape.placeOf(request.arg(2 + i));
        }
        call(
                answer,
                crud("select"),
                found -> {
                    boolean isThere = found.advanceRow();
                    Reply reply = new Reply().array(columns.length);
                    for (int column : columns) {
                        bulk(reply, isThere ? found.getVarbinary(column) : null);
                    }
                    return reply;
                },
                request.text(1));
    }

    private static Reply one(VoltTable found) {
        return bulk(new Reply().array(1), found.advanceRow() ? found.getVarbinary(0) : null);
    }

    private static Reply bulk(Reply reply, byte[] value) {
        return value == null ? reply.nothing() : reply.bulk(value);
    }

    private void set(Request request, Answer answer) throws IOException, Trouble {
        int pairs = (request.count() - 2) / 2;
        if (pairs == 1 && shape.fields().size() > 1) {
            String procedure = table + "_write_" + shape.placeOf(request.arg(2));
            // None if there is no such record: an UPDATE makes none.
            Read changed = done -> new Reply().integer(done.asScalarLong());
            call(answer, procedure, changed, request.arg(3), request.text(1));
            return;
        }
        if (pairs != shape.fields().size()) {
            throw request.unknown();
        }
        Object[] row = new Object[1 + pairs];
        row[0] = request.text(1);
        for (int i = 0; i < pairs; i++) {
            row[1 + shape.placeOf(request.arg(2 + 2 * i))] = request.arg(3 + 2 * i);
        }
        call(answer, crud("upsert"), done -> new Reply().integer(pairs), row);
    }

    private void putIf(Request request, Answer answer) throws IOException, Trouble {
        long version = request.number(4);
        Read read = done -> done.asScalarLong() == 1 ? new Reply().integer(version + 1) : new Reply().nothing();
        call(answer, table + "_put_if", read, request.arg(2), request.text(1), version);
    }

    private Reply all(VoltTable found) {
        return found.advanceRow() ? fields(found) : new Reply().array(0);
    }

    private Reply fields(VoltTable row) {
        Reply pairs = new Reply();
        int count = 0;
        for (int field = 0; field < shape.fields().size(); field++) {
            byte[] value = row.getVarbinary(1 + field);
            if (value != null) {
                pairs.bulk(shape.fields().get(field)).bulk(value);
                count++;
            }
        }
        return new Reply().array(2 * count).append(pairs);
    }

    private static Reply value(VoltTable found) {
        return found.advanceRow() ? bulk(new Reply(), found.getVarbinary(1)) : new Reply().nothing();
    }

    private static Reply versioned(VoltTable found) {
        return found.advanceRow()
                ? bulk(new Reply().array(2), found.getVarbinary(1)).integer(found.getLong(2))
                : new Reply().nothing();
    }

    private Reply rows(VoltTable found) {
        // All at once, so there is nowhere to go on.
        Reply reply = new Reply().array(2).nothing().array(found.getRowCount());
        while (found.advanceRow()) {
            reply.array(2).bulk(found.getString(0));
            if (shape.hash()) {
                reply.append(fields(found));
            } else {
                bulk(reply, found.getVarbinary(1));
            }
        }
        return reply;
    }

    private void call(Answer answer, String procedure, Read read, Object... parameters) throws IOException, Trouble {
        boolean queued;
        try {
            queued = client.callProcedure(response -> answered(response, read, answer), procedure, parameters);
        } catch (NoConnectionsException none) {
            throw Trouble.unreachable();
        }
        if (!queued) {
            throw Trouble.busy();
        }
    }

    private static void answered(ClientResponse response, Read read, Answer answer) {
        try {
            Throwable failed = failure(response);
            if (failed != null) {
                answer.fail(failed);
            } else {
                answer.reply(read.reply(response.getResults()[0]));
            }
        } catch (IOException | RuntimeException unexpected) {
            answer.fail(unexpected);
        }
    }

    /** What a response's status says; nothing when all is well. */
    static Throwable failure(ClientResponse response) {
        return switch (response.getStatus()) {
            case ClientResponse.SUCCESS -> null;
            case ClientResponse.SERVER_UNAVAILABLE, ClientResponse.CLIENT_ERROR_TXN_NOT_SENT -> Trouble.down();
            case ClientResponse.TXN_RESTART, ClientResponse.TXN_MISROUTED, ClientResponse.TXN_MISPARTITIONED,
                    ClientResponse.CLIENT_REQUEST_TIMEOUT -> Trouble.busy();
            case ClientResponse.CONNECTION_LOST -> Trouble.disconnected();
            case ClientResponse.CONNECTION_TIMEOUT, ClientResponse.RESPONSE_UNKNOWN,
                    ClientResponse.CLIENT_RESPONSE_TIMEOUT -> Trouble.timeout();
            default -> new UnsupportedOperationException("VOLTDB status " + response.getStatus() + " " + response.getStatusString());
        };
    }
}
