//! The packages, as people use them: dpkg and rpm install, upgrade, remove and purge them in a copy of this system that goes away; runc runs
//! the image with a root that cannot be written, as its own user.
//!
//! `BASALT_DIST_PROGRAM` names another program to pack than the one that is built for tests, and `BASALT_DIST_ROOT` another system
//! for dpkg: a folder that debootstrap has made.
#![allow(clippy::unwrap_used, reason = "a test may fail by unwrapping")]

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// Packages, made of a program that is built for tests.
struct Made {
    folder: tempfile::TempDir,
}

const VERSION: &str = "0.1.0";

static FIRST: LazyLock<Made> = LazyLock::new(Made::new);

impl Made {
    fn new() -> Self {
        let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
        let folder = tempfile::tempdir().unwrap();
        let other = std::env::var_os("BASALT_DIST_PROGRAM").map(PathBuf::from);
        let program = other.unwrap_or_else(|| xtask.with_file_name("basalt"));
        if !program.exists() {
            // The gate has built it with all other programs.
            succeed(Command::new(env!("CARGO")).args(["build", "--package", "basalt", "--locked", "--quiet"]));
        }
        let mut dist = Command::new(xtask);
        dist.arg("dist").arg("--program").arg(&program).arg("--out").arg(folder.path());
        succeed(dist.args(["--version", VERSION, "--compression", "1"]));
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn deb(&self) -> PathBuf {
        self.path(&format!("basalt_{VERSION}_{}.deb", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}", said(&output.stdout), said(&output.stderr));
    output
}

/// Runs a script in mounts of its own, which end with it.
fn in_namespace(script: &str, variables: &[(&str, &str)]) {
    let mut sh = Command::new("unshare");
    sh.args(["--mount", "--pid", "--mount-proc", "--fork", "--kill-child", "bash", "-eu", "-c", script]);
    succeed(sh.envs(variables.iter().copied()));
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn sha256(bytes: &[u8]) -> String {
    hmac_sha256::Hash::hash(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut unpacked).unwrap();
    unpacked
}

#[test]
fn sums_are_right_and_the_list_of_libraries_is_whole() {
    let made = &*FIRST;
    succeed(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(made.folder.path()));
    let list = made.json("basalt.cdx.json");
    assert_eq!(list["metadata"]["component"]["hashes"][0]["content"], sha256(&fs::read(made.path("basalt")).unwrap()));
    let components = list["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|component| component["name"] == name);
    assert!(named("rustls").is_some_and(|rustls| rustls["hashes"][0]["content"].is_string()));
    assert!(
        named("shuttle").is_none() && named("windows-sys").is_none(),
        "neither what tests need nor what other systems need"
    );
    let references: Vec<&Value> = components.iter().map(|component| &component["bom-ref"]).collect();
    for dependency in list["dependencies"].as_array().unwrap() {
        for needed in dependency["dependsOn"].as_array().unwrap() {
            assert!(references.contains(&needed), "{needed} is needed and not listed");
        }
    }
}

#[test]
fn a_debian_package_holds_what_it_should() {
    let deb = FIRST.deb();
    let field = |name: &str| {
        let output = succeed(Command::new("dpkg-deb").arg("--field").arg(&deb).arg(name));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    assert_eq!((field("Package"), field("Version")), ("basalt".to_owned(), "0.1.0".to_owned()));
    assert!(field("Depends").starts_with("libc6 (>= 2."), "{}", field("Depends"));
    let listed = String::from_utf8(succeed(Command::new("dpkg-deb").arg("--contents").arg(&deb)).stdout).unwrap();
    for (mode, path) in [
        ("-rwxr-xr-x root/root", "./usr/bin/basalt"),
        ("-rw-r----- root/root", "./etc/basalt/basalt.toml"),
        ("-rw-r--r-- root/root", "./usr/lib/systemd/system/basalt.service"),
        ("-rw-r--r-- root/root", "./usr/share/man/man1/basalt.1.gz"),
        ("-rw-r--r-- root/root", "./usr/share/bash-completion/completions/basalt"),
        ("-rw-r--r-- root/root", "./usr/share/zsh/vendor-completions/_basalt"),
        ("-rw-r--r-- root/root", "./usr/share/fish/vendor_completions.d/basalt.fish"),
        ("-rw-r--r-- root/root", "./usr/share/doc/basalt/HARDENING.md"),
        ("-rw-r--r-- root/root", "./usr/share/doc/basalt/basalt.cdx.json"),
    ] {
        // dpkg-deb shows numbers of users that have no name.
        let (mode, numbers) = (mode.to_owned(), mode.replace("root/root", "0/0"));
        let line = listed.lines().find(|line| line.ends_with(&format!(" {path}")));
        assert!(line.is_some_and(|line| line.starts_with(&mode) || line.starts_with(&numbers)), "{path} in\n{listed}");
    }
}

/// A copy of the system at `$SYSTEM`, which keeps nothing; `$m` is its root.
const COPY: &str = r#"
mount -t tmpfs none "$T"
m=$T/root
mkdir "$T/upper" "$T/work" "$m"
mount -t overlay none -o "lowerdir=$SYSTEM,upperdir=$T/upper,workdir=$T/work" "$m"
mount -t proc none "$m/proc"
mount --bind /dev "$m/dev"
"#;

/// What an operator has at hand in it: bash, and the package.
const AT_HAND: &str = r#"
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
serve() {
    command=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/basalt.service)
    variable=$(sed -n 's/^Environment=//p' /usr/lib/systemd/system/basalt.service)
    cd /var/lib/basalt
    env "$variable" setpriv --reuid=basalt --regid=basalt --clear-groups --no-new-privs $command >/server.log 2>&1 &
    server=$!
    tries=0
    until basalt ctl ping --node "127.0.0.1:$PORT" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] && kill -0 "$server" || { cat /server.log; fail "it does not serve"; }
        sleep 0.1
    done
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
dpkg -r basalt
[ ! -e /usr/bin/basalt ] && [ -d /var/lib/basalt/data ] && [ -e /etc/basalt/basalt.toml ] || fail "a removal keeps data and settings alone"
dpkg -P basalt
[ ! -e /var/lib/basalt ] && [ ! -e /etc/basalt ] && [ ! -e /usr/share/doc/basalt ] || fail "a purge leaves something"
is "what dpkg knows of it" "$(dpkg -l basalt 2>/dev/null | grep -c '^.i')" 0
"#;

/// An operator with packages, in a copy of a system.
fn operate(system: &str, script: &str, packages: &[(&str, &Path)]) {
    let folder = tempfile::tempdir().unwrap();
    // The namespace mounts something else on it.
    let (copies, operator) = (tempfile::tempdir().unwrap(), format!("{AT_HAND}{script}"));
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

#[test]
fn dpkg_installs_upgrades_removes_and_purges_it() {
    let second = tempfile::tempdir().unwrap();
    // The same files, as a later version.
    let two = second.path().join("two.deb");
    let later = "dpkg-deb -R \"$0\" t && sed -i 's/^Version: .*/Version: 0.1.1/' t/DEBIAN/control && dpkg-deb -Zgzip -z1 -b t \"$1\" && rm -r t";
    succeed(Command::new("sh").args(["-c", later]).arg(FIRST.deb()).arg(&two).current_dir(second.path()));
    let system = std::env::var("BASALT_DIST_ROOT").unwrap_or_else(|_| "/".to_owned());
    operate(&system, WITH_DPKG, &[("one.deb", &FIRST.deb()), ("two.deb", &two)]);
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
        operate("/", WITH_RPM, &[("one.rpm", &FIRST.path(&rpm_name()))]);
    }
}

fn rpm_name() -> String {
    format!("basalt-{VERSION}-1.{}.rpm", std::env::consts::ARCH)
}

/// Whether a program is installed. What the gate requires must be.
fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().status.success();
    let required = std::env::var("BASALT_REQUIRE").unwrap_or_default();
    assert!(found || !required.split(',').any(|word| word == program), "BASALT_REQUIRE lists {program}");
    if !found {
        println!("SKIPPED ({program}): it is not installed");
    }
    found
}

/// `$R` is the root of an image, beside the file that tells a runtime what to do with it.
const BY_RUNC: &str = r#"
cd "$R/.."
mount -t tmpfs none "$LOG.state" -o size=16m
runc() { command runc --root "$LOG.state" "$@"; }
runc run "basalt-$PORT" >"$LOG" 2>&1 &
runtime=$!
inside() { runc exec "basalt-$PORT" /usr/bin/basalt "$@"; }
tries=0
# What engines ask: it is not told where the node listens.
until inside $CHECK >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] && kill -0 "$runtime" || { cat "$LOG"; exit 1; }
    sleep 0.1
done
[ "$(redis-cli -p "$PORT" SET a 1)" = OK ]
runc kill "basalt-$PORT" TERM
wait "$runtime" || { cat "$LOG"; exit 1; }
"#;

/// The same without a runtime. As one does it: nothing of the root can be written, but what is mounted.
const BY_CHROOT: &str = r#"
mount --bind "$R" "$R"
mount -o remount,ro,bind "$R"
mount -t tmpfs none "$R/data" -o uid=999,gid=999,mode=0700
mount -t proc none "$R/proc"
mount --bind /dev "$R/dev"
chroot=$(command -v chroot)
inside() { env -i BASALT_DIR=/data BASALT_LISTEN="127.0.0.1:$PORT" "$chroot" --userspec=999:999 "$R" /usr/bin/basalt container "$@"; }
inside --memory 1gb >"$LOG" 2>&1 &
server=$!
tries=0
until inside $CHECK >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] && kill -0 "$server" || { cat "$LOG"; exit 1; }
    sleep 0.1
done
[ "$(redis-cli -p "$PORT" SET a 1)" = OK ]
[ "$(stat -c %u "$R/data")" = 999 ]
"#;

#[test]
fn an_image_is_as_its_digests_say_and_runs_without_a_writable_root() {
    let made = &*FIRST;
    let blob = |reference: &Value| {
        let digest = reference["digest"].as_str().unwrap();
        let bytes = fs::read(made.path(&format!("oci/blobs/{}", digest.replace(':', "/")))).unwrap();
        assert_eq!(
            (format!("sha256:{}", sha256(&bytes)), bytes.len() as u64),
            (digest.to_owned(), reference["size"].as_u64().unwrap())
        );
        bytes
    };
    assert_eq!(made.json("oci/oci-layout")["imageLayoutVersion"], "1.0.0");
    let manifest: Value = serde_json::from_slice(&blob(&made.json("oci/index.json")["manifests"][0])).unwrap();
    let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
    let layer = blob(&manifest["layers"][0]);
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&unpacked(&layer))));
    assert_eq!(config["config"]["User"], "999:999");
    let check: Vec<&str> =
        config["config"]["Healthcheck"]["Test"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(check[..2], ["CMD", "/usr/bin/basalt"], "an engine runs it without a shell");
    // The archive has the same files.
    let folder = tempfile::tempdir().unwrap();
    let oci = format!("basalt-0.1.0-{}.oci.tar", if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" });
    succeed(Command::new("tar").arg("-xf").arg(made.path(&oci)).arg("-C").arg(folder.path()));
    succeed(Command::new("diff").arg("-r").arg(made.path("oci")).arg(folder.path()));
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(folder.path().join("layer"), layer).unwrap();
    succeed(Command::new("tar").args(["-xzpf", "layer", "-C", "root"]).current_dir(folder.path()));
    let log = folder.path().join("log").display().to_string();
    let (port, is_runc) = (free_port(), has("runc"));
    if is_runc {
        fs::create_dir(folder.path().join("log.state")).unwrap();
        fs::write(folder.path().join("config.json"), bundle(&config["config"], &port).to_string()).unwrap();
    }
    let script = if is_runc { BY_RUNC } else { BY_CHROOT };
    let check = check[2..].join(" ");
    in_namespace(script, &[("R", root.to_str().unwrap()), ("LOG", &log), ("PORT", &port), ("CHECK", &check)]);
}

/// What a runtime is told of an image, as engines do: no rights, nothing that can be written but `/data` and `/tmp`. Only the network is this
/// machine's.
fn bundle(image: &Value, port: &str) -> Value {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = |name: &str| image[name].as_array().unwrap().iter().map(text);
    let mut env: Vec<String> = all("Env").filter(|variable| !variable.starts_with("BASALT_LISTEN=")).collect();
    env.push(format!("BASALT_LISTEN=127.0.0.1:{port}"));
    let mut words: Vec<String> = all("Entrypoint").chain(all("Cmd")).collect();
    words.extend(["--memory", "1gb"].map(str::to_owned));
    let mounts = [("/proc", "proc", "nosuid"), ("/dev", "tmpfs", "mode=755"), ("/tmp", "tmpfs", "mode=1777")];
    let mounts = mounts.into_iter().chain([("/data", "tmpfs", "uid=999,gid=999,mode=0700")]);
    let mounts: Vec<Value> = mounts
        .map(|(at, kind, options)| {
            let options: Vec<&str> = options.split(',').collect();
            json!({ "destination": at, "type": kind, "source": kind, "options": options })
        })
        .collect();
    let namespaces = ["pid", "ipc", "uts", "mount"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 999, "gid": 999 },
            "args": words,
            "env": env,
            "cwd": image["WorkingDir"],
            "noNewPrivileges": true,
        },
        "root": { "path": "root", "readonly": true },
        "mounts": mounts,
        "linux": { "namespaces": namespaces },
    })
}

/// A header of RPM: the values of its tags as bytes, and its length.
fn header(bytes: &[u8]) -> (impl Fn(u32) -> Vec<u8>, usize) {
    assert_eq!(bytes[..4], [0x8e, 0xad, 0xe8, 1]);
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (entries, store) = (number(8) as usize, number(12) as usize);
    let length = 16 + 16 * entries + store;
    let bytes = bytes[..length].to_vec();
    let value = move |tag: u32| {
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let of_entry = |n: usize| 16 + 16 * n;
        let found = (0..entries).map(of_entry).find(|at| number(*at) == tag).unwrap_or_else(|| panic!("no tag {tag}"));
        let begins = of_entry(entries) + number(found + 8) as usize;
        let after =
            (0..entries).map(|n| of_entry(entries) + number(of_entry(n) + 8) as usize).filter(|at| *at > begins);
        bytes[begins..after.min().unwrap_or(bytes.len())].to_vec()
    };
    (value, length)
}

#[test]
fn the_sums_and_files_of_an_rpm_are_right() {
    let package = fs::read(FIRST.path(&rpm_name())).unwrap();
    assert_eq!(package[..4], [0xed, 0xab, 0xee, 0xdb]);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim_end_matches('\0').to_owned();
    let (sums, length) = header(&package[96..]);
    let start = (96 + length).next_multiple_of(8);
    let (values, length) = header(&package[start..]);
    let payload = &package[start + length..];
    assert_eq!(text(sums(273)), sha256(&package[start..start + length]));
    assert_eq!(text(values(5092)), sha256(payload));
    assert_eq!(sums(1000), ((length + payload.len()) as u32).to_be_bytes());
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("payload"), unpacked(payload)).unwrap();
    succeed(Command::new("python3").args(["-c", UNPACK]).current_dir(folder.path()));
    assert!(fs::read(folder.path().join("usr/bin/basalt")).unwrap() == fs::read(FIRST.path("basalt")).unwrap());
    assert!(folder.path().join("usr/lib/systemd/system/basalt.service").exists());
    let names = text(values(1117));
    assert!(names.contains("basalt.toml\0") && names.split('\0').count() > 10, "{names}");
}

/// Unpacks an archive of cpio in its form `newc`.
const UNPACK: &str = r#"
import os
data = open("payload", "rb").read()
at = 0
up = lambda n: (n + 3) // 4 * 4
while True:
    assert data[at:at + 6] == b"070701", at
    fields = [int(data[at + 6 + 8 * n:at + 14 + 8 * n], 16) for n in range(13)]
    mode, size, name_size = fields[1], fields[6], fields[11]
    name = data[at + 110:at + 110 + name_size - 1].decode()
    at = up(at + 110 + name_size)
    if name == "TRAILER!!!":
        break
    if mode & 0o170000 == 0o040000:
        os.makedirs(name, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(name), exist_ok=True)
        open(name, "wb").write(data[at:at + size])
    at = up(at + size)
"#;
