package basalt.adapter;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** What a connection's requests will be about. */
public record Shape(
        boolean hash, boolean comparesVersions, boolean scans, List<String> fields, int fieldBytes, int fieldBytesMax) {

    static Shape of(Lines greeting) throws IOException {
        List<String> fields = greeting.all("field");
        if (fields.isEmpty()) {
            throw new IOException("the greeting names no fields");
        }
        return new Shape(
                greeting.get("record").equals("hash"),
                greeting.get("compare_and_set").equals("true"),
                greeting.get("scans").equals("true"),
                fields,
                greeting.number("field_bytes", 0),
                greeting.number("field_bytes_max", 0));
    }

    /** A field's place among the fields, or -1. */
    public int indexOf(byte[] name) {
        return fields.indexOf(new String(name, StandardCharsets.UTF_8));
    }

    /** A field's place among the fields. */
    public int placeOf(byte[] name) throws IOException {
        int index = indexOf(name);
        if (index < 0) {
            throw Request.damaged();
        }
        return index;
    }
}
