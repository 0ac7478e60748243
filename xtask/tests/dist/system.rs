//! Operators install, upgrade and remove the packages in a copy of a system, without a service manager.

use super::{FIRST, SERVES, free_port, has, in_namespace, rpm_name, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A copy of the system at `$SYSTEM`, which keeps nothing; `$m` is its root.
pub const COPY: &str = r#"
mount -t tmpfs none "$T"
m=$T/root
mkdir "$T/upper" "$T/work" "$m"
mount -t overlay none -o "lowerdir=$SYSTEM,upperdir=$T/upper,workdir=$T/work" "$m"
mount -t proc none "$m/proc"
mount --bind /dev "$m/dev"
"#;

/// What an operator has at hand in it, which is bash.
pub const WORDS: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
is() { [ "$2" = "$3" ] || fail "$1 is $2, not $3"; }
ask() {
    exec 3<>"/dev/tcp/127.0.0.1/$PORT"
    printf '%s\r\n' "$*" >&3
    read -r line <&3
    case $line in '$'*) read -r line <&3 ;; esac
    exec 3<&-
    printf '%s' "${line%$'\r'}"
}
"#;

/// The package in use.
const USES: &str = r#"
serve() {
    command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/basalt.service)
    variable=$(sed -n 's/^Environment=//p' /usr/lib/systemd/system/basalt.service)
    cd /var/lib/basalt
    env "$variable" setpriv --reuid=basalt --regid=basalt --clear-groups --no-new-privs $command >/server.log 2>&1 &
    server=$!
    serves "$server" /server.log basalt ctl ping --node "127.0.0.1:$PORT"
}
stop() { kill "$server"; wait "$server" || fail "it did not stop in order: $?"; }
installed() {
    is "the data's owner" "$(stat -c '%U:%G %a' /var/lib/basalt)" "basalt:basalt 750"
    is "the settings' owner" "$(stat -c '%U:%G %a' /etc/basalt/basalt.toml)" "root:basalt 640"
    gzip -dc /usr/share/man/man1/basalt.1.gz | grep -q 'BASALT CTL DRAIN' || fail "no manual page"
    basalt config check /etc/basalt/basalt.toml
    echo "listen = \"127.0.0.1:$PORT\"" >>/etc/basalt/basalt.toml
    serve
    is "the answer to SET" "$(ask SET a 1)" +OK
    stop
}
upgraded() {
    grep -q "$PORT" /etc/basalt/basalt.toml || fail "an upgrade has changed the settings"
    serve
    is "what was written before the upgrade" "$(ask GET a)" 1
    stop
}
"#;

/// What an operator of Debian does.
const WITH_DPKG: &str = r#"
dpkg -i /one.deb
installed
dpkg -i /two.deb
upgraded
# Settings that the operator keeps elsewhere are no fault of an upgrade.
mv /etc/basalt/basalt.toml /kept.toml
dpkg -i /two.deb
[ ! -e /etc/basalt/basalt.toml ] || fail "settings that were removed are there again"
mv /kept.toml /etc/basalt/basalt.toml
dpkg -r basalt
[ ! -e /usr/bin/basalt ] && [ -d /var/lib/basalt/data ] && [ -e /etc/basalt/basalt.toml ] || fail "a removal keeps data and settings alone"
dpkg -P basalt
[ ! -e /var/lib/basalt ] && [ ! -e /etc/basalt ] && [ ! -e /usr/share/doc/basalt ] || fail "a purge leaves something"
is "what dpkg knows of it" "$(dpkg -l basalt 2>/dev/null | grep -c '^.i')" 0
"#;

/// An operator with packages, in a copy of a system.
fn operate(system: &str, script: &str, packages: &[(&str, PathBuf)]) {
    let folder = tempfile::tempdir().unwrap();
    // The namespace mounts something else on it.
    let (copies, operator) = (tempfile::tempdir().unwrap(), format!("{WORDS}{SERVES}{USES}{script}"));
    for (name, package) in packages {
        fs::copy(package, copies.path().join(name)).unwrap();
    }
    let whole = format!("{COPY}cp \"$PACKAGES\"/* \"$m/\"\nexec chroot \"$m\" bash -c \"$OPERATOR\"");
    let variables = [
        ("SYSTEM", system),
        ("T", folder.path().to_str().unwrap()),
        ("PACKAGES", copies.path().to_str().unwrap()),
        ("OPERATOR", &operator),
        ("PORT", &free_port()),
    ];
    in_namespace(&whole, &variables);
}

/// The package that was made, and the same files as a later version.
pub fn two_debs(folder: &Path) -> [(&'static str, PathBuf); 2] {
    let two = folder.join("two.deb");
    let later = "dpkg-deb -R \"$0\" t && sed -i 's/^Version: .*/&.1/' t/DEBIAN/control && dpkg-deb -Zgzip -z1 -b t \"$1\" && rm -r t";
    succeed(Command::new("sh").args(["-c", later]).arg(FIRST.deb()).arg(&two).current_dir(folder));
    [("one.deb", FIRST.deb()), ("two.deb", two)]
}

/// The system for Debian's packages.
pub fn debian() -> String {
    std::env::var("BASALT_DIST_ROOT").unwrap_or_else(|_| "/".to_owned())
}

#[test]
fn dpkg_installs_upgrades_removes_and_purges_it() {
    let folder = tempfile::tempdir().unwrap();
    operate(&debian(), WITH_DPKG, &two_debs(folder.path()));
}

/// What an operator of a system with RPM does. This one has no list of its libraries in that form.
const WITH_RPM: &str = r#"
rpm --checksig --nosignature /one.rpm
rpm --install --nodeps /one.rpm
is "what rpm finds changed" "$(rpm --verify --nodeps basalt)" ""
installed
rpm --upgrade --nodeps --replacepkgs /one.rpm
upgraded
rpm --erase --nodeps basalt
[ ! -e /usr/bin/basalt ] && [ -d /var/lib/basalt/data ] || fail "a removal keeps data alone"
is "how many settings it keeps" "$(ls /etc/basalt | wc -l)" 1
"#;

#[test]
fn rpm_installs_upgrades_and_removes_it() {
    if has("rpm") {
        operate("/", WITH_RPM, &[("one.rpm", FIRST.path(&rpm_name()))]);
    }
}
