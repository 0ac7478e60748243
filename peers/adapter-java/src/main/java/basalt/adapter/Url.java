package basalt.adapter;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Where a store is, who asks, and how: {@code scheme://user:password@host:port,host:port?name=value&name=value}. */
public final class Url {
    /** Before {@code ://}. */
    public final String scheme;

    /** The places, as they were given; at least one. */
    public final List<InetSocketAddress> places = new ArrayList<>();

    /** Who asks, or an empty text. */
    public final String user;

    /** The password, or an empty text. It is shown nowhere. */
    public final String password;

    private final Map<String, String> options = new HashMap<>();

    /** Reads it; {@code known} are the options that mean something. */
    public Url(String text, int defaultPort, Set<String> known) throws IOException {
        int colon = text.indexOf("://");
        scheme = text.substring(0, Math.max(colon, 0));
        String rest = text.substring(colon + 3);
        int question = rest.indexOf('?');
        if (question >= 0) {
            options(rest.substring(question + 1), known);
            rest = rest.substring(0, question);
        }
        int at = rest.lastIndexOf('@');
        String login = at < 0 ? ":" : rest.substring(0, at);
        int separator = login.indexOf(':');
        if (separator < 0) {
            throw new IOException("expected " + scheme + "://user:password@host:port");
        }
        user = URLDecoder.decode(login.substring(0, separator), StandardCharsets.UTF_8);
        password = URLDecoder.decode(login.substring(separator + 1), StandardCharsets.UTF_8);
        for (String place : rest.substring(at + 1).replaceFirst("/$", "").split(",", -1)) {
            places.add(place(place, defaultPort));
        }
    }

    private void options(String text, Set<String> known) throws IOException {
        for (String pair : text.split("&")) {
            String[] parts = pair.split("=", 2);
            if (parts.length != 2 || !known.contains(parts[0])) {
                throw new IOException("the URL's option " + parts[0] + " is none of " + String.join(", ", known));
            }
            options.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
        }
    }

    private InetSocketAddress place(String text, int defaultPort) throws IOException {
        int colon = text.lastIndexOf(':');
        try {
            String host = colon < 0 ? text : text.substring(0, colon);
            int port = colon < 0 ? defaultPort : Integer.parseInt(text.substring(colon + 1));
            if (host.isEmpty()) {
                throw new IOException("expected " + scheme + "://host:port,host:port");
            }
            return new InetSocketAddress(host, port);
        } catch (IllegalArgumentException badPort) {
            throw new IOException("expected " + scheme + "://host:port,host:port");
        }
    }

    /** An option, or what holds without it. */
    public String option(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    /** How a place is written. */
    public static String shown(InetSocketAddress place) {
        return place.getHostString() + ":" + place.getPort();
    }
}
