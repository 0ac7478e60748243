package basalt.adapter.voldemort;

import java.util.Collection;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * A vector clock: how often each node has written.
 *
 * <p>The server that routes a write counts it, under the key's first replica. A client sends the clock that it has read,
 * as it is: one that counts the write as well makes writers of one version concurrent, and both succeed.
 */
record Clock(SortedMap<Integer, Long> versions, long timestamp) {
    /** Of what was never written. */
    static final Clock NONE = new Clock(new TreeMap<>(), 0);

    /** With a node's version, unless it has a higher one. */
    Clock with(int node, long version) {
        SortedMap<Integer, Long> more = new TreeMap<>(versions);
        more.merge(node, version, Math::max);
        return new Clock(more, timestamp);
    }

    Clock at(long time) {
        return new Clock(versions, time);
    }

    /** What follows all of them. */
    static Clock merged(Collection<Clock> clocks) {
        Clock all = NONE;
        for (Clock clock : clocks) {
            for (var entry : clock.versions.entrySet()) {
                all = all.with(entry.getKey(), entry.getValue());
            }
            all = all.at(Math.max(all.timestamp, clock.timestamp));
        }
        return all;
    }

    /** Writes so far: a number that rises with each. */
    long writes() {
        return versions.values().stream().mapToLong(Long::longValue).sum();
    }
}
