package basalt.adapter;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A RESP2 reply being written. */
public final class Reply {
    private static final byte[] OK = "+OK\r\n".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] NULL = "$-1\r\n".getBytes(StandardCharsets.US_ASCII);

    private byte[] bytes = new byte[256];
    private int length;

    private void room(int more) {
        if (bytes.length - length < more) {
            bytes = Arrays.copyOf(bytes, Math.max(bytes.length * 2, Math.addExact(length, more)));
        }
    }

    private Reply raw(byte[] added) {
        room(added.length);
        System.arraycopy(added, 0, bytes, length, added.length);
        length += added.length;
        return this;
    }

    private Reply line(char kind, String text) {
        room(text.length() + 3);
        bytes[length++] = (byte) kind;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            bytes[length++] = (byte) (c < ' ' || c > '~' ? ' ' : c);
        }
        bytes[length++] = '\r';
        bytes[length++] = '\n';
        return this;
    }

    /** A write was done. */
    public Reply ok() {
        return raw(OK);
    }

    /** Nothing is there. */
    public Reply nothing() {
        return raw(NULL);
    }

    /** A number. */
    public Reply integer(long number) {
        return line(':', Long.toString(number));
    }

    /** So many replies follow. */
    public Reply array(int count) {
        return line('*', Integer.toString(count));
    }

    /** An error, its kind first. */
    public Reply error(String words) {
        return line('-', words);
    }

    /** Bytes. */
    public Reply bulk(byte[] value) {
        line('$', Integer.toString(value.length));
        raw(value);
        room(2);
        bytes[length++] = '\r';
        bytes[length++] = '\n';
        return this;
    }

    /** What is left in a buffer; nothing for null. */
    public Reply bulk(ByteBuffer value) {
        if (value == null) {
            return nothing();
        }
        byte[] copy = new byte[value.remaining()];
        value.duplicate().get(copy);
        return bulk(copy);
    }

    /** Text as bytes. */
    public Reply bulk(String value) {
        return bulk(value.getBytes(StandardCharsets.UTF_8));
    }

    /** Another reply's bytes. */
    public Reply append(Reply other) {
        room(other.length);
        System.arraycopy(other.bytes, 0, bytes, length, other.length);
        length += other.length;
        return this;
    }

    byte[] bytes() {
        return bytes;
    }

    int length() {
        return length;
    }
}
