package basalt.adapter.oracle;

import basalt.adapter.Blocking;
import basalt.adapter.Handler;
import basalt.adapter.Lines;
import basalt.adapter.Shape;
import basalt.adapter.Store;
import basalt.adapter.Url;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.logging.Level;
import java.util.logging.Logger;
import oracle.nosql.driver.Consistency;
import oracle.nosql.driver.Durability;
import oracle.nosql.driver.Durability.ReplicaAckPolicy;
import oracle.nosql.driver.Durability.SyncPolicy;
import oracle.nosql.driver.NoSQLHandle;
import oracle.nosql.driver.NoSQLHandleConfig;
import oracle.nosql.driver.NoSQLHandleFactory;
import oracle.nosql.driver.ops.ListTablesRequest;
import oracle.nosql.driver.ops.TableLimits;
import oracle.nosql.driver.ops.TableRequest;

/** An Oracle NoSQL Database, by its proxies. */
public final class OracleStore implements Store {
    private static final int PORT = 8080;
    private static final int TABLE_WITHIN_MS = 60_000;
    private static final int TABLE_POLL_MS = 200;
    /** What a store of one's own ignores and the cloud's simulator demands. */
    private static final TableLimits LIMITS = new TableLimits(1_000_000, 1_000_000, 1000);

    private final List<NoSQLHandle> handles;
    private final Blocking threads = new Blocking();
    private final Lines facts;
    /** Null = what the store's default is. */
    final Durability durability;
    final boolean readsAny;

    private OracleStore(List<NoSQLHandle> handles, Url url, Lines greeting) throws IOException {
        this.handles = handles;
        this.durability = durability(greeting.get("durability"), greeting.get("acks"));
        this.readsAny = greeting.get("read_from").equals("any");
        this.facts = describe(url);
    }

    /** Connects to every proxy that was named; requests go to them in turn. */
    public static Store connect(Lines greeting) throws IOException {
        Url url = new Url(greeting.get("target"), PORT, Set.of("tls", "namespace"));
        int timeout = greeting.number("timeout_ms", 1);
        List<NoSQLHandle> handles = new ArrayList<>();
        try {
            for (InetSocketAddress place : url.places) {
                NoSQLHandle handle = NoSQLHandleFactory.createNoSQLHandle(config(url, place, timeout));
                handles.add(handle);
                // Whether it is there, and what it speaks.
                handle.listTables(new ListTablesRequest().setLimit(1));
            }
            return new OracleStore(handles, url, greeting);
        } catch (RuntimeException failed) {
            handles.forEach(NoSQLHandle::close);
            throw new IOException(Url.shown(url.places.get(handles.isEmpty() ? 0 : handles.size() - 1)) + ": " + failed.getMessage(), failed);
        }
    }

    private static NoSQLHandleConfig config(Url url, InetSocketAddress place, int timeout) {
        boolean secure = !url.user.isEmpty() || url.option("tls", "").equals("true");
        String endpoint = (secure ? "https://" : "http://") + Url.shown(place);
        NoSQLHandleConfig config = new NoSQLHandleConfig(endpoint);
        OneAttempt once =
                url.user.isEmpty() ? new OneAttempt() : new OneAttempt(url.user, url.password.toCharArray());
        config.setAuthorizationProvider(once);
        config.setRetryHandler(once);
        config.setRequestTimeout(timeout);
        config.setTableRequestTimeout(TABLE_WITHIN_MS);
        if (!url.option("namespace", "").isEmpty()) {
            config.setDefaultNamespace(url.option("namespace", ""));
        }
        Logger quiet = Logger.getLogger("oracle.nosql");
        quiet.setLevel(Level.SEVERE);
        return config.setLogger(quiet);
    }

    /** What the laboratory's words mean here; null where it asks for nothing. */
    static Durability durability(String durability, String acks) {
        if (durability.isEmpty() && acks.isEmpty()) {
            return null;
        }
        SyncPolicy sync =
                switch (durability) {
                    case "sync" -> SyncPolicy.SYNC;
                    case "nosync" -> SyncPolicy.WRITE_NO_SYNC;
                    default -> SyncPolicy.NO_SYNC;
                };
        ReplicaAckPolicy ack =
                switch (acks) {
                    case "all" -> ReplicaAckPolicy.ALL;
                    case "none" -> ReplicaAckPolicy.NONE;
                    default -> ReplicaAckPolicy.SIMPLE_MAJORITY;
                };
        return new Durability(sync, sync, ack);
    }

    private Lines describe(Url url) {
        String asked =
                durability == null
                        ? "the store's default (without settings: memory of master and replicas, a majority acknowledges)"
                        : "master " + durability.getMasterSync() + ", replicas " + durability.getReplicaSync() + ", acks "
                                + durability.getReplicaAck();
        Lines lines =
                new Lines()
                        .add("system", "Oracle NoSQL Database (version not told by its proxy), Java SDK "
                                + oracle.nosql.driver.http.NoSQLHandleImpl.class.getPackage().getImplementationVersion())
                        .add("durability", asked)
                        .add("replication", "as the store's topology has it")
                        .add("consistency", readsAny ? "EVENTUAL: any replica" : "ABSOLUTE: masters")
                        .add("compression", "none")
                        .add("engine", "Berkeley DB Java Edition");
        url.places.forEach(place -> lines.add("node", Url.shown(place)));
        return lines;
    }

    Consistency consistency(boolean leader) {
        return readsAny && !leader ? Consistency.EVENTUAL : Consistency.ABSOLUTE;
    }

    NoSQLHandle handle(int token) {
        return handles.get(Math.floorMod(token, handles.size()));
    }

    @Override
    public Lines facts() {
        return facts;
    }

    @Override
    public Handler open(Shape shape, Lines told) {
        TableRequest create =
                new TableRequest().setStatement(OracleRecords.createTable(shape)).setTableLimits(LIMITS);
        handles.get(0).doTableRequest(create, TABLE_WITHIN_MS, TABLE_POLL_MS);
        told.add("scans", "ordered");
        return threads.handler(new OracleRecords(this, shape), OracleRecords::trouble);
    }

    @Override
    public void close() {
        threads.close();
        handles.forEach(NoSQLHandle::close);
    }
}
