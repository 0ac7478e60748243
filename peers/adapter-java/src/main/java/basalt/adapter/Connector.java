package basalt.adapter;

/** Connects to a store, as the first greeting asks. */
@FunctionalInterface
public interface Connector {
    /** An exception's text is told to the laboratory. */
    Store connect(Lines greeting) throws Exception;
}
