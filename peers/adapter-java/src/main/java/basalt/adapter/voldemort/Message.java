package basalt.adapter.voldemort;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.CodedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * The messages of Voldemort's protocol "pb0", by their documented field numbers.
 *
 * <p>A request is {type = 1, should_route = 2, store = 3} and one of {get = 4, put = 6, delete = 7}; the answers are
 * versions or an error {code = 1, message = 2}.
 */
final class Message {
    private static final int GET = 0;
    private static final int PUT = 2;
    private static final int DELETE = 3;
    private static final int GET_VERSION = 4;
    /** A version comes too late: somebody wrote another. */
    static final int OBSOLETE = 4;

    private Message() {}

    /** A value with its clock; a bare clock has no value. */
    record Versioned(byte[] value, Clock clock) {}

    /** An error that a server answers. */
    static final class ServerError extends IOException {
        final int code;

        ServerError(int code, String text) {
            super("VOLDEMORT error " + code + " " + text);
            this.code = code;
        }
    }

    /** Writes a part of a message. */
    private interface Part {
        void write(CodedOutputStream out) throws IOException;
    }

    private static byte[] bytes(Part part) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        CodedOutputStream out = CodedOutputStream.newInstance(bytes);
        part.write(out);
        out.flush();
        return bytes.toByteArray();
    }

    private static byte[] request(int type, String store, boolean routes, int field, Part body) throws IOException {
        return bytes(
                out -> {
                    out.writeEnum(1, type);
                    out.writeBool(2, routes);
                    out.writeString(3, store);
                    out.writeByteArray(field, bytes(body));
                });
    }

    static byte[] get(String store, byte[] key, boolean routes) throws IOException {
        return request(GET, store, routes, 4, out -> out.writeByteArray(1, key));
    }

    static byte[] getVersion(String store, byte[] key) throws IOException {
        return request(GET_VERSION, store, true, 4, out -> out.writeByteArray(1, key));
    }

    static byte[] put(String store, byte[] key, byte[] value, Clock clock) throws IOException {
        byte[] versioned =
                bytes(
                        out -> {
                            out.writeByteArray(1, value);
                            out.writeByteArray(2, bytes(inner -> clock(inner, clock)));
                        });
        return request(
                PUT,
                store,
                true,
                6,
                out -> {
                    out.writeByteArray(1, key);
                    out.writeByteArray(2, versioned);
                });
    }

    static byte[] delete(String store, byte[] key, Clock clock) throws IOException {
        return request(
                DELETE,
                store,
                true,
                7,
                out -> {
                    out.writeByteArray(1, key);
                    out.writeByteArray(2, bytes(inner -> clock(inner, clock)));
                });
    }

    private static void clock(CodedOutputStream out, Clock clock) throws IOException {
        for (var entry : clock.versions().entrySet()) {
            out.writeByteArray(
                    1,
                    bytes(
                            inner -> {
                                inner.writeInt32(1, entry.getKey());
                                inner.writeInt64(2, entry.getValue());
                            }));
        }
        out.writeInt64(2, clock.timestamp());
    }

    /** Values with their clocks, as GET answers. */
    static List<Versioned> values(byte[] answer) throws IOException {
        List<Versioned> found = new ArrayList<>();
        read(answer, 2, field -> found.add(versioned(field)));
        return found;
    }

    /** Clocks, as GET_VERSION answers. */
    static List<Clock> clocks(byte[] answer) throws IOException {
        List<Clock> found = new ArrayList<>();
        read(answer, 2, field -> found.add(clock(field)));
        return found;
    }

    /** Nothing, as PUT answers when all is well. */
    static void done(byte[] answer) throws IOException {
        read(answer, 1, field -> {});
    }

    /** Whether something was removed. */
    static boolean removed(byte[] answer) throws IOException {
        CodedInputStream in = CodedInputStream.newInstance(answer);
        boolean success = false;
        for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
            switch (tag >>> 3) {
                case 1 -> success = in.readBool();
                case 2 -> throwError(in.readByteArray());
                default -> in.skipField(tag);
            }
        }
        return success;
    }

    private interface Field {
        void read(byte[] bytes) throws IOException;
    }

    /** Reads the parts with number 1, unless that is the error's. */
    private static void read(byte[] answer, int error, Field each) throws IOException {
        CodedInputStream in = CodedInputStream.newInstance(answer);
        for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
            int number = tag >>> 3;
            if (number == error) {
                throwError(in.readByteArray());
            } else if (number == 1) {
                each.read(in.readByteArray());
            } else {
                in.skipField(tag);
            }
        }
    }

    private static void throwError(byte[] bytes) throws IOException {
        CodedInputStream in = CodedInputStream.newInstance(bytes);
        int code = 0;
        String text = "";
        for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
            switch (tag >>> 3) {
                case 1 -> code = in.readInt32();
                case 2 -> text = in.readString();
                default -> in.skipField(tag);
            }
        }
        if (code != 0) {
            throw new ServerError(code, text);
        }
    }

    private static Versioned versioned(byte[] bytes) throws IOException {
        CodedInputStream in = CodedInputStream.newInstance(bytes);
        ByteString value = ByteString.EMPTY;
        Clock clock = Clock.NONE;
        for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
            switch (tag >>> 3) {
                case 1 -> value = in.readBytes();
                case 2 -> clock = clock(in.readByteArray());
                default -> in.skipField(tag);
            }
        }
        return new Versioned(value.toByteArray(), clock);
    }

    private static Clock clock(byte[] bytes) throws IOException {
        CodedInputStream in = CodedInputStream.newInstance(bytes);
        Clock clock = Clock.NONE;
        for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
            switch (tag >>> 3) {
                case 1 -> clock = entry(in.readByteArray(), clock);
                case 2 -> clock = clock.at(in.readInt64());
                default -> in.skipField(tag);
            }
        }
        return clock;
    }

    private static Clock entry(byte[] bytes, Clock clock) throws IOException {
        CodedInputStream in = CodedInputStream.newInstance(bytes);
        int node = 0;
        long version = 0;
        for (int tag = in.readTag(); tag != 0; tag = in.readTag()) {
            switch (tag >>> 3) {
                case 1 -> node = in.readInt32();
                case 2 -> version = in.readInt64();
                default -> in.skipField(tag);
            }
        }
        return clock.with(node, version);
    }
}
