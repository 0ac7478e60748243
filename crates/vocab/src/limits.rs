//! Every bound of the store, in one file. What exceeds one is refused with a clear error.

/// Longest key, in bytes. The tree's keys carry a 16-bit length; ours are prefixed.
pub const KEY_BYTES_MAX: usize = 32_000;
/// Longest field of a hash, in bytes: with its key it must fit one tree key.
pub const FIELD_BYTES_MAX: usize = 32_000;
/// Largest record (a string's value, or a small collection as a whole), in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Largest stored value, in bytes: the largest record with its head.
pub const STORED_BYTES_MAX: usize = VALUE_BYTES_MAX + 64 * 1024;
/// Longest bulk string in a request, in bytes: the default of `proto-max-bulk-len`.
pub const BULK_BYTES_MAX: usize = VALUE_BYTES_MAX;
/// Bytes of memory that a value takes while RESTORE reads it. It was given in at most [`BULK_BYTES_MAX`], perhaps compressed.
pub const RESTORED_BYTES_MAX: usize = 3 * VALUE_BYTES_MAX;
/// Most arguments of one request, as Redis has it.
pub const ARGUMENTS_MAX: usize = 1024 * 1024;
/// Most unparsed bytes that a connection may hold: the default of `client-query-buffer-limit`.
pub const QUERY_BUFFER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most arguments of one request before AUTH has succeeded, as Redis has it.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;
/// Longest bulk string in a request before AUTH has succeeded, in bytes, as Redis has it.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;
/// Longest inline request or header line, in bytes, as Redis has it.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes that a worker reads from a connection at once.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes of one client's requests that are under way at another node, beyond which no more of them are sent there.
pub const FORWARDED_BYTES_SOFT: usize = 16 * 1024 * 1024;
/// Bytes of writes that a node may have waiting for the log before it reads no more requests.
pub const QUEUED_WRITE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest bulk string in a reply that our client accepts, in bytes: the longest that any Redis sends.
pub const REPLY_BULK_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Most elements of one array in a reply that our client accepts.
pub const REPLY_ELEMENTS_MAX: usize = 128 * 1024 * 1024;
/// Longest line of a reply that our client accepts, in bytes: scripts make status and error replies of any length.
pub const REPLY_LINE_BYTES_MAX: usize = REPLY_BULK_BYTES_MAX;
/// Deepest nesting of arrays in a reply that our client accepts: deeper than scripts of ours can answer.
pub const NESTING_MAX: usize = 256;
/// Most clients of one node: the default of `maxclients`.
pub const CLIENTS_MAX: usize = 10_000;
/// Longest name of a client, or of its library or that one's version, in bytes.
pub const CLIENT_TEXT_BYTES_MAX: usize = 1024;
/// Longest name of a channel, in bytes.
pub const CHANNEL_BYTES_MAX: usize = KEY_BYTES_MAX;
/// Steps that comparing a channel with the patterns of its node's clients may take. Who has a pattern that would take more does not
/// get the message.
pub const PATTERN_STEPS_MAX: usize = 4 * 1024 * 1024;
/// Longest pattern of a client's request, in bytes: each name is compared with it, as each message is with those of PSUBSCRIBE.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// Most bytes of the patterns of one request that compares each of them with the same names, and of the words beside them.
pub const PATTERNS_BYTES_MAX: usize = 32 * 1024;
const _: () = assert!(PATTERNS_BYTES_MAX >= PATTERN_BYTES_MAX);
/// Most bytes that the subscriptions of one connection take: their names, and 96 bytes each.
pub const CLIENT_SUBSCRIPTION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most bytes that the subscriptions of all connections of a node take: each name once, and 96 bytes a subscription.
pub const NODE_SUBSCRIPTION_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of an argument that MONITOR shows.
pub const MONITORED_ARGUMENT_BYTES_MAX: usize = 4096;
/// Commands of one entry's scripts, or of one script that is a read, that MONITOR shows.
pub const MONITORED_CALLS_MAX: usize = 1000;
/// Refusals of one entry's scripts, or of one script that is a read, that ACL LOG and the audit log get.
pub const DENIED_CALLS_MAX: usize = 64;
/// About how many bytes of a line of MONITOR show the arguments of one command; of those behind it tells how many there are. Each line
/// is copied for each monitor.
pub const MONITORED_COMMAND_BYTES_SOFT: usize = 16 * 1024;
/// Most clients that are told of the next change of one key, because they have read it.
pub const TRACKED_CLIENTS_PER_KEY: usize = 16_384;
/// Most prefixes of keys that one client is told of.
pub const TRACKED_PREFIXES_MAX: usize = 1024;
/// Bytes of the prefixes of all clients of a node, each with 96 bytes for its place, beyond which no more are taken.
pub const TRACKED_PREFIX_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of the keys that a node remembers for its clients' caches, each with 96 bytes for its place, and 16 for each of its clients. Beyond,
/// clients are told to forget keys.
pub const TRACKED_KEY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most bytes of keyspace events, and of changes of keys, that one entry tells of; each with 64 bytes for its place. Events beyond
/// are lost; where changes are beyond, clients are told to forget all.
pub const ENTRY_TOLD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of what entries are to tell clients, and of what waits to be told, beyond which keyspace events are lost.
pub const TOLD_BACKLOG_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Events, messages and changes that a worker tells clients of before it does something else.
pub const TOLD_STEP_MAX: usize = 1024;
/// Bytes of what takes back the writes of an item, after which what was noted twice is thrown away.
pub const UNDO_FOLD_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of published messages, times the clients that get them, that the mailboxes of a node's workers hold before
/// publishers wait.
pub const PUSH_BACKLOG_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of keys that very many clients of a worker are still to be told of, with the lists of these clients. Beyond, they are told to forget all.
pub const FORGOTTEN_BACKLOG_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Clients of a worker that have what goes to very many, such as a message, in one turn.
pub const CLIENTS_TOLD_STEP_MAX: usize = 256;
/// Bytes that a connection's requests may push to the subscribers of its worker before other connections have their turn.
pub const PUSH_LOOK_BYTES_SOFT: usize = 4 * 1024 * 1024;
/// Bytes of names after which a message that tells another node what clients listen to ends.
pub const INTEREST_MESSAGE_BYTES_SOFT: usize = 8 * 1024;
/// Most such messages that another node has not confirmed.
pub const INTEREST_MESSAGES_MAX: usize = 4;
/// Longest time that a SUBSCRIBE waits until the other nodes know of it, in µs.
pub const SUBSCRIBE_WAIT_US_MAX: u64 = 1_000_000;
/// Longest time that a PUBLISH waits until the other nodes have told how many clients got its message, in µs.
pub const RECEIVERS_WAIT_US_MAX: u64 = 1_000_000;
/// Answers a connection may leave unread before it is no longer read from, in bytes.
pub const OUTPUT_BUFFER_BYTES_SOFT: usize = 1024 * 1024;
/// Scripts that may write which one connection has under way, if its shard applies its entries quickly: with so many it is no longer read
/// from, so that the writes of others come between.
pub const CONNECTION_SCRIPTS_MAX: usize = 16;
/// Scripts that may write which one shard has under way, if it applies their entries quickly; one, if it does not.
pub const SHARD_SCRIPTS_MAX: usize = 1024;
/// Writes that wait for scripts of one shard: more are refused.
pub const LANE_WRITES_MAX: usize = 16_384;
/// After so many µs those that have waited longest are refused, too.
pub const LANE_WAIT_US_MAX: u64 = 60_000_000;
/// Bytes of such writes: likewise.
pub const LANE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a string is at least that is kept in pieces once a part of it is changed.
pub const LONG_STRING_BYTES_MIN: usize = 32 * 1024;
/// Elements that one item edits, as pieces of strings: each is in memory once. An entry has as many as some items may.
pub const ITEM_EDITS_MAX: usize = 48 * 1024;
/// An item that edits so few is not refused for others of its entry.
pub const ITEM_EDITS_SURE: usize = 16;
/// For so many bytes that are read and written the change of a short element counts, as a piece of a string.
pub const ELEMENT_EDIT_TOUCHED_BYTES: usize = 512;
/// The longest part of a string in pieces that an event loop puts together.
pub const STRING_INLINE_BYTES_MAX: usize = 128 * 1024;
/// From so many µs on the evaluation of an entry, beside the event loop, is long: then a connection, and a shard, has one script under way.
pub const SLOW_ENTRY_US: u64 = 10_000;
/// Bytes after which one step of a reply that is made as its client takes it ends, in bytes. A step holds at least one value.
pub const STREAM_STEP_BYTES_SOFT: usize = 128 * 1024;
/// Keys or elements that one such step looks at, at most.
pub const STREAM_STEP_ITEMS_MAX: usize = 4096;
/// With more bytes that its client has not taken, no further step of such a reply is made.
pub const STREAM_UNSENT_BYTES_SOFT: usize = 256 * 1024;
/// How long a client may take nothing of such a reply before it is closed, in s, where `client-output-buffer-limit` gives
/// its class no time: the reply keeps old rows alive.
pub const STREAM_IDLE_S_MAX: u64 = 60;
/// Arguments of a request beyond which it does not run on an event loop, but on a thread: to find keys, to copy and to answer takes
/// about half a microsecond an argument. Also the commands, the watched keys and the subscriptions of a session beyond which a
/// request that is about all of them runs there.
pub const LARGE_REQUEST_ARGUMENTS: usize = 1024;
/// Bytes of a request beyond which it runs there.
pub const LARGE_REQUEST_BYTES: usize = 256 * 1024;
/// For so long an event loop runs the requests of one connection before others have their turn, in µs.
pub const CONNECTION_SPAN_US: u64 = 400;
/// For so long it runs requests in one turn, in µs: what is left has the next turn.
pub const REQUESTS_SPAN_US: u64 = 700;
/// So many removals that are not compacted yet a scan of an event loop passes over, before a thread makes the scan.
pub const SCAN_INLINE_REMOVALS_MAX: u64 = 512;
/// For so long an event loop reads for one command, in µs, before a thread makes the read.
pub const READ_INLINE_US_MAX: u64 = 400;
/// For so long it takes answers of other nodes in one turn, and for so long it sends requests to them, in µs.
pub const FORWARD_SPAN_US: u64 = 300;
/// Bytes that it sends to one client in one turn.
pub const CLIENT_SEND_BYTES_SOFT: usize = 512 * 1024;
/// Requests of one connection that may be under way at once.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 1024;
/// Most commands queued by one MULTI.
pub const TRANSACTION_COMMANDS_MAX: usize = 100_000;
/// Most keys that one connection may watch.
pub const WATCHED_KEYS_MAX: usize = 100_000;
/// Most bytes of keys that one connection may watch.
pub const WATCHED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Changes that WATCH does not see and that a replica remembers.
pub const QUIET_CHANGES_MAX: usize = 1024;
/// Bytes of their keys.
pub const QUIET_CHANGES_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of names that a shard keeps of the members of a set that SPOP draws from.
pub const KEPT_STRETCH_BYTES_MAX: usize = 64 * 1024;
/// Bytes of commands in one Raft entry beyond which the next entry is begun.
pub const ENTRY_BYTES_SOFT: usize = 256 * 1024;
/// Arguments of commands in one Raft entry beyond which the next entry is begun.
pub const ENTRY_ARGUMENTS_SOFT: usize = 1536;
/// Most arguments of one item of an entry: those of all commands of a transaction, and the keys that are watched for it.
pub const ITEM_ARGUMENTS_MAX: usize = ARGUMENTS_MAX;
/// Bytes of a large item that are copied into its entry before the event loop does something else.
pub const ENTRY_FILL_BYTES: usize = 256 * 1024;
/// An entry of more bytes, or that reads a value of more, is applied by a thread of its own: copying and compressing them would
/// keep the event loop. With incompressible values it takes 2 ms for 1 MiB.
pub const APPLY_INLINE_BYTES_MAX: usize = 512 * 1024;
/// Bytes that the commands of an entry read and write, beyond which it is applied by a thread: most are shared, few copied.
pub const APPLY_INLINE_TOUCHED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The same for the arguments of its commands.
pub const APPLY_INLINE_ARGUMENTS_MAX: usize = 2560;
/// The same for the time that an event loop takes to evaluate it, in µs; and entries become smaller that take it longer to apply.
pub const APPLY_INLINE_US_MAX: u64 = 700;
/// The same for the records and elements that its commands read and write.
pub const APPLY_INLINE_ROWS_MAX: usize = 2560;
/// Most records and elements that one item of an entry reads and writes. More is refused, and nothing is written.
pub const ITEM_ROWS_MAX: usize = 4 * ITEM_ARGUMENTS_MAX;
/// Most bytes of these records and elements.
pub const ITEM_TOUCHED_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// What all items of one entry read and write, as a multiple of what one may.
pub const ENTRY_TOUCHED_ITEMS: usize = 2;
/// What an item of an entry may read and write in any case, in records and elements, whatever the items before it have done: its
/// client has no part in that.
pub const ITEM_ROWS_SURE: usize = 256;
/// The same in bytes.
pub const ITEM_BYTES_SURE: usize = 64 * 1024;
/// Most bytes that the commands of an entry have written when it takes effect: they are in memory together. More is refused.
pub const ENTRY_WRITTEN_BYTES_MAX: usize = ENTRY_BYTES_MAX + 2 * VALUE_BYTES_MAX;
/// The slowest disk and network that large entries are waited for, in bytes a µs.
pub const DISK_BYTES_PER_US_MIN: u64 = 8;
/// Bytes that the items of one Raft entry are expected to answer beyond which the next entry is begun: what they answer
/// is in memory together.
pub const ENTRY_REPLIES_BYTES_SOFT: usize = 8 * 1024 * 1024;
/// Most arguments of a command that a session answers itself, on its event loop, whose answer grows with each.
pub const SESSION_ARGUMENTS_MAX: usize = 1024;
/// Bytes that the commands of a transaction answer which its session answers itself, beyond which it answers no more of them.
pub const SESSION_REPLIES_BYTES_SOFT: usize = 4 * 1024 * 1024;
/// Most keys of a database that a transaction which writes looks at by KEYS, SCAN or RANDOMKEY: with more it is refused before
/// it is proposed. A thread walks over so many in about a third of a second, and the shard's later entries wait for it.
pub const TRANSACTION_WALK_KEYS_MAX: u64 = 262_144;
/// Most bytes that EXEC, KV.EXEC or any other item of an entry answers.
pub const ITEM_REPLY_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX;
/// Most bytes that the items of one entry answer together. Where values have grown since the entry was proposed, those
/// items that come to more are refused when they are evaluated.
pub const ENTRY_REPLIES_BYTES_MAX: usize = ITEM_REPLY_BYTES_MAX + 2 * ENTRY_REPLIES_BYTES_SOFT;
/// Most commands that one of the logs of COMMANDLOG keeps: the largest `slowlog-max-len`.
pub const COMMAND_LOG_ENTRIES_MAX: usize = 100_000;
/// Most bytes that one of these logs keeps: more would be answered at once. The oldest commands go.
pub const COMMAND_LOG_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of one Raft entry: one request of the largest size fits.
pub const ENTRY_BYTES_MAX: usize = QUERY_BUFFER_BYTES_MAX + 64 * 1024;
/// Bytes of committed entries that may wait behind one that is applied aside; beyond, a follower takes no more.
pub const APPLY_ASIDE_BACKLOG_BYTES_MAX: usize = 2 * ENTRY_BYTES_MAX;
/// Longest time that a request waits for its shard to have a confirmed leader, in µs.
pub const LEADER_WAIT_US_MAX: u64 = 2_000_000;
/// Longest time that a `lag` read waits until its replica is known to be fresh enough, in µs.
pub const FRESHNESS_WAIT_US_MAX: u64 = 1_000_000;
/// Longest time that an accepted write waits while its slot moves to another shard, in µs.
pub const SLOT_MOVE_WAIT_US_MAX: u64 = 5_000_000;
/// Most members of one group, learners among them.
pub const MEMBERS_MAX: usize = 32;
/// Most rounds in which a leader asks whether it still leads that may be under way at once in one group.
pub const READ_ROUNDS_MAX: usize = 64;
/// Bytes of committed entries for which rows are read into memory at once before they are applied.
pub const PREFETCH_BYTES_MAX: usize = 256 * 1024;
/// Bytes of committed entries of a shard that may wait for their rows; beyond, a follower takes no more.
pub const APPLY_BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of log that a group keeps for a member that lacks them; beyond, it is sent a snapshot.
pub const LOG_KEEP_BYTES: u64 = 64 * 1024 * 1024;
/// Most entries that a group keeps for a member that lacks them.
pub const LOG_KEEP_ENTRIES: u64 = 100_000;
/// Bytes of a group's log after which its tree is flushed, however little memory what they wrote takes: else a few keys
/// that are written all the time, or values that compress well, would make a restart long.
pub const LOG_UNFLUSHED_BYTES_SOFT: u64 = 64 * 1024 * 1024;
/// For how many µs slow entries may have been evaluated before the tree is flushed, however little they wrote, for the same reason.
pub const LOG_UNFLUSHED_US_SOFT: u64 = 5_000_000;
/// Most entries of one message between replicas.
pub const MESSAGE_ENTRIES_MAX: usize = 512 * 1024;
/// Longest context of a message between replicas, in bytes.
pub const MESSAGE_CONTEXT_BYTES_MAX: usize = 64;
/// Longest context of an entry, in bytes.
pub const ENTRY_CONTEXT_BYTES_MAX: usize = 4096;
/// Most shards of one node.
pub const SHARDS_MAX: u32 = 16_384;
/// Of the fields of a large hash that have expired and are not collected, so many are known not to count when HLEN is asked.
pub const EXPIRED_FIELDS_COUNTED_MAX: u64 = 1024;
/// A hash with more fields than this spreads over sub-keys.
pub const INLINE_FIELDS_MAX: usize = 128;
/// A hash whose record is longer than this, in bytes, spreads over sub-keys.
pub const INLINE_COLLECTION_BYTES_MAX: usize = 8 * 1024;
/// A stream with more entries than this spreads over rows.
pub const STREAM_INLINE_ENTRIES_MAX: usize = 16;
/// A stream whose entries have more bytes than this spreads over rows.
pub const STREAM_INLINE_BYTES_MAX: usize = 1024;
/// More rows of a stream than this are removed by what their names begin with, not one by one.
pub const STREAM_ROWS_ONE_BY_ONE_MAX: u64 = 512;
/// Entries that trimming with ~ removes at a time where no setting says how many.
pub const STREAM_TRIM_LIMIT: u64 = 10_000;
/// Most entries that it removes at a time, if it is not told.
pub const STREAM_TRIM_LIMIT_MAX: u64 = 1_000_000;
/// Most pending entries that one XPENDING shows.
pub const STREAM_PENDING_SHOWN_MAX: u64 = 65_536;
/// Most entries that one XREADGROUP delivers of a stream.
pub const STREAM_DELIVERED_MAX: u64 = 16_384;
/// Most fields that one HRANDFIELD draws with repetition.
pub const RANDOM_FIELDS_MAX: usize = 1024 * 1024;
/// Sub-keys that one background collection step of an entry of format 1 removes.
pub const COLLECT_STEP_MAX: usize = 1024;
/// Most keys that one blocking command waits for.
pub const BLOCKED_KEYS_MAX: usize = 4096;
/// Most bytes of one blocking command.
pub const BLOCKED_COMMAND_BYTES_MAX: usize = 1024 * 1024;
/// Most bytes that all clients take that wait in blocking commands for keys of one worker's shards: their commands twice, and 256
/// bytes a key.
pub const BLOCKED_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Most clients that wait in blocking commands and are looked at in one turn of a worker.
pub const BLOCKED_CLIENTS_STEP_MAX: usize = 512;
/// For so many keys a client counts as one more, where its command is made anew.
pub const BLOCKED_KEYS_LOOK: usize = 16;
/// A client of more keys joins their queues by and by, before its command is proposed.
pub const BLOCKED_KEYS_AT_ONCE: usize = 256;
/// Most keys whose queues clients join or leave in one turn of a worker: to note one takes about 1.5 µs.
pub const BLOCKED_KEYS_STEP_MAX: usize = 768;
/// Most keys that entries have written and at which clients are looked for, in one turn of a worker.
pub const BLOCKED_READY_KEYS_STEP_MAX: usize = 1024;
/// How long what is pending in a group is not looked at again for clients that wait with CLAIM, in µs. Redis, where nothing else happens, looks as
/// often.
pub const CLAIM_LOOK_PAUSE_US: u64 = 100_000;
/// For each row that was read for such clients, the worker has no other look made for so long, in µs: about ten times of what it takes.
pub const CLAIM_LOOK_ROW_US: u64 = 10;
/// Parts of such a look that a thread makes at a time: each is of one stream, and of up to 128 of its pending entries.
pub const CLAIM_LOOK_PARTS_MAX: usize = 128;
/// Most clients that one such look has tried.
pub const CLAIM_TRIES_MAX: usize = 64;
/// Keys whose time has come that one step of background collection removes.
pub const EXPIRE_STEP_MAX: usize = 256;
/// By when a large collection that is made in slices must be whole, in ms after it was begun.
pub const STAGED_MS: u64 = 30 * 60 * 1000;
/// Most elements of a collection that is copied within a transaction, where it cannot be copied in slices.
pub const COPY_WHOLE_ELEMENTS_MAX: u64 = 4096;
/// Most bytes of elements that a command holds in memory before it writes them.
pub const GATHERED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most elements that are read for the result of a command within a transaction that stores it.
pub const STORE_WHOLE_ELEMENTS_MAX: u64 = 16_384;
/// Most bytes of small sets that one command unites: they are in memory together.
pub const UNITED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Most elements of a collection that SORT_RO puts in order.
pub const SORTED_ELEMENTS_MAX: u64 = 1024 * 1024;
/// Most bytes of them.
pub const SORTED_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Most members of a sorted set that are removed one by one in an entry, where more are left. Of more, those that are left
/// are written anew, in slices.
pub const REMOVED_MEMBERS_MAX: u64 = 262_144;
/// Most members that SPOP, ZPOPMIN and ZPOPMAX remove at a time, and that a search of positions looks at in an entry.
pub const POPPED_MEMBERS_MAX: u64 = 262_144;
/// Bytes of the elements of a large list that lie together, in a row or in the list's record; one longer element lies alone.
pub const LIST_LEAF_BYTES_SOFT: usize = 2 * 1024;
/// Most elements that lie together.
pub const LIST_LEAF_ELEMENTS_MAX: usize = 128;
/// Rows of a large list that one row above them refers to, when it is made at an end of the list.
pub const LIST_BRANCH_CHILDREN: usize = 32;
/// Most rows that it refers to, and that the record of the list refers to of one level and end.
pub const LIST_EDGE_CHILDREN_MAX: usize = 48;
/// Branches that were trimmed off a list whose rows one LTRIM removes.
pub const TRIMMED_BRANCHES_STEP_MAX: usize = 32;
/// Most elements of a list that LTRIM writes anew, where it removes more than it leaves.
pub const REWRITTEN_ELEMENTS_MAX: u64 = 1024;
/// Most elements that LPOP, RPOP and LMPOP remove at a time.
pub const POPPED_ELEMENTS_MAX: u64 = 262_144;
/// Most elements of a list that LREM removes in one entry, where it was searched before; of more, the list is written anew.
pub const EDITED_ELEMENTS_MAX: usize = 1024;
/// Most elements that LINSERT and LREM look at in an entry.
pub const SEARCHED_ELEMENTS_MAX: u64 = 65_536;
/// Elements of a large collection that one slice of a copy writes. A few slices may meet in one entry, which is applied at once.
pub const COPY_SLICE_ELEMENTS_MAX: usize = 256;
/// Bytes of elements after which such an entry takes no more.
pub const COPY_SLICE_BYTES_SOFT: usize = 128 * 1024;
/// From so many bytes on a string is changed in place by the commands of one entry, and written once.
pub const EDIT_IN_PLACE_BYTES_MIN: usize = 16 * 1024;
/// Dropped collections that one step of background collection looks at.
pub const COLLECT_COLLECTIONS_STEP_MAX: usize = 64;
/// Most bytes of keys that `KEYS … STORE` answers.
pub const KEYS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Cursors of SCAN whose keys a node remembers.
pub const SCAN_CURSORS_MAX: usize = 4096;
/// Bytes of keys that it remembers for them.
pub const SCAN_CURSORS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most rows of one KV.RANGE.
pub const RANGE_ROWS_MAX: usize = 10_000;
/// Numbered requests of one client whose answers a shard remembers.
pub const REQUESTS_MAX: usize = 32;
/// For how long it remembers them after the client's last one, in ms.
pub const REQUESTS_KEPT_MS: u64 = 10 * 60 * 1000;
/// Clients whose requests one shard remembers.
pub const REQUEST_CLIENTS_MAX: u64 = 10_000;
/// Longest id of a client that numbers its requests, in bytes.
pub const REQUEST_CLIENT_BYTES_MAX: usize = 64;
/// Longest answer that is remembered, in bytes.
pub const REQUEST_REPLY_BYTES_MAX: usize = 4 * 1024;
/// Bytes of answers that are remembered of one client.
pub const REQUEST_ROW_BYTES_MAX: usize = 16 * 1024;
/// Most shards for which a connection remembers how far it has written.
pub const WAIT_SHARDS_MAX: usize = 128;
/// Most rows of one page that a node asks of another for a command over the whole store.
pub const PART_ROWS_MAX: usize = 1024;
/// Bytes of rows after which such a page ends early.
pub const PART_BYTES_SOFT: usize = 1024 * 1024;
/// Bytes of a collection after which KV.RANGE answers null in its place, in bytes.
pub const RANGE_BYTES_SOFT: usize = 8 * 1024 * 1024;
/// Bytes of rows after which KV.RANGE answers the others from its snapshots as its client takes them, or, where it has none
/// because other nodes are asked, ends with a resume token. It ends after as many bytes of keys in any case.
pub const RANGE_PAGE_BYTES_SOFT: usize = 1024 * 1024;
/// Most nodes of a store.
pub const NODES_MAX: usize = 4096;
/// Most shards of a store, the metadata group among them.
pub const MAP_SHARDS_MAX: usize = 128 * 1024;
/// Most replicas that a store may be told to keep of each shard.
pub const REPLICATION_FACTOR_MAX: u32 = 7;
/// Most replicas of one shard in the map: those that it keeps, and those that come or go.
pub const REPLICAS_MAX: usize = 16;
/// Longest host name or address, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// Longest name of a zone, in bytes.
pub const ZONE_BYTES_MAX: usize = 64;
/// Most plans that a store's map holds: all that have not ended, and the newest of those that have.
pub const PLANS_MAX: usize = 256;
/// Plans that have not ended, at most.
pub const PLANS_OPEN_MAX: usize = 64;
/// Longest text that a plan carries, in bytes.
pub const PLAN_DETAIL_BYTES_MAX: usize = 512;
/// Events that the store remembers: elections, failures, plans and settings.
pub const EVENTS_MAX: u64 = 10_000;
/// Longest text of an event, in bytes.
pub const EVENT_BYTES_MAX: usize = 512;
/// Most shards' snapshots that a node holds for backups at a time.
pub const BACKUP_SNAPSHOTS_MAX: usize = 4096;
/// Largest page of a backup, in bytes, as far as single values are not larger.
pub const BACKUP_PAGE_BYTES_MAX: usize = 8 << 20;
/// Most replicas that a node tells the director of at once: the others have their turn.
pub const REPORT_REPLICAS_MAX: usize = 1000;
/// Most transfers that it tells of at once.
pub const REPORT_TRANSFERS_MAX: usize = 64;
/// Most settings that a store's map holds.
pub const MAP_SETTINGS_MAX: usize = 256;
/// Longest name of a setting in the map, in bytes.
pub const SETTING_NAME_BYTES_MAX: usize = 64;
/// Longest value of a setting in the map, in bytes.
pub const SETTING_VALUE_BYTES_MAX: usize = 1024;
/// Most users that a store has.
pub const MAP_USERS_MAX: usize = 4096;
/// Longest name of a user, in bytes.
pub const USER_NAME_BYTES_MAX: usize = 128;
/// Longest rules of a user, in bytes.
pub const USER_RULES_BYTES_MAX: usize = 16 * 1024;
/// What names and rules of all users take, in bytes.
pub const MAP_USERS_BYTES_MAX: usize = 1024 * 1024;
/// Longest rules of one request that changes a user, in bytes: some of them may take others back.
pub const USER_CHANGE_BYTES_MAX: usize = 4 * USER_RULES_BYTES_MAX;
/// Most passwords of a user.
pub const USER_PASSWORDS_MAX: usize = 16;
/// Most selectors of a user beside its first one.
pub const USER_SELECTORS_MAX: usize = 16;
/// Memory that a password's hash takes to compute, in KiB.
pub const SLOW_HASH_KIB: u32 = 7 * 1024;
/// The most that a hash from elsewhere may take, in KiB.
pub const SLOW_HASH_KIB_MAX: u32 = 64 * 1024;
/// How often that memory is gone through.
pub const SLOW_HASH_PASSES: u32 = 5;
/// How often it may be for a hash from elsewhere.
pub const SLOW_HASH_PASSES_MAX: u32 = 16;
/// Hashes of passwords that a node computes at a time for its clients.
pub const SLOW_HASHES_AT_ONCE: usize = 2;
/// Outcomes of logins that a node remembers, of right passwords and of wrong ones each.
pub const LOGINS_REMEMBERED_MAX: usize = 1024;
/// Longest encoded map, in bytes: the largest that the bounds above allow.
pub const MAP_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What a node remembers of the newest changes of the map, in bytes: a node whose map is older gets it whole.
pub const MAP_HISTORY_BYTES_MAX: usize = 1024 * 1024;
/// Changes of the map that one message between nodes carries, in bytes; one that is larger goes alone.
pub const MAP_CHANGES_BYTES_MAX: usize = 256 * 1024;
/// Most nodes that a node asks for the newest map at a time, and that answer a node without one.
pub const MAP_ASKS_MAX: usize = 4;
/// Most nodes that one node has a link to.
pub const LINKS_MAX: usize = 4096;
/// Most connections to the peer port that have not yet said who they are.
pub const HANDSHAKES_MAX: usize = 256;
/// Most clients of a worker whose TLS handshakes are under way.
pub const TLS_HANDSHAKES_MAX: usize = 1024;
/// Longest note of a node to another in their handshake, in bytes.
pub const HELLO_BYTES_MAX: usize = 4096;
/// Bytes of messages between nodes in one frame beyond which the next frame is begun.
pub const PEER_FRAME_BYTES_SOFT: usize = 1024 * 1024;
/// Bytes of a message between nodes in one frame: a longer one goes in pieces, and urgent messages in between.
pub const PEER_PIECE_BYTES: usize = 256 * 1024;
/// Most bytes of one frame between nodes: the largest message fits.
pub const PEER_FRAME_BYTES_MAX: usize = ENTRY_BYTES_MAX + 2 * PEER_FRAME_BYTES_SOFT;
/// Bytes that may wait for a peer before what clients write and ask is dropped.
pub const PEER_QUEUE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes beyond these that the other messages may take before they are dropped too.
pub const PEER_CONTROL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes that are read from one peer before the others have their turn.
pub const PEER_READ_BYTES_SOFT: usize = 256 * 1024;
/// Bytes that are sent to one peer before the event loop does something else.
pub const PEER_SEND_BYTES_SOFT: u64 = 256 * 1024;
/// Bytes of rows after which a chunk of a snapshot transfer is sent.
pub const SNAPSHOT_CHUNK_BYTES_SOFT: usize = 256 * 1024;
/// Most bytes of such a chunk: the largest row fits.
pub const SNAPSHOT_CHUNK_BYTES_MAX: usize = SNAPSHOT_CHUNK_BYTES_SOFT + STORED_BYTES_MAX + 128 * 1024;
/// Most bytes of what a snapshot transfer begins with: the meta records and Raft's message.
pub const SNAPSHOT_HEAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most bytes of one frame between an agent of the laboratory and its coordinator: a part's figures fit.
pub const BENCH_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most bytes of one frame between the laboratory and an adapter: the longest scan of the largest usual records fits.
pub const ADAPTER_FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of rows that an ingestion collects before it writes them to files.
pub const INGEST_BATCH_BYTES_SOFT: usize = 32 * 1024 * 1024;
/// Snapshots that a node takes in at once.
pub const SNAPSHOTS_INBOUND_MAX: usize = 8;
/// Snapshots that a node sends at once.
pub const SNAPSHOTS_OUTBOUND_MAX: usize = 4;

/// Most connections to a node's HTTP listener at once.
pub const HTTP_CONNECTIONS_MAX: usize = 32;
/// Most connections beyond these that are answered health and readiness alone.
pub const HTTP_PROBES_MAX: usize = 8;
/// Longest head of an HTTP request, in bytes.
pub const HTTP_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most headers of an HTTP request.
pub const HTTP_HEADERS_MAX: usize = 64;
/// Longest body of an HTTP request, in bytes.
pub const HTTP_BODY_BYTES_MAX: usize = 64 * 1024;

const _: () = assert!(KEY_BYTES_MAX + FIELD_BYTES_MAX + 64 < u16::MAX as usize);
const _: () = assert!(VALUE_BYTES_MAX < u32::MAX as usize / 2);
const _: () = assert!(ENTRY_BYTES_SOFT < ENTRY_BYTES_MAX);
const _: () = assert!(ENTRY_FILL_BYTES <= ENTRY_BYTES_SOFT);
const _: () = assert!(ENTRY_BYTES_SOFT < APPLY_INLINE_BYTES_MAX);
const _: () = assert!(APPLY_INLINE_BYTES_MAX < APPLY_INLINE_TOUCHED_BYTES_MAX);
const _: () = assert!(ENTRY_ARGUMENTS_SOFT < APPLY_INLINE_ARGUMENTS_MAX);
const _: () = assert!(APPLY_INLINE_ROWS_MAX < ITEM_ROWS_MAX && APPLY_INLINE_TOUCHED_BYTES_MAX < ITEM_TOUCHED_BYTES_MAX);
const _: () = assert!(TRANSACTION_COMMANDS_MAX + WATCHED_KEYS_MAX < ITEM_ARGUMENTS_MAX);
const _: () = assert!(VALUE_BYTES_MAX < ITEM_REPLY_BYTES_MAX);
const _: () = assert!(ENTRY_REPLIES_BYTES_SOFT < ENTRY_REPLIES_BYTES_MAX - ITEM_REPLY_BYTES_MAX);
const _: () = assert!(BULK_BYTES_MAX <= QUERY_BUFFER_BYTES_MAX);
const _: () = assert!(QUERY_BUFFER_BYTES_MAX <= ENTRY_BYTES_MAX);
const _: () = assert!(WATCHED_BYTES_MAX + WATCHED_KEYS_MAX * 16 < ENTRY_BYTES_MAX);
const _: () = assert!(REQUEST_REPLY_BYTES_MAX < REQUEST_ROW_BYTES_MAX / 2);
const _: () = assert!(INLINE_COLLECTION_BYTES_MAX < VALUE_BYTES_MAX);
const _: () = assert!(REPLICATION_FACTOR_MAX as usize * 2 <= REPLICAS_MAX);
const _: () = assert!(
    MAP_SHARDS_MAX * (32 + 13 * REPLICAS_MAX) + NODES_MAX * 1024 + MAP_SETTINGS_MAX * 2048 + MAP_USERS_BYTES_MAX
        < MAP_BYTES_MAX
);
const _: () = assert!(PEER_FRAME_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(PEER_PIECE_BYTES < PEER_FRAME_BYTES_SOFT);
const _: () = assert!(PEER_FRAME_BYTES_SOFT < PEER_QUEUE_BYTES_MAX);
/// Instructions of Lua that a script may run, unless a setting says otherwise: about what Redis calls busy, five seconds.
pub const SCRIPT_INSTRUCTIONS_MAX: u64 = 400_000_000;
/// Instructions for which a command counts that a script runs.
pub const SCRIPT_CALL_INSTRUCTIONS: u64 = 500;
/// Instructions for which a step of a pattern counts, from the fifth engine on.
pub const SCRIPT_STEP_INSTRUCTIONS: u64 = 2;
/// And a text that is part of what a pattern has found.
pub const SCRIPT_CAPTURE_INSTRUCTIONS: u64 = 25;
/// And a text that is read as a number.
pub const SCRIPT_NUMBER_INSTRUCTIONS: u64 = 20;
/// Bytes that a script builds or copies for the price of one instruction.
pub const SCRIPT_BYTES_PER_INSTRUCTION: u64 = 8;
/// The same by the rules of the fourth engine.
pub const SCRIPT_BYTES_PER_INSTRUCTION_FOURTH: u64 = 16;
/// The same by the rules of engines before the fourth.
pub const SCRIPT_BYTES_PER_INSTRUCTION_BEFORE: u64 = 64;
/// Bytes that the Lua state of a script may hold, unless a setting says otherwise.
pub const SCRIPT_MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Instructions for which a value counts that a function in Rust reads of a table, or puts into one.
pub const SCRIPT_VALUE_INSTRUCTIONS: u64 = 40;
/// And one that a command answers: its table is made of it.
pub const SCRIPT_ANSWER_INSTRUCTIONS: u64 = 150;
/// Bytes of a text that a library makes of a script's tables.
pub const SCRIPT_TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Words of a request whose script an event loop begins itself: each becomes a value of Lua.
pub const SCRIPT_SLICE_ARGUMENTS_MAX: usize = 2048;
/// Bytes of them, those of the script included, which is compiled.
pub const SCRIPT_SLICE_REQUEST_BYTES_MAX: usize = 128 * 1024;
/// Scripts of one transaction: each has a state of Lua of its own, and is evaluated while the shard's later entries wait.
pub const TRANSACTION_SCRIPTS_MAX: usize = 1024;
/// Instructions of Lua that a script may run on an event loop before a thread takes it.
pub const SCRIPT_SLICE_INSTRUCTIONS_MAX: u64 = 100_000;
/// Bytes of a script or a library that an event loop compiles; a thread compiles longer ones.
pub const SCRIPT_SLICE_SOURCE_BYTES_MAX: usize = 64 * 1024;
/// Bytes that the Lua state of an event loop may hold.
pub const SCRIPT_SLICE_MEMORY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// For how many µs a script that only reads has a thread while others wait for one, in each of its turns: after the last it is ended,
/// after the others it begins anew.
pub const SCRIPT_TURNS_US: [u64; 3] = [100_000, 1_000_000, 30_000_000];
/// How many threads of a node scripts may have that are in that turn. One is left to those that have just come.
pub const SCRIPT_THREADS: [usize; 3] = [5, 2, 2];
/// Scripts that a thread keeps compiled.
pub const SCRIPTS_COMPILED_MAX: usize = 512;
/// Bytes of their sources.
pub const SCRIPTS_COMPILED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// So many values a function in Rust may be given by a script, or answer it with. Commands may have more arguments.
pub const SCRIPT_VALUES_HELD_MAX: usize = 6000;
/// Bytes of a script.
pub const SCRIPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Scripts that the store knows because they were run. The oldest are forgotten, as Redis does.
pub const SCRIPTS_RUN_MAX: usize = 500;
/// Scripts that the store knows because clients have loaded them.
pub const SCRIPTS_LOADED_MAX: usize = 10_000;
/// Bytes of all scripts that the store knows.
pub const SCRIPTS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Scripts that a node remembers besides those of the store: their bytes.
pub const SCRIPTS_KNOWN_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Words of work that a byte of the arguments of a script's writes counts for: they are in memory until the script ends.
pub const SCRIPT_WRITTEN_BYTE_COST: usize = 4;
/// Words of work that an instruction of Lua counts for in an entry.
pub const SCRIPT_INSTRUCTION_COST: u64 = 2;

/// Under so many names clients that are configured for Sentinel are told of a change of the master.
pub const SENTINEL_NAMES_MAX: usize = 64;
