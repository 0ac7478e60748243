package basalt.adapter;

import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** One request. */
public final class Request {
    /** What its answer bears; each token has one request at a time. */
    public final int token;

    /** What it does to the store. */
    public final Access access;

    private final byte[][] args;
    private final String name;

    /** What a request does to the store. */
    public enum Access {
        /** Nothing changes, and any replica may answer. */
        READ,
        /** Nothing changes, but a write depends on it. */
        LEADER_READ,
        /** It must not be done twice. */
        WRITE,
        /** Doing it twice does no harm. */
        REPEATABLE;

        private static final Access[] ALL = values();
    }

    private Request(int token, Access access, byte[][] args) {
        this.token = token;
        this.access = access;
        this.args = args;
        this.name = new String(args[0], StandardCharsets.US_ASCII);
    }

    /** Reads a frame's body. */
    static Request parse(byte[] body) throws IOException {
        try {
            ByteBuffer rest = ByteBuffer.wrap(body);
            int token = rest.getInt();
            int access = rest.get();
            int count = rest.getInt();
            // Each argument has its length, so there cannot be more than this.
            if (access < 0 || access >= Access.ALL.length || count < 1 || count > rest.remaining() / 4) {
                throw damaged();
            }
            byte[][] args = new byte[count][];
            for (int i = 0; i < count; i++) {
                int length = rest.getInt();
                if (length < 0 || length > rest.remaining()) {
                    throw damaged();
                }
                args[i] = new byte[length];
                rest.get(args[i]);
            }
            if (rest.hasRemaining()) {
                throw damaged();
            }
            return new Request(token, Access.ALL[access], args);
        } catch (BufferUnderflowException tooShort) {
            throw damaged();
        }
    }

    /** What came is no request. */
    public static IOException damaged() {
        return new IOException("what came is no request");
    }

    /** Its first argument. */
    public String name() {
        return name;
    }

    /** How many arguments it has, its name included. */
    public int count() {
        return args.length;
    }

    /** An argument; a request without it is damaged. */
    public byte[] arg(int index) throws IOException {
        if (index >= args.length) {
            throw damaged();
        }
        return args[index];
    }

    /** The key that it is about. */
    public byte[] key() throws IOException {
        return arg(1);
    }

    /** An argument as text. */
    public String text(int index) throws IOException {
        return new String(arg(index), StandardCharsets.UTF_8);
    }

    /** A number in decimal. */
    public long number(int index) throws IOException {
        try {
            return Long.parseLong(text(index));
        } catch (NumberFormatException bad) {
            throw damaged();
        }
    }

    /** Whether a range's bound leaves out the key that it names: "(key" does, "[key" does not. */
    public boolean isAfter() throws IOException {
        byte[] bound = arg(1);
        if (bound.length < 1 || (bound[0] != '(' && bound[0] != '[')) {
            throw damaged();
        }
        return bound[0] == '(';
    }

    /** The key of a range's bound. */
    public byte[] boundKey() throws IOException {
        byte[] bound = arg(1);
        return java.util.Arrays.copyOfRange(bound, 1, Math.max(1, bound.length));
    }

    /** How many rows a range has at most. */
    public int limit() throws IOException {
        long limit = number(4);
        if (limit < 1 || limit > 1_000_000) {
            throw damaged();
        }
        return (int) limit;
    }

    /** A store of this kind has no such request. */
    public UnsupportedOperationException unknown() {
        return new UnsupportedOperationException("UNKNOWN request " + name + " of " + args.length + " arguments");
    }
}
