//! Nodes as the Helm chart and `deploy/compose.yaml` start them: known by names alone, and all of them gone at once and back under other
//! addresses. The chart's commands are those of `deploy/helm/rendered`, which `cargo xtask chart` makes.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::{Dir, announce};
use std::path::Path;
use std::process::{Command, Stdio};

/// A rendering of the chart.
struct Rendered(String);

impl Rendered {
    fn read(set: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/rendered").join(format!("{set}.yaml"));
        Self(std::fs::read_to_string(path).unwrap())
    }

    /// The list under that word in the manifest of that kind, a line each.
    fn list(&self, kind: &str, word: &str) -> String {
        let is_it = |manifest: &&str| manifest.lines().any(|line| line == format!("kind: {kind}"));
        let manifest = self.0.split("\n---\n").find(is_it).unwrap();
        let word = format!("{word}:");
        let lines = manifest.lines().map(str::trim).skip_while(|line| *line != word).skip(1);
        let items: Vec<&str> =
            lines.map_while(|line| line.strip_prefix("- ")).map(|item| item.trim_matches('"')).collect();
        assert!(items.len() > 2, "{kind} {word}: {items:?}");
        items.join("\n")
    }
}

/// Tries a command until it succeeds, for a minute at the least.
const WITHIN: &str = r#"
within() {
    tries=0
    until "$@" >"$T/said" 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 1200 ] || { cat "$T/said" "$T"/log-*; exit 1; }
        sleep 0.05
    done
}
"#;

/// Pods as processes. Each finds `IP` for any address of its own, `DATA` for its volume and `TLS` for its secret, of which a
/// container would know nothing: here all share one network and one root. Networks are 127.0.N.
const SCRIPT: &str = r#"
mount --bind "$T/hosts" /etc/hosts
export BASALT_PEER_SECRET=geheim BASALT_REQUIREPASS=geheim BASALT_PASSWORD=geheim REDISCLI_AUTH=geheim
DOMAIN=kv-basalt-headless.ns.svc.cluster.local
# What container $2 runs, in the network $1.
words() { echo "$3" | sed "s/\$(POD_NAME)/kv-basalt-$2/; s/=0\.0\.0\.0:/=127.0.$1.$(($2 + 1)):/; s|//127\.0\.0\.1:|//127.0.$1.$(($2 + 1)):|; s|^127\.0\.0\.1:|127.0.$1.$(($2 + 1)):|; s|=/data/|=$T/data-$2/|; s|/tls/|$T/tls/|; s/^--memory=.*/--memory=256mb/; s/^--shards=.*/--shards=3/"; }
pods() {
    : >"$T/hosts"
    for n in 0 1 2; do echo "127.0.$1.$((n + 1)) kv-basalt-$n.$DOMAIN" >>"$T/hosts"; done
    for n in 0 1 2; do
        mkdir -p "$T/data-$n"
        "$BASALT" $(words "$1" "$n" "$START") >>"$T/log-$n" 2>&1 &
        eval "pod$n=$!"
    done
}
ms() { date +%s%3N; }
writes() { for key in a b c d e f; do [ "$(redis-cli -c $TLS -h "kv-basalt-1.$DOMAIN" -p "$PORT" SET "$key" "$1")" = OK ] || return 1; done; }
read_back() { for key in a b c d e f; do [ "$(redis-cli -c $TLS -h "kv-basalt-2.$DOMAIN" -p "$PORT" GET "$key")" = "$1" ] || return 1; done; }
pods 1
within "$BASALT" $(words 1 0 "$INIT")
within writes before
for network in 2 3; do
    kill -9 "$pod0" "$pod1" "$pod2"
    wait || true
    began=$(ms)
    pods "$network"
    within read_back before
    within writes before
    echo "restart into the network 127.0.$network: all keys are read and written after $(($(ms) - began)) ms"
done
within writes after
read_back after
"$BASALT" $(words 3 1 "$STOP" | tail -n +2)
[ -z "$TLS" ] || ! redis-cli -h "kv-basalt-1.$DOMAIN" -p 7000 PING 2>&1 | grep -q PONG || { echo "a client without TLS is served"; exit 1; }
"#;

/// A secret as cert-manager makes it, for the names that the chart asks for.
const SECRET: &str = r#"
mkdir "$T/tls" && cd "$T/tls"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=authority -keyout ca.key -out ca.crt
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=kv -keyout tls.key -out tls.csr \
    -addext "subjectAltName=DNS:*.kv-basalt-headless.ns.svc.cluster.local,DNS:kv-basalt.ns.svc.cluster.local"
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -copy_extensions copy -out tls.crt
"#;

/// The containers of `deploy/compose.yaml` as processes: `$N1` to `$N3` are their variables.
const COMPOSE: &str = r#"
mount --bind "$T/hosts" /etc/hosts
export REDISCLI_AUTH=geheim
containers() {
    : >"$T/hosts"
    for n in 1 2 3; do echo "127.0.$1.$n basalt-$n" >>"$T/hosts"; done
    for n in 1 2 3; do
        mkdir -p "$T/data-$n"
        variables=$(eval "echo \"\$N$n\"" | sed "s/=0\.0\.0\.0:/=127.0.$1.$n:/")
        env -i $variables BASALT_DIR="$T/data-$n" "$BASALT" container start >>"$T/log-$n" 2>&1 &
        eval "pid$n=$!"
    done
}
writes() { for key in a b c d e f; do [ "$(redis-cli -p 7000 -c -h basalt-1 SET "$key" "$1")" = OK ] || return 1; done; }
reads() { [ "$(redis-cli -p 7000 -c -h basalt-3 GET c)" = "$1" ]; }
containers 4
within writes before
# What the image's HEALTHCHECK asks.
"$BASALT" ctl health
kill "$pid1" "$pid2" "$pid3"
wait "$pid1" "$pid2" "$pid3"
containers 5
within reads before
within writes after
"#;

/// What compose gives each of the three containers, a variable a line.
fn compose_variables() -> [String; 3] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compose.yaml");
    let compose = std::fs::read_to_string(path).unwrap();
    let value = |text: &str| match text.trim().trim_matches('"') {
        variable if variable.starts_with("${BASALT_MEMORY:") => "256mb".to_owned(),
        secret if secret.starts_with("${BASALT_SECRET:") || secret.starts_with("${BASALT_PASSWORD") => {
            "geheim".to_owned()
        }
        plain => plain.to_owned(),
    };
    let variable = |line: &str| {
        let (name, text) = line.trim().split_once(": ").unwrap();
        let text = value(text);
        assert!(name.starts_with("BASALT_") && !text.contains(['$', ' ']), "{line}");
        format!("{name}={text}\n")
    };
    let begin = compose.lines().skip_while(|line| *line != "x-environment: &environment").skip(1);
    let lines = begin.take_while(|line| line.starts_with("  ")).filter(|line| !line.trim().starts_with('#'));
    let shared: String = lines.map(variable).collect();
    let own = compose.lines().filter_map(|line| line.trim().strip_prefix("environment: { <<: *environment, "));
    let own: Vec<String> = own
        .map(|line| line.trim_end_matches(" }").split(", ").map(variable).fold(shared.clone(), |all, one| all + &one))
        .collect();
    own.try_into().unwrap()
}

#[test]
fn what_compose_starts_is_a_store_and_comes_back() {
    let dir = Dir::new("pods-compose");
    std::fs::write(dir.join("hosts"), "").unwrap();
    let folder = dir.join("").display().to_string();
    let [one, two, three] = compose_variables();
    let variables = [
        ("T", folder.trim_end_matches('/')),
        ("BASALT", env!("CARGO_BIN_EXE_basalt")),
        ("N1", &one),
        ("N2", &two),
        ("N3", &three),
    ];
    sh(&[WITHIN, COMPOSE].concat(), &variables, &["unshare", "--mount", "--pid", "--fork", "--kill-child"]);
}

fn sh(script: &str, variables: &[(&str, &str)], words: &[&str]) -> String {
    let mut sh = Command::new(words[0]);
    sh.args(&words[1..]).args(["sh", "-eu", "-c", script]).envs(variables.iter().copied());
    let output = sh.stdin(Stdio::null()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", said(&output.stdout), said(&output.stderr));
    said(&output.stdout)
}

fn restart(set: &str) {
    let (dir, rendered) = (Dir::new(&format!("pods-{set}")), Rendered::read(set));
    std::fs::write(dir.join("hosts"), "").unwrap();
    let folder = dir.join("").display().to_string();
    let folder = folder.trim_end_matches('/');
    let with_tls = format!("--tls --cacert {folder}/tls/ca.crt");
    let (port, tls) = if set == "tls" { ("7443", &*with_tls) } else { ("7000", "") };
    if set == "tls" {
        sh(SECRET, &[("T", folder)], &["env"]);
    }
    let (start, stop) = (rendered.list("StatefulSet", "args"), rendered.list("StatefulSet", "command"));
    let init = rendered.list("Job", "args");
    let variables = [
        ("T", folder),
        ("BASALT", env!("CARGO_BIN_EXE_basalt")),
        ("START", &start),
        ("INIT", &init),
        ("STOP", &stop),
        ("PORT", port),
        ("TLS", tls),
    ];
    let said = sh(&[WITHIN, SCRIPT].concat(), &variables, &["unshare", "--mount", "--pid", "--fork", "--kill-child"]);
    said.lines().filter(|line| line.starts_with("restart ")).for_each(|line| announce(&format!("{set}: {line}")));
}

/// One after the other: they have the same addresses.
#[test]
fn all_pods_come_back_at_once_under_other_addresses_with_tls_and_without() {
    restart("defaults");
    restart("tls");
}
