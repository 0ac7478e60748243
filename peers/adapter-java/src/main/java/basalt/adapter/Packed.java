package basalt.adapter;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A record as one value, for stores that know only values: for each field the length of its name (2 bytes), the name, the
 * length of its value (4 bytes) and the value.
 */
public final class Packed {
    private Packed() {}

    /** A record's fields as one value. */
    public static byte[] pack(Map<String, byte[]> fields) {
        int length = 0;
        for (Map.Entry<String, byte[]> field : fields.entrySet()) {
            length += 6 + field.getKey().getBytes(StandardCharsets.UTF_8).length + field.getValue().length;
        }
        ByteBuffer out = ByteBuffer.allocate(length);
        fields.forEach(
                (name, value) -> {
                    byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
                    out.putShort((short) bytes.length).put(bytes).putInt(value.length).put(value);
                });
        return out.array();
    }

    /** The fields of a value. */
    public static Map<String, byte[]> unpack(byte[] packed) {
        Map<String, byte[]> fields = new LinkedHashMap<>();
        ByteBuffer in = ByteBuffer.wrap(packed);
        try {
            while (in.hasRemaining()) {
                byte[] name = new byte[Math.min(Short.toUnsignedInt(in.getShort()), in.remaining())];
                in.get(name);
                int length = in.getInt();
                if (length < 0 || length > in.remaining()) {
                    throw new IllegalStateException("a record ends within a field");
                }
                byte[] value = new byte[length];
                in.get(value);
                fields.put(new String(name, StandardCharsets.UTF_8), value);
            }
        } catch (BufferUnderflowException tooShort) {
            throw new IllegalStateException("a record ends within a field");
        }
        return fields;
    }
}
