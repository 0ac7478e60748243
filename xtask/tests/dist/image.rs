//! The image for containers, run by runc, or as a runtime would.

use super::{ARCHITECTURE, FIRST, SERVES, VERSION, free_port, has, in_namespace, sha256, succeed, unpacked};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// `$R` is the root of an image, beside the file that tells a runtime what to do with it.
const BY_RUNC: &str = r#"
cd "$R/.."
mount -t tmpfs none "$LOG.state" -o size=16m
runc() { command runc --root "$LOG.state" "$@"; }
runc run "basalt-$PORT" >"$LOG" 2>&1 &
runtime=$!
inside() { runc exec "basalt-$PORT" /usr/bin/basalt "$@"; }
# What engines ask: it is not told where the node listens.
serves "$runtime" "$LOG" inside $CHECK
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
serves "$server" "$LOG" inside $CHECK
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
    let docker = &made.json("oci/manifest.json")[0];
    assert_eq!(docker["RepoTags"], json!([format!("basalt:{VERSION}"), "basalt:latest"]));
    let named = |reference: &Value| format!("blobs/{}", reference["digest"].as_str().unwrap().replace(':', "/"));
    assert_eq!(docker["Config"], named(&manifest["config"]));
    assert_eq!(docker["Layers"], json!([named(&manifest["layers"][0])]));
    // The archive has the same files.
    let folder = tempfile::tempdir().unwrap();
    let oci = format!("basalt-{VERSION}-{ARCHITECTURE}.oci.tar");
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
    in_namespace(
        &format!("{SERVES}{script}"),
        &[("R", root.to_str().unwrap()), ("LOG", &log), ("PORT", &port), ("CHECK", &check)],
    );
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
