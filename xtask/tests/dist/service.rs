//! The service under systemd itself: it boots a copy of this system in namespaces, and does what an operator asks of it there.

use super::{COPY, FIRST, free_port, has, in_namespace};
use std::path::Path;

/// Boots the copy. Only what this test needs is started there.
const BOOT: &str = r#"
cp "$DEB" "$m/one.deb"
chroot "$m" dpkg -i --force-depends /one.deb
printf 'listen = "127.0.0.1:%s"\nmemory = "256mb"\n' "$PORT" >"$m/etc/basalt/basalt.toml"
printf '%s' "$OPERATOR" >"$m/operator"
cat >"$m/etc/systemd/system/operator.service" <<UNIT
[Unit]
Requires=dbus.service
After=dbus.service
FailureAction=exit-force
SuccessAction=exit-force
[Service]
Type=oneshot
TimeoutStartSec=infinity
Environment=PORT=$PORT
ExecStart=/bin/bash -eu /operator
StandardOutput=file:/said
StandardError=inherit
UNIT
umount "$m/dev" "$m/proc"
# Its groups are below one of their own: another run may have a copy boot at the same time.
groups=
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    if [ -e "$hierarchy/cgroup.procs" ]; then
        mkdir "$hierarchy/basalt-$PORT"
        echo 0 >"$hierarchy/basalt-$PORT/cgroup.procs"
        groups="$groups $hierarchy"
    fi
done
systemd-nspawn --quiet --directory="$m" --register=no --keep-unit --boot --console=read-only --link-journal=no \
    systemd.unit=operator.service >"$T/console" 2>&1 </dev/null || true
for hierarchy in $groups; do
    echo 0 >"$hierarchy/cgroup.procs"
    find "$hierarchy/basalt-$PORT" -depth -type d -exec rmdir {} +
done
cat "$m/said" || cat "$T/console"
[ "$(tail -n 1 "$m/said")" = "all was well" ]
"#;

/// What an operator does.
const OPERATOR: &str = r#"
fail() { echo "$*"; systemctl status basalt --no-pager || true; journalctl --no-pager -u basalt | tail -n 50; exit 1; }
is() { [ "$2" = "$3" ] || fail "$1 is $2, not $3"; }
of() { systemctl show basalt --value --property "$1"; }
ask() {
    exec 3<>"/dev/tcp/127.0.0.1/$PORT"
    printf '%s\r\n' "$*" >&3
    read -r line <&3
    case $line in '$'*) read -r line <&3 ;; esac
    exec 3<&-
    printf '%s' "${line%$'\r'}"
}
# The service has another process that serves than $1.
replaced() {
    until [ "$(of MainPID)" != "$1" ] && [ "$(of ActiveState)" = active ]; do
        [ "$(of ActiveState)" != failed ] || fail "it is not started again"
        sleep 0.1
    done
}
drop_in() { mkdir -p /run/systemd/system/basalt.service.d; printf '[Unit]\nStartLimitIntervalSec=0\n[Service]\n%s\n' "$1" >/run/systemd/system/basalt.service.d/test.conf; systemctl daemon-reload; }

said=$(systemd-analyze verify --man=no basalt.service 2>&1) || fail "the unit: $said"
is "what is wrong in the unit" "$(echo "$said" | grep basalt || true)" ""
echo "exposure: $(systemd-analyze security --no-pager basalt.service | tail -n 1)"
systemd-analyze security --no-pager --threshold=20 basalt.service >/dev/null || fail "the unit lets the service do more than it needs"

# A start returns when clients are served: no client is refused after it.
systemctl start basalt
is "the state" "$(of ActiveState) $(of SubState) $(of StatusText)" "active running serves"
is "the answer to SET" "$(ask SET a 1)" +OK
is "who it runs as" "$(stat -c %U "/proc/$(of MainPID)")" basalt
is "its rights" "$(sed -n 's/^CapEff:\t//p;s/^Seccomp:\t//p' "/proc/$(of MainPID)/status" | tr '\n' ' ')" "0000000000000000 2 "

first=$(of MainPID)
systemctl reload basalt
is "the process after a reload" "$(of MainPID)" "$first"
is "the answer to GET after a reload" "$(ask GET a)" 1

# A service that was killed is started again.
kill -9 "$first"
replaced "$first"
is "how often it was started again" "$(of NRestarts)" 1
is "the answer to GET after kill -9" "$(ask GET a)" 1

# A start that takes longer than one may: the node has asked for more time before it reads its data. It is held up there.
drop_in "TimeoutStartSec=2"
tries=0
while :; do
    systemctl stop basalt
    systemctl start --no-block basalt
    until ls -l "/proc/$(of MainPID)/fd" 2>/dev/null | grep -q /var/lib/basalt/data; do
        [ "$(of ActiveState)" != failed ] || fail "it does not start"
    done
    starts=$(of MainPID)
    kill -STOP "$starts"
    [ "$(of ActiveState)" != activating ] || break
    kill -CONT "$starts"
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || fail "it starts too quickly to be held up"
done
sleep 4
is "the state of a long start" "$(of ActiveState) $(of MainPID)" "activating $starts"
kill -CONT "$starts"
until [ "$(of ActiveState)" = active ]; do
    [ "$(of ActiveState)" = activating ] || fail "a long start was given up"
    sleep 0.1
done
is "the answer to GET after a long start" "$(ask GET a)" 1

# A node that hangs says nothing to the watchdog.
drop_in "$(printf 'WatchdogSec=2\nTimeoutAbortSec=2')"
systemctl restart basalt
hangs=$(of MainPID)
kill -STOP "$hangs"
replaced "$hangs"
journalctl --no-pager -u basalt | grep -q "Watchdog timeout" || fail "the watchdog has not bitten"
is "the answer to GET after the watchdog" "$(ask GET a)" 1

systemctl stop basalt
is "how it ended" "$(of Result) $(of ExecMainStatus)" "success 0"
echo "all was well"
"#;

#[test]
fn systemd_starts_watches_and_stops_the_service() {
    if !has("systemd-nspawn") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (deb, port) = (FIRST.deb(), free_port());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let variables =
        [("SYSTEM", "/"), ("T", &text(folder.path())), ("DEB", &text(&deb)), ("PORT", &port), ("OPERATOR", OPERATOR)];
    in_namespace(&format!("{COPY}{BOOT}"), &variables);
}
