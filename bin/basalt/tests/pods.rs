//! Nodes as the Helm chart starts them: known by names alone, and all of them gone at once and back under other addresses.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

mod common;

use common::Dir;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const DOMAIN: &str = "kv-headless.ns.svc.cluster.local";

/// The arguments of a pod's container, as the chart has them without TLS. `IP` is the address that it has, which a pod would not
/// need: here all share one network.
fn arguments() -> Vec<String> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/basalt/templates/statefulset.yaml");
    let chart = std::fs::read_to_string(chart).unwrap();
    let peers: Vec<String> = (0..3).map(|n| format!("kv-{n}.{DOMAIN}:17000")).collect();
    let lines = chart.lines().map(str::trim).skip_while(|line| *line != "args:").skip(1);
    let mut depth = 0;
    let mut arguments = Vec::new();
    for line in lines.take_while(|line| *line != "env:") {
        if line.starts_with("{{- if") || line.starts_with("{{- range") {
            depth += 1;
        } else if line.starts_with("{{- end") {
            depth -= 1;
        } else if depth == 0 {
            let argument = line.strip_prefix("- ").unwrap().trim_matches('"');
            let argument = argument
                .replace(r#"{{ include "basalt.domain" . }}"#, DOMAIN)
                .replace(r#"{{ include "basalt.peers" . }}"#, &peers.join(","))
                .replace("{{ .Values.replicationFactor }}", "3")
                .replace("{{ .Values.shards }}", "3")
                .replace("{{ .Values.memory }}", "256mb")
                .replace("$(POD_NAME)", "NAME")
                .replace("=0.0.0.0:", "=IP:")
                .replace("=/data/", "=DATA/");
            assert!(!argument.contains(['{', '$']), "{argument}");
            arguments.push(argument);
        }
    }
    assert!(arguments.len() > 8, "{arguments:?}");
    arguments
}

/// `$1` is the network of the pods: 127.0.N.
const SCRIPT: &str = r#"
mount --bind "$T/hosts" /etc/hosts
export BASALT_PEER_SECRET=geheim
pods() {
    : >"$T/hosts"
    for n in 0 1 2; do echo "127.0.$1.$((n + 1)) kv-$n.$DOMAIN" >>"$T/hosts"; done
    for n in 0 1 2; do
        words=$(echo "$ARGUMENTS" | sed "s/NAME/kv-$n/; s/IP/127.0.$1.$((n + 1))/; s|DATA|$T/data-$n|")
        mkdir -p "$T/data-$n"
        "$BASALT" $words >>"$T/log-$n" 2>&1 &
        eval "pod$n=$!"
    done
}
within() {
    tries=0
    until "$@" >"$T/said" 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { cat "$T/said" "$T"/log-*; exit 1; }
        sleep 0.1
    done
}
writes() { for key in a b c d e f; do [ "$(redis-cli -c -h "kv-1.$DOMAIN" -p 7000 SET "$key" "$1")" = OK ] || return 1; done; }
pods 1
within "$BASALT" ctl init --node "kv-0.$DOMAIN:7000"
within writes before
kill -9 "$pod0" "$pod1" "$pod2"
wait || true
pods 2
read_back() { [ "$(redis-cli -c -h "kv-2.$DOMAIN" -p 7000 GET c)" = before ]; }
within read_back
within writes after
"$BASALT" ctl nodes --node "kv-0.$DOMAIN:7000" >"$T/said"
grep -q "kv-2.$DOMAIN:7000" "$T/said" || { cat "$T/said"; exit 1; }
"$BASALT" ctl drain-leaders --timeout 60s --node "kv-1.$DOMAIN:7000"
"#;

#[test]
fn all_pods_come_back_at_once_under_other_addresses() {
    let dir = Dir::new("pods");
    std::fs::write(dir.join("hosts"), "").unwrap();
    let mut lines = String::new();
    arguments().iter().for_each(|argument| writeln!(lines, "{argument}").unwrap());
    let mut sh = Command::new("unshare");
    sh.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-eu", "-c", SCRIPT]);
    sh.env("T", dir.join("")).env("DOMAIN", DOMAIN).env("ARGUMENTS", lines).env("BASALT", env!("CARGO_BIN_EXE_basalt"));
    let output = sh.stdin(Stdio::null()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", said(&output.stdout), said(&output.stderr));
}
