//! The command table: lookup, errors, keys, and what clients read from COMMAND.
#![allow(clippy::unwrap_used)]

use resp::table::{self, CommandSpec, MalformedKeys, flag};
use resp::{Proto, Reply};

/// The words between spaces; `''` is an empty one.
fn words(line: &str) -> Vec<&[u8]> {
    line.split_ascii_whitespace().map(|word| if word == "''" { b"" } else { word.as_bytes() }).collect()
}

fn spec(name: &str) -> &'static CommandSpec {
    table::lookup_full(name.as_bytes()).unwrap()
}

/// The answer to a request for COMMAND, with a blank for every line end.
fn command(request: &str, proto: Proto) -> String {
    let args = words(request);
    let mut reply = Reply::new(proto);
    table::resolve(&args).unwrap();
    table::command(&args, &mut reply);
    String::from_utf8(reply.buf).unwrap().replace("\r\n", " ")
}

#[test]
fn every_row_is_found_under_its_name() {
    for (i, spec) in table::all().iter().enumerate() {
        assert_eq!(spec.id.index(), i);
        for name in [spec.name.to_owned(), spec.shown_name()] {
            assert_eq!(table::lookup_full(name.as_bytes()).map(|found| found.id), Some(spec.id), "{name}");
        }
        assert!(spec.summary.ends_with('.'), "{}", spec.name);
        assert!(!(spec.has(flag::WRITE) && spec.has(flag::READONLY)), "{}", spec.name);
    }
    for unknown in ["", "GE", "GETT", "GET\0", "CLIENT|NOPE", "GET|X", "AVERYLONGNAMETHATNOCOMMANDHAS"] {
        assert!(table::lookup_full(unknown.as_bytes()).is_none(), "{unknown:?}");
    }
    assert_eq!(table::subcommands(spec("client")).len(), 18);
    assert_eq!(table::COMMAND_COUNT, table::all().len());
}

#[test]
fn errors_are_worded_as_in_redis() {
    let long = "x".repeat(100);
    let cases = [
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("client", "ERR wrong number of arguments for 'client' command"),
        ("CONFIG GET", "ERR wrong number of arguments for 'config|get' command"),
        ("Foo a b", "ERR unknown command 'Foo', with args beginning with: 'a' 'b' "),
        ("foo", "ERR unknown command 'foo', with args beginning with: "),
        ("client nope x", "ERR unknown subcommand 'nope'. Try CLIENT HELP."),
        ("foo \0bar", "ERR unknown command 'foo', with args beginning with: '' "),
    ];
    for (request, error) in cases {
        assert_eq!(table::resolve(&words(request)).map(|spec| spec.name), Err(error.to_owned()), "{request}");
    }
    let error = table::resolve(&words(&format!("f {long} {long} {long}"))).map(|spec| spec.name).unwrap_err();
    assert!(error.ends_with(&format!("'{long}' '{}' ", &long[..25])), "{error}");
    for (request, name) in [("get k", "GET"), ("Client\nid", "CLIENT|ID"), ("command", "COMMAND"), ("quit now", "QUIT")]
    {
        assert_eq!(table::resolve(&words(request)).unwrap().name, name);
    }
}

#[test]
fn keys() {
    let cases: &[(&str, &[usize])] = &[
        ("GET k", &[1]),
        ("DEL a b c", &[1, 2, 3]),
        ("MSET a 1 b 2", &[1, 3]),
        ("MSET a 1 b", &[1, 3]),
        ("COPY a b REPLACE", &[1, 2]),
        ("LCS a b IDX", &[1, 2]),
        ("OBJECT ENCODING k", &[2]),
        ("PING x", &[]),
        ("KV.RANGE a z", &[]),
        ("KV.PUT k v TTL 5", &[1]),
        ("MIGRATE h 1 k 0 5 COPY", &[3]),
        ("MIGRATE h 1 '' 0 5 AUTH keys KEYS a b", &[9, 10]),
        ("MIGRATE h 1 '' 0 5 AUTH2 u keys REPLACE KEYS keys", &[11]),
        // Without the word it is about the key without a name.
        ("MIGRATE h 1 '' 0 5 COPY", &[3]),
        ("MIGRATE h 1 '' 0 5 AUTH2 keys", &[3]),
        ("XREAD COUNT 1 BLOCK 0 STREAMS a b 0 0", &[6, 7]),
        ("XREAD STREAMS STREAMS 0", &[2]),
        ("XREAD COUNT STREAMS STREAMS a 0", &[4]),
        ("XREAD STREAMS a b 0", &[]),
        ("XREAD COUNT 1 BLOCK STREAMS", &[]),
        ("XREADGROUP GROUP g c STREAMS a >", &[5]),
        ("XREADGROUP GROUP g c CLAIM 5 STREAMS a >", &[7]),
        // A group or a consumer may have the name of an option.
        ("XREADGROUP NOACK GROUP g STREAMS STREAMS a >", &[6]),
        ("XREADGROUP NOACK GROUP COUNT STREAMS streams a >", &[6]),
        ("XREADGROUP GROUP g c GROUP g STREAMS STREAMS a >", &[8]),
        ("XREADGROUP COUNT 1 GROUP STREAMS c STREAMS a b > >", &[7, 8]),
        ("KV.EXEC 1 2 GET k", &[4]),
        ("KV.EXEC 1 2 GET k request c 1", &[4]),
        ("KV.EXEC 1 2 GET k DURABILITY sync all REQUEST c 1", &[4]),
        ("KV.EXEC 1 2 GET k durability sync", &[4]),
        ("KV.EXEC 3 2 GET a 3 PUT b v 3 CHECK c 0", &[4, 7, 11]),
    ];
    for (request, expected) in cases {
        let args = words(request);
        let spec = table::resolve(&args).unwrap();
        let keys = spec.keys(&args).unwrap();
        assert_eq!(keys.len(), expected.len(), "{request}");
        assert_eq!(keys.collect::<Vec<_>>(), *expected, "{request}");
        let with_flags: Vec<_> = spec.keys_and_flags(&args).unwrap().into_iter().map(|(at, _)| at).collect();
        assert_eq!(with_flags, *expected, "{request}");
    }
    for malformed in [
        "KV.EXEC 0 2 GET k",
        "KV.EXEC -1 2 GET k",
        "KV.EXEC x 2 GET k",
        "KV.EXEC 1 1 GET k",
        "KV.EXEC 1 3 GET k",
        "KV.EXEC 1 2 GET k extra",
        "KV.EXEC 1 2 GET k REQUEST c",
        "KV.EXEC 1 2 GET k TICKET c 1",
        "KV.EXEC 1 2 GET k DURABILITY",
        "KV.EXEC 1 2 GET k DURABILITY a b c",
        "KV.EXEC 1 2 GET k REQUEST c 1 2",
        "KV.EXEC 2 2 GET k",
        "KV.EXEC 1 9223372036854775807 GET k",
    ] {
        let args = words(malformed);
        assert_eq!(table::resolve(&args).unwrap().keys(&args).unwrap_err(), MalformedKeys, "{malformed}");
        assert_eq!(table::exec_ops(&args).filter(Result::is_err).count(), 1, "{malformed}");
    }
}

#[test]
fn command_answers_as_redis_7_0_15_does() {
    for (request, answer) in [
        (
            "COMMAND INFO get nosuch",
            "*2 *10 $3 get :2 *2 +readonly +fast :1 :1 :1 *3 +@read +@string +@fast *0 *1 *6 $5 flags *2 +RO +access \
             $12 begin_search *4 $4 type $5 index $4 spec *2 $5 index :1 $9 find_keys *4 $4 type $5 range $4 spec \
             *6 $7 lastkey :0 $7 keystep :1 $5 limit :0 *0 $-1 ",
        ),
        (
            "command info DBSIZE",
            "*1 *10 $6 dbsize :-1 *2 +readonly +fast :0 :0 :0 *3 +@keyspace +@read +@fast \
             *2 $25 request_policy:all_shards $23 response_policy:agg_sum *0 *0 ",
        ),
        ("COMMAND GETKEYS MSET a b c d", "*2 $1 a $1 c "),
        ("COMMAND GETKEYSANDFLAGS COPY a b", "*2 *2 $1 a *2 +RO +access *2 $1 b *2 +OW +update "),
        // What belongs to an option is no option.
        ("COMMAND GETKEYS SORT src STORE victim BY store asc", "*2 $3 src $6 victim "),
        ("COMMAND GETKEYS SORT k LIMIT 0 store GET store DESC", "*1 $1 k "),
        ("COMMAND GETKEYS SORT k STORE a STORE b", "*2 $1 k $1 b "),
        ("COMMAND GETKEYS GEORADIUS k 1 2 3 km STORE store COUNT 1", "*2 $1 k $5 store "),
        ("COMMAND GETKEYS PING x", "-ERR The command has no key arguments "),
        ("COMMAND GETKEYS SPUBLISH channel x", "-ERR The command has no key arguments "),
        ("COMMAND GETKEYS nosuch x", "-ERR Invalid command specified "),
        ("COMMAND GETKEYS GET x y", "-ERR Invalid number of arguments specified for command "),
        ("COMMAND GETKEYS KV.EXEC 1 5 GET k", "-ERR Invalid arguments specified for command "),
        ("COMMAND LIST FILTERBY PATTERN hincr*", "*2 $7 hincrby $12 hincrbyfloat "),
        ("COMMAND LIST FILTERBY ACLCAT nosuch", "*0 "),
        ("COMMAND LIST FILTERBY MODULE json", "*0 "),
        ("COMMAND LIST FILTERBY nosuch x", "-ERR syntax error "),
        ("COMMAND DOCS nosuch", "*0 "),
    ] {
        assert_eq!(command(request, Proto::Resp2), answer, "{request}");
    }
    let docs = "%1 $6 getset %8 $7 summary $54 Sets a key to a value and returns what it held before. $5 since \
        $5 1.0.0 $5 group $6 string $10 complexity $4 O(1) $9 doc_flags ~1 +deprecated $16 deprecated_since \
        $5 6.2.0 $11 replaced_by $30 `SET` with the `!GET` argument $9 arguments *2 %3 $4 name $3 key $4 type \
        $3 key $14 key_spec_index :0 %2 $4 name $5 value $4 type $6 string ";
    assert_eq!(command("COMMAND DOCS getset", Proto::Resp3), docs);
    let help = command("COMMAND HELP", Proto::Resp2);
    assert!(help.starts_with("*17 +COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are: +(no"), "{help}");
    let count = table::top_level().count();
    assert_eq!(command("COMMAND COUNT", Proto::Resp2), format!(":{count} "));
    assert!(command("COMMAND", Proto::Resp3).starts_with(&format!("*{count} *10 ")));
    assert!(command("COMMAND DOCS", Proto::Resp3).starts_with(&format!("%{count} ")));
    assert!(command("COMMAND LIST", Proto::Resp2).starts_with(&format!("*{} ", table::COMMAND_COUNT)));
}

#[test]
fn the_documentation_page_has_every_command() {
    let page = table::docs_markdown();
    assert!(page.contains("### `GETRANGE key start end`\n"), "{page}");
    for spec in table::all().iter().filter(|spec| !spec.is_container()) {
        assert!(page.contains(&format!("### `{}", spec.typed_name())), "{}", spec.name);
    }
}

/// What COMMAND INFO of Redis 7.0.15 says of each command: its name and its categories.
const CATEGORIES: &str = include_str!("redis-7.0.15-categories.txt");

#[test]
fn commands_are_in_the_categories_of_redis() {
    let (mut compared, mut differing) = (0, Vec::new());
    for line in CATEGORIES.lines() {
        let (name, expected) = line.split_once(' ').unwrap();
        let Some(spec) = table::lookup_full(name.as_bytes()) else { continue };
        let of_row = table::acl::NAMES.iter().filter(|(bit, _)| spec.acl & bit != 0);
        let mut found: Vec<&str> = of_row.map(|(_, name)| *name).filter(|name| !name.starts_with("role-")).collect();
        found.sort_unstable();
        if found.join(" ") != expected {
            differing.push(format!("{name}: {} instead of {expected}", found.join(" ")));
        }
        compared += 1;
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(compared > 250, "only {compared} commands were compared");
}
