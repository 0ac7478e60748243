package basalt.adapter;

/** Why a store did not answer, in a word that the laboratory knows. */
public final class Trouble extends Exception {
    /** Nothing was done; otherwise nobody knows. */
    final boolean refused;

    private Trouble(boolean refused, String word) {
        super(word, null, false, false);
        this.refused = refused;
    }

    /** No node could be reached. */
    public static Trouble unreachable() {
        return new Trouble(true, "unreachable");
    }

    /** Too few nodes are up to do it. */
    public static Trouble down() {
        return new Trouble(true, "CLUSTERDOWN");
    }

    /** The store has too much to do, or is not ready. */
    public static Trouble busy() {
        return new Trouble(true, "LOADING");
    }

    /** No answer in time: nobody knows. */
    public static Trouble timeout() {
        return new Trouble(false, "timeout");
    }

    /** The connection broke: nobody knows. */
    public static Trouble disconnected() {
        return new Trouble(false, "disconnected");
    }
}
