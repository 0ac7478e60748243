package basalt.adapter;

/** A store that is connected to; all connections of the laboratory share it. */
public interface Store extends AutoCloseable {
    /** What it tells of itself: system, durability, node and so on. */
    Lines facts();

    /** Prepares for records of a shape; {@code told} takes what is to be said of them. */
    Handler open(Shape shape, Lines told) throws Exception;

    @Override
    void close();
}
