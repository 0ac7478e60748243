//! The libraries that programs use, fetched from their registries: all at once against a store of three nodes, one of
//! which dies and comes back.

use crate::common::{Connection, Dir, Nodes, announce, free_port, skip};
use parking_lot::RwLockWriteGuard;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long the programs have for all they do before they write.
const BEGUN_WITHIN: Duration = Duration::from_secs(60);
/// How long a node stays away.
const AWAY: Duration = Duration::from_secs(3);

struct Library {
    name: &'static str,
    program: &'static [&'static str],
    /// What the gate does not go without, unless it is told to.
    required: bool,
    /// Whether it reads from followers where CLUSTER SLOTS lists them, or by itself where READONLY is said.
    reads_followers: bool,
}

const fn usual(name: &'static str, program: &'static [&'static str]) -> Library {
    Library { name, program, required: false, reads_followers: true }
}

const LIBRARIES: &[Library] = &[
    Library { required: true, ..usual("redis-py", &["venv/bin/python", "program.py"]) },
    Library { required: true, ..usual("go-redis", &["./program"]) },
    Library { required: true, ..usual("jedis", &["java", "-cp", ".:lib/*", "Program"]) },
    // It knows one role of each node: here nodes lead and follow.
    Library { required: true, reads_followers: false, ..usual("ioredis", &["node", "program.js"]) },
    // It has no reads from replicas.
    Library { reads_followers: false, ..usual("jedis-2.9", &["java", "-cp", ".:lib/*", "Program"]) },
    usual("lettuce", &["java", "-cp", ".:lib/*", "Program"]),
    usual("node-redis", &["node", "program.js"]),
    usual("redis-rs", &["debug/programs", "redis-rs"]),
    // It knows one leader of each follower: here a node follows several.
    Library { reads_followers: false, ..usual("fred", &["debug/programs", "fred"]) },
];

/// Where libraries and built programs stay from one run to the next.
fn cache(library: &Library) -> PathBuf {
    let shared = if library.program[0] == "debug/programs" { "rust" } else { library.name };
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a directory of the target directory")
        .join("clients")
        .join(shared)
}

/// What the script ends with where the language of a library is not installed.
const LANGUAGE_MISSING: i32 = 3;
/// What it ends with where the library cannot be fetched.
const NOT_FETCHED: i32 = 4;

/// What BASALT_REQUIRE calls the language.
fn language(library: &Library) -> &'static str {
    match library.name {
        "redis-py" => "python",
        "go-redis" => "go",
        "ioredis" | "node-redis" => "node",
        "redis-rs" | "fred" => "rust",
        _ => "java",
    }
}

/// Fetches the library and builds its program; false where that cannot be had, and that was said.
fn install(library: &Library) -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/install");
    let output = Command::new("timeout").arg("300").arg(script).arg(library.name).arg(cache(library)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    let offline = std::env::var("BASALT_OFFLINE").is_ok_and(|value| value == "1");
    match output.status.code() {
        Some(0) => return true,
        Some(LANGUAGE_MISSING) => {}
        Some(NOT_FETCHED) if offline || !library.required => {}
        _ => panic!("{} could not be installed (BASALT_OFFLINE=1 goes without):\n{said}", library.name),
    }
    skip(language(library), &format!("{}: {said}", library.name));
    false
}

/// The libraries of `BASALT_LIBRARIES`, or all, as far as they can be had.
fn installed(wanted: impl Fn(&Library) -> bool) -> Vec<&'static Library> {
    let chosen = std::env::var("BASALT_LIBRARIES").unwrap_or_default();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.split(',').any(|one| one == name);
    let libraries = LIBRARIES.iter().filter(|library| is_chosen(library.name) && wanted(library));
    std::thread::scope(|scope| {
        let begun: Vec<_> = libraries.map(|library| (library, scope.spawn(|| install(library)))).collect();
        begun.into_iter().filter_map(|(library, there)| there.join().unwrap().then_some(library)).collect()
    })
}

/// Times are measured, and building takes the whole machine.
fn alone() -> RwLockWriteGuard<'static, ()> {
    crate::MACHINE.write()
}

/// A library's program under way. What it prints goes to the test, line by line.
struct Program {
    of: &'static Library,
    child: Child,
    lines: Receiver<String>,
    messages: PathBuf,
}

impl Program {
    /// It knows the first node.
    fn start(library: &'static Library, dir: &Dir, nodes: &Nodes, what: &str) -> Self {
        let messages = dir.join(library.name);
        let mut command = Command::new("timeout");
        command.arg("120").args(library.program).arg(nodes.port(0).to_string()).arg(what);
        command.current_dir(cache(library)).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(File::create(&messages).unwrap()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { of: library, child, lines, messages }
    }

    /// Waits until it writes.
    fn wait_writing(&self) -> Result<(), String> {
        match self.lines.recv_timeout(BEGUN_WITHIN) {
            Ok(line) if line == "WRITING" => Ok(()),
            said => Err(format!("{}: {said:?} instead of writing\n{}", self.of.name, self.messages())),
        }
    }

    /// Waits for its end: what it has to say against the store.
    fn wait(mut self) -> Result<(), String> {
        let mut last = String::new();
        for line in &self.lines {
            last = line;
            if last != "OK" && last != "WRITING" {
                announce(&format!("{}: {last}", self.of.name));
            }
        }
        let status = self.child.wait().unwrap();
        let well = status.success() && last == "OK";
        if well { Ok(()) } else { Err(format!("{}: {status}\n{}", self.of.name, self.messages())) }
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(&self.messages).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn none_failed(results: impl IntoIterator<Item = Result<(), String>>) {
    let failed: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn programs_go_on_when_a_node_dies_and_when_leaders_hand_over() {
    let _alone = alone();
    let libraries = installed(|_| true);
    let dir = Dir::new("libraries");
    let mut nodes = Nodes::start(&dir, 3, &[("--shards", "12"), ("--durability", "nosync")]);
    nodes.wait_spread();
    let end = dir.join("end");
    let start = |library| Program::start(library, &dir, &nodes, &end.to_string_lossy());
    let programs: Vec<Program> = libraries.into_iter().map(start).collect();
    none_failed(programs.iter().map(Program::wait_writing));
    // The one that the programs were told of: they must have learnt of the others.
    nodes.kill(0);
    std::thread::sleep(AWAY);
    nodes.spawn(0);
    nodes.wait_whole();
    // The others hand its shards over to it while everybody writes.
    nodes.wait_spread();
    // Another is restarted as an operator does it: it hands over first.
    assert!(nodes.ctl(&["drain-leaders", &nodes.address(1)]).is_some(), "ctl drain-leaders");
    nodes.kill(1);
    nodes.spawn(1);
    nodes.wait_whole();
    File::create(end).unwrap();
    none_failed(programs.into_iter().map(Program::wait));
}

/// How often a node has answered GET.
fn gets(connection: &mut Connection) -> u64 {
    let text = connection.call("INFO commandstats").text();
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn programs_read_from_followers_where_cluster_slots_lists_them() {
    let _alone = alone();
    let libraries = installed(|library| library.reads_followers);
    let dir = Dir::new("libraries-followers");
    let followers = ("--set", "cluster-slots-followers=yes");
    let nodes = Nodes::start(&dir, 3, &[("--shards", "12"), ("--durability", "nosync"), followers]);
    nodes.wait_spread();
    let follow = |library: &'static Library| {
        // All keys that the program reads are in this slot.
        let leader = nodes.leader(0, &format!("{{{}}}", library.name));
        let followers: Vec<usize> = (0..nodes.count()).filter(|n| *n != leader).collect();
        let count = || followers.iter().map(|n| gets(&mut nodes.connect(*n))).sum::<u64>();
        let before = count();
        Program::start(library, &dir, &nodes, "FOLLOWERS").wait()?;
        let answered = count() - before;
        if answered > 0 { Ok(()) } else { Err(format!("{}: no follower was asked", library.name)) }
    };
    none_failed(libraries.into_iter().map(follow));
}

/// The programs of `examples`, by the library of this file that each uses; `BASALT_EXAMPLE` stands for its folder.
const EXAMPLES: &[(&str, &str)] = &[
    ("redis-py", "venv/bin/python $BASALT_EXAMPLE/python/visits.py $0"),
    ("ioredis", "NODE_PATH=node_modules node $BASALT_EXAMPLE/javascript/visits.js $0"),
    (
        "go-redis",
        "mkdir -p visits && cp $BASALT_EXAMPLE/go/visits.go visits && go build -o visits/visits visits/visits.go && visits/visits $0",
    ),
    ("redis-rs", "debug/visits $0"),
    ("jedis", "javac -cp 'lib/*' -d visits $BASALT_EXAMPLE/java/Visits.java && java -cp 'visits:lib/*' Visits $0"),
];

/// A library of the system, as Debian has it.
struct System {
    package: &'static str,
    /// What BASALT_REQUIRE calls it.
    need: &'static str,
    is_there: &'static str,
    run: &'static str,
    /// It knows no clusters, and counts in a database.
    of_database: bool,
}

const SYSTEM: &[System] = &[
    System {
        package: "ruby-redis",
        need: "ruby",
        is_there: "ruby -e 'require \"redis\"'",
        run: "ruby $BASALT_EXAMPLE/ruby/visits.rb $0",
        of_database: false,
    },
    System {
        package: "php-redis",
        need: "php",
        is_there: "php -r 'exit(class_exists(\"RedisCluster\") ? 0 : 1);'",
        run: "php $BASALT_EXAMPLE/php/visits.php $0",
        of_database: false,
    },
    System {
        package: "libhiredis-dev",
        need: "hiredis",
        is_there: "test -e /usr/include/hiredis/hiredis.h",
        run: "cc -Wall -Werror $BASALT_EXAMPLE/c/visits.c -lhiredis -o visits && ./visits $0",
        of_database: true,
    },
];

fn succeeds(script: &str) -> bool {
    Command::new("sh").args(["-c", script]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The counter of visits is one more for each: they do the same.
#[test]
fn examples_do_what_they_say() {
    let _alone = alone();
    let libraries = installed(|library| EXAMPLES.iter().any(|(name, _)| *name == library.name));
    let dir = Dir::new("examples");
    let databases: Vec<String> = (0..3).map(|_| free_port().to_string()).collect();
    let listen = |port: &String| vec![("--database-listen".to_owned(), format!("127.0.0.1:{port}"))];
    let own: Vec<_> = databases.iter().map(listen).collect();
    let nodes = Nodes::start_with(&dir, 3, &[("--shards", "6")], &own);
    nodes.wait_spread();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let port = nodes.port(0).to_string();
    let run = |folder: &Path, script: &str, port: &str| {
        let mut command = Command::new("timeout");
        command.args(["60", "sh", "-c", script, port]).env("BASALT_EXAMPLE", &examples).current_dir(folder);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { said } else { said + &String::from_utf8_lossy(&output.stderr) }
    };
    let (mut visits, said) = (1.., |visit: u64| format!("visit {visit} of Ada\n"));
    assert_eq!(run(&examples, "shell/visits.sh $0", &port), said(visits.next().unwrap()));
    for library in libraries {
        let script = EXAMPLES.iter().find(|(name, _)| *name == library.name).unwrap().1;
        assert_eq!(run(&cache(library), script, &port), said(visits.next().unwrap()), "{}", library.name);
    }
    for system in SYSTEM {
        if !succeeds(system.is_there) {
            skip(system.need, &format!("{} is not installed", system.package));
            continue;
        }
        let (port, visit) = if system.of_database { (&databases[0], 1) } else { (&port, visits.next().unwrap()) };
        assert_eq!(run(&dir.join(""), system.run, port), said(visit), "{}", system.package);
    }
}
