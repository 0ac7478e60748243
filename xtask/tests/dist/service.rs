//! The service under systemd itself, as process 1 of a copy of a system: dpkg installs it there and starts it, an operator writes to it,
//! kills it, has it hang, upgrades, removes and purges it.
//!
//! It takes rights that few machines give (namespaces, a group of processes of its own), so the gate does not require it. What the node
//! tells a service manager is tried there without one.

use super::system::{COPY, WORDS, debian, two_debs};
use super::{in_namespace, is_asked};
use std::fs;

/// Boots the copy, with a network of its own. Only what the operator needs is started there; when the operator is done, the copy ends.
const BOOT: &str = r#"
cp "$PACKAGES"/* "$m/"
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
Environment=PORT=7000
ExecStart=/bin/bash -eu /operator
StandardOutput=file:/said
StandardError=inherit
UNIT
umount "$m/dev" "$m/proc"
# Its groups of processes are below one of their own: another copy may run at the same time.
groups=
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    if [ -e "$hierarchy/cgroup.procs" ]; then
        mkdir "$hierarchy/$NAME"
        echo 0 >"$hierarchy/$NAME/cgroup.procs"
        groups="$groups $hierarchy"
    fi
done
systemd-nspawn --quiet --directory="$m" --private-network --register=no --keep-unit --boot --console=read-only --link-journal=no \
    systemd.unit=operator.service >"$T/console" 2>&1 </dev/null || true
for hierarchy in $groups; do
    echo 0 >"$hierarchy/cgroup.procs"
    find "$hierarchy/$NAME" -depth -type d -exec rmdir {} +
done
[ -e "$m/said" ] || { cat "$T/console"; exit 1; }
cat "$m/said"
[ "$(tail -n 1 "$m/said")" = "all was well" ]
"#;

/// What the operator does.
const OPERATOR: &str = r#"
fail() { echo "$*"; systemctl status basalt --no-pager || true; journalctl --no-pager -u basalt | tail -n 50; exit 1; }
of() { systemctl show basalt --value --property "$1"; }
# Waits until the service is active with another process than $1.
replaced() {
    until [ "$(of MainPID)" != "$1" ] && [ "$(of ActiveState)" = active ]; do
        [ "$(of ActiveState)" != failed ] || fail "it is not started again"
        sleep 0.1
    done
}
# Puts lines into the unit's section Service, beside those that it has.
unit_has() {
    mkdir -p /run/systemd/system/basalt.service.d
    printf '[Unit]\nStartLimitIntervalSec=0\n[Service]\n%s\n' "$1" >/run/systemd/system/basalt.service.d/test.conf
    systemctl daemon-reload
}
systemctl --version | head -n 1

# dpkg returns when clients are served: READY follows the replay.
dpkg -i /one.deb
is "the state after the installation" "$(of ActiveState) $(of SubState) $(of StatusText)" "active running serves"
is "whether it is started at boot" "$(systemctl is-enabled basalt)" enabled
is "the answer to SET" "$(ask SET a 1)" +OK
is "who it runs as" "$(stat -c %U "/proc/$(of MainPID)")" basalt
is "its rights, and its filter of system calls" "$(sed -n 's/^CapEff:\t//p;s/^Seccomp:\t//p' "/proc/$(of MainPID)/status" | tr '\n' ' ')" \
    "0000000000000000 2 "
# What a later systemd knows is unknown to this one, which says so and goes on.
is "what is wrong in the unit" "$(systemd-analyze verify --man=no basalt.service 2>&1 | grep basalt | grep -v 'Unknown key\|Unknown lvalue' || true)" ""
exposure=$(systemd-analyze security --no-pager basalt.service | sed -n 's/.*exposure level for basalt.service: \([0-9.]*\).*/\1/p')
echo "exposure: $exposure of 10"
[ "${exposure/./}" -le 20 ] || fail "the unit lets the service do more than it needs: $exposure"

first=$(of MainPID)
systemctl reload basalt
is "the process after a reload" "$(of MainPID)" "$first"
is "the answer to GET after a reload" "$(ask GET a)" 1
is "the answer to the setting of an audit log" "$(ask CONFIG SET audit-log /var/log/basalt/audit.log)" +OK
is "whose logs are" "$(stat -c '%U %a' /var/log/basalt)" "basalt 750"
is "what the audit log has" "$(grep -c 'config|set audit-log' /var/log/basalt/audit.log)" 1

# A service that was killed is started again.
kill -9 "$first"
replaced "$first"
is "how often it was started again" "$(of NRestarts)" 1
is "the answer to GET after kill -9" "$(ask GET a)" 1

# A start that takes longer than one may: the node has asked for more time before it reads its data. It is held up there.
unit_has "TimeoutStartSec=2"
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
done
sleep 4
is "the state of a long start" "$(of ActiveState) $(of MainPID)" "activating $starts"
kill -CONT "$starts"
until state=$(of ActiveState) && [ "$state" = active ]; do
    [ "$state" = activating ] || fail "a long start was given up: it is $state"
    sleep 0.1
done
is "the answer to GET after a long start" "$(ask GET a)" 1

# A node that hangs says nothing to the watchdog.
unit_has "$(printf 'WatchdogSec=2\nTimeoutAbortSec=2')"
systemctl restart basalt
hangs=$(of MainPID)
kill -STOP "$hangs"
replaced "$hangs"
journalctl --no-pager -u basalt | grep -q "Watchdog timeout" || fail "the watchdog has not bitten"
is "the answer to GET after the watchdog" "$(ask GET a)" 1
rm -r /run/systemd/system/basalt.service.d
systemctl daemon-reload

# An upgrade restarts it.
before=$(of MainPID)
dpkg -i /two.deb
[ "$(of MainPID)" != "$before" ] || fail "an upgrade does not restart it"
is "the state after the upgrade" "$(of ActiveState) $(of StatusText)" "active serves"
is "the answer to GET after the upgrade" "$(ask GET a)" 1
is "the answer to SET after the upgrade" "$(ask SET a 2)" +OK

systemctl stop basalt
is "how it ended" "$(of Result) $(of ExecMainStatus)" "success 0"
systemctl start basalt
is "the answer to GET after a stop" "$(ask GET a)" 2

# A removal stops it and keeps its data; a purge leaves nothing.
serves=$(of MainPID)
dpkg -r basalt
[ ! -e "/proc/$serves" ] || fail "a removal leaves it running"
[ -d /var/lib/basalt/data ] || fail "a removal takes the data along"
dpkg -i /two.deb
is "the answer to GET after it was installed again" "$(ask GET a)" 2
dpkg -P basalt
is "what a purge leaves" "$(ls -d /var/lib/basalt /var/log/basalt /etc/basalt /usr/share/doc/basalt /etc/systemd/system/*/basalt.service 2>/dev/null || true)" ""
is "what systemd knows of it" "$(of LoadState)" not-found
echo "all was well"
"#;

#[test]
fn systemd_starts_watches_upgrades_and_removes_it() {
    if !is_asked("systemd") {
        return;
    }
    // The copy is mounted on the first; the packages are in the second.
    let (folder, packages) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (name, package) in two_debs(folder.path()) {
        fs::copy(package, packages.path().join(name)).unwrap();
    }
    let name = folder.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.');
    let variables = [
        ("SYSTEM", &*debian()),
        ("T", folder.path().to_str().unwrap()),
        ("PACKAGES", packages.path().to_str().unwrap()),
        ("OPERATOR", &format!("{WORDS}{OPERATOR}")),
        ("NAME", &format!("basalt-{name}")),
    ];
    in_namespace(&format!("{COPY}{BOOT}"), &variables);
}
