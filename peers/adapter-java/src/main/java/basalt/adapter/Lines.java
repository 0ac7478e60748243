package basalt.adapter;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The names and values of a greeting or of its answer. */
public final class Lines {
    private final List<String[]> pairs = new ArrayList<>();

    /** Reads lines of name=value. */
    public static Lines parse(String text) {
        Lines lines = new Lines();
        text.lines()
                .map(line -> line.split("=", 2))
                .filter(pair -> pair.length == 2)
                .forEach(lines.pairs::add);
        return lines;
    }

    /** Adds a line. */
    public Lines add(String name, String value) {
        pairs.add(new String[] {name, String.valueOf(value).replaceAll("\\s+", " ")});
        return this;
    }

    /** Adds all lines of another. */
    public Lines addAll(Lines other) {
        pairs.addAll(other.pairs);
        return this;
    }

    /** The value of a name, or an empty text. */
    public String get(String name) {
        return pairs.stream().filter(pair -> pair[0].equals(name)).map(pair -> pair[1]).findFirst().orElse("");
    }

    /** Every value of a name. */
    public List<String> all(String name) {
        return pairs.stream().filter(pair -> pair[0].equals(name)).map(pair -> pair[1]).toList();
    }

    /** A value that must be a number from {@code least} on. */
    public int number(String name, int least) throws IOException {
        try {
            int number = Integer.parseInt(get(name));
            if (number >= least) {
                return number;
            }
        } catch (NumberFormatException bad) {
            // As below.
        }
        throw new IOException("the greeting's " + name + " is not a number that it can be");
    }

    ByteBuffer frame() {
        StringBuilder text = new StringBuilder();
        pairs.forEach(pair -> text.append(pair[0]).append('=').append(pair[1]).append('\n'));
        byte[] body = text.toString().getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(4 + body.length).putInt(body.length).put(body).flip();
    }
}
