package basalt.adapter;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class ProtocolTest {
    private static byte[] bytes(String text) {
        return text.getBytes(ISO_8859_1);
    }

    @Test
    void requestsLieAsDocumented() throws IOException {
        byte[] body = bytes("\0\0\0\7\2\0\0\0\2\0\0\0\3GET\0\0\0\0041203");
        Request request = Request.parse(body);
        assertEquals(7, request.token);
        assertEquals(Request.Access.WRITE, request.access);
        assertEquals("GET 1203", request.name() + " " + request.number(1));
        for (int cut = 0; cut < body.length; cut++) {
            byte[] part = Arrays.copyOf(body, cut);
            assertThrows(IOException.class, () -> Request.parse(part));
        }
        assertThrows(IOException.class, () -> Request.parse(Arrays.copyOf(body, body.length + 1)));
        assertThrows(IOException.class, () -> Request.parse(bytes("\0\0\0\7\2\177\377\377\377")));
    }

    @Test
    void theWholeWay() throws Exception {
        try (Laboratory laboratory = new Laboratory(greeting -> new Noop())) {
            assertEquals("error=open comes after hello\n", laboratory.greet("what=open"));
            String told = laboratory.open("noop+java://", "hash");
            assertTrue(told.contains("stores=nothing\n") && told.endsWith("protocol=1\nscans=ordered\n"), told);
            assertEquals("0 *4 $3 f/a $8 xxxxxxxx $3 f/b $8 xxxxxxxx", laboratory.read("HGETALL", "k"));
            assertEquals("0 *1 $8 xxxxxxxx", laboratory.read("HMGET", "k", "f/a"));
            assertEquals("0 -UNKNOWN request WHAT of 1 arguments", laboratory.read("WHAT"));
        }
    }

    @Test
    void aProtocolOfAnotherNumberIsRefused() throws Exception {
        try (Laboratory laboratory = new Laboratory(greeting -> new Noop())) {
            String answer = new String(laboratory.say(bytes("protocol=2\nwhat=hello\n")), ISO_8859_1);
            assertEquals("error=protocol 2 is not spoken here\n", answer);
        }
    }

    @Test
    void urls() throws IOException {
        Url url = new Url("x://me:p%40ss@a:1,b?o=1", 9, Set.of("o"));
        assertEquals("x me p@ss a:1 b:9 1", String.join(" ", url.scheme, url.user, url.password,
                Url.shown(url.places.get(0)), Url.shown(url.places.get(1)), url.option("o", "")));
        for (String wrong : new String[] {"x://", "x://a:b", "x://secret@a", "x://a?what=1", "x://a,,b"}) {
            IOException error = assertThrows(IOException.class, () -> new Url(wrong, 9, Set.of("o")), wrong);
            assertFalse(error.getMessage().contains("secret"));
        }
    }

    @Test
    void whatIsPackedUnpacksAndDamageShows() {
        Map<String, byte[]> fields = new LinkedHashMap<>();
        fields.put("field0", bytes("abc"));
        fields.put("field1", bytes(""));
        byte[] packed = Packed.pack(fields);
        assertEquals("\0\6field0\0\0\0\3abc\0\6field1\0\0\0\0", new String(packed, ISO_8859_1));
        assertEquals(fields.keySet(), Packed.unpack(packed).keySet());
        assertThrows(IllegalStateException.class, () -> Packed.unpack(Arrays.copyOf(packed, packed.length - 1)));
    }
}
