package basalt.adapter;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Counters by compare-and-set, from several lanes whose requests meet: what was acknowledged must be counted. The lanes
 * have tokens of their own, so a store of several nodes is written through all of them.
 */
public final class LostUpdates {
    private static final int LANES = 6;
    private static final int ROUNDS = 20;

    private LostUpdates() {}

    /**
     * Every lane reads the counter before the first of them writes: of each round exactly one may succeed. No version comes
     * again: of two updates that replaced one, the laboratory takes the second for a proof that the first is lost.
     */
    public static void areNone(Laboratory laboratory) throws IOException {
        assertEquals("0 +OK", laboratory.ask(0, Request.Access.WRITE, "SET", "counter", "0"));
        int acknowledged = 0;
        Set<String> replaced = new HashSet<>();
        for (int round = 0; round < ROUNDS; round++) {
            List<String> versions = new ArrayList<>();
            for (int lane = 0; lane < LANES; lane++) {
                String[] words = laboratory.ask(lane, Request.Access.LEADER_READ, "KV.GET", "counter").split(" ");
                assertEquals(String.valueOf(acknowledged), words[3], "round " + round);
                versions.add(words[4].substring(1));
            }
            versions.forEach(version -> assertFalse(replaced.contains(version), "a version comes again: " + version));
            replaced.addAll(versions);
            Map<Boolean, Integer> outcomes = new HashMap<>();
            for (int lane = 0; lane < LANES; lane++) {
                String next = String.valueOf(acknowledged + 1);
                String version = versions.get(lane);
                String answer =
                        laboratory.ask(lane, Request.Access.WRITE, "KV.PUT", "counter", next, "IFVERSION", version);
                assertTrue(answer.equals("0 $-1") || answer.startsWith("0 :"), answer);
                outcomes.merge(answer.startsWith("0 :"), 1, Integer::sum);
            }
            assertEquals(Map.of(true, 1, false, LANES - 1), outcomes, "round " + round);
            acknowledged++;
        }
        assertEquals("0 $2 " + ROUNDS, laboratory.ask(0, Request.Access.LEADER_READ, "GET", "counter"));
    }
}
