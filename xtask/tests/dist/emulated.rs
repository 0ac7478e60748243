//! The program for another processor than this machine's, as qemu runs it, with the libraries of an old system for that processor.

use super::{MADE, SERVES, free_port, in_namespace, is_asked};
use std::path::Path;

/// The program of its package says who it is, serves as in a container, keeps what was written, and stops in order.
const EMULATED: &str = r#"
# No function: the process in the background has to be the program, which signals are for.
basalt=("$EMULATOR" -L "$SYSTEM" "$T/usr/bin/basalt")
dpkg-deb -x "$DEB" "$T"
"${basalt[@]}" --version
start() {
    "${basalt[@]}" container --dir "$T/data" --listen "127.0.0.1:$PORT" --memory 256mb >"$T/log" 2>&1 &
    server=$!
    serves "$server" "$T/log" redis-cli -p "$PORT" PING
}
stop() { kill "$server"; wait "$server" || { cat "$T/log"; exit 1; }; }
start
[ "$(redis-cli -p "$PORT" SET a 1)" = OK ]
stop
start
[ "$(redis-cli -p "$PORT" EVAL 'return redis.call("GET", KEYS[1])' 1 a)" = 1 ]
[ "$("${basalt[@]}" ctl health)" = "the node works" ]
redis-cli -p "$PORT" EVAL "$NUMBERS" 0 >"$T/numbers"
stop
cat "$T/numbers"
"#;

/// Numbers that differ widely at the end if one step rounds in another way.
const NUMBERS: &str = r#"
local x, sum = 0.5, 0
for i = 1, 1000 do
    x = (x * 997.13 + 0.7231) % 1.9
    sum = sum + x / 3
end
return string.format("%.17g", sum)
"#;

/// The same as every processor is to compute it.
fn numbers() -> f64 {
    let (mut x, mut sum) = (0.5_f64, 0.0);
    for _ in 0..1000 {
        let next = x * 997.13 + 0.7231;
        x = next - (next / 1.9).floor() * 1.9;
        sum += x / 3.0;
    }
    sum
}

#[test]
fn a_program_for_another_processor_serves() {
    if !is_asked("emulated") {
        return;
    }
    let (architecture, emulator) = match cfg!(target_arch = "aarch64") {
        true => ("amd64", "qemu-x86_64-static"),
        false => ("arm64", "qemu-aarch64-static"),
    };
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is set"));
    let deb =
        Path::new(&variable(MADE)).join(architecture).join(format!("basalt_{}_{architecture}.deb", super::VERSION));
    let folder = tempfile::tempdir().unwrap();
    let variables = [
        ("SYSTEM", &*variable("BASALT_DIST_EMULATED_ROOT")),
        ("EMULATOR", emulator),
        ("T", folder.path().to_str().unwrap()),
        ("DEB", deb.to_str().unwrap()),
        ("PORT", &free_port()),
        ("NUMBERS", NUMBERS),
    ];
    let said = String::from_utf8(in_namespace(&format!("{SERVES}{EMULATED}"), &variables).stdout).unwrap();
    let computed: f64 = said.trim_end().lines().last().unwrap().parse().unwrap();
    assert_eq!(computed.to_bits(), numbers().to_bits(), "scripts compute something else: {computed}");
}
