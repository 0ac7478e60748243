//! An image for containers, in OCI's layout: one layer with the program, the libraries that it is loaded with, and nothing else.
//! There is no shell in it: the program is the entrypoint.

use super::digest::sha256;
use super::release::{Release, libraries};
use super::tar::{gzip, tar};
use super::texts::SUMMARY;
use super::tree::{Node, Tree};
use crate::supply::rfc3339;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The user that the program runs as, and its group: those of Redis's images.
const USER: u32 = 999;
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_FILE: &str = "index.json";
/// What says that a folder is a layout.
const LAYOUT_FILE: &str = "oci-layout";
/// How engines older than OCI's layout find an image in an archive, and by which names they know it.
const DOCKER_FILE: &str = "manifest.json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Certificates of the authorities that everyone trusts: for backups in S3 and `rediss://`.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
const SECOND_NS: u64 = 1_000_000_000;

/// The files of an image's layout.
pub fn image(release: &Release, sbom: &[u8]) -> Result<Tree, String> {
    let layer = tar(&root(release, sbom)?, "", release.at_s)?;
    let packed = gzip(&layer, release.compression)?;
    let mut layout = Tree::default();
    let config = text(&config(release, &digest(&layer)));
    let layers = [blob(&mut layout, LAYER, packed)];
    let config = blob(&mut layout, CONFIG, config);
    let path = |blob: &Value| blob_path(blob["digest"].as_str().unwrap_or_default());
    let named = [&release.version, "latest"].map(|tag| format!("basalt:{tag}"));
    let layer_paths: Vec<String> = layers.iter().map(path).collect();
    let docker = json!([{ "Config": path(&config), "RepoTags": named, "Layers": layer_paths }]);
    layout.file(DOCKER_FILE, 0o644, text(&docker));
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
    let mut manifest = blob(&mut layout, MANIFEST, text(&manifest));
    manifest["platform"] = platform(release);
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    layout.file(INDEX_FILE, 0o644, text(&index(&[manifest])));
    layout.file(LAYOUT_FILE, 0o644, text(&json!({ "imageLayoutVersion": "1.0.0" })));
    Ok(layout)
}

/// One layout with the images of several: engines take the one for their processor.
pub fn together(layouts: &[Tree]) -> Result<Tree, String> {
    let mut whole = Tree::default();
    let mut manifests = Vec::new();
    for (path, item) in layouts.iter().flat_map(Tree::iter) {
        match &item.node {
            Node::File(bytes) if path == INDEX_FILE => {
                let index: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
                manifests.extend(index["manifests"].as_array().cloned().unwrap_or_default());
            }
            // It has no word for processors.
            Node::File(_) if path == DOCKER_FILE => {}
            Node::File(bytes) => whole.file(path, item.mode, bytes.clone()),
            _ => {}
        }
    }
    whole.file(INDEX_FILE, 0o644, text(&index(&manifests)));
    Ok(whole)
}

/// An error unless a layout has the images of just these processors, in Debian's words, and each blob that something refers to is there, as it
/// is referred to.
pub fn check(layout: &Tree, processors: &[&str]) -> Result<(), String> {
    let files: BTreeMap<&str, &[u8]> = layout.iter().filter_map(|(path, item)| Some((path, item.bytes()?))).collect();
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).map_err(|error| error.to_string());
    let referred = |descriptor: &Value| -> Result<&[u8], String> {
        let (digest, size) = (descriptor["digest"].as_str().unwrap_or_default(), &descriptor["size"]);
        let bytes = files.get(&*blob_path(digest)).ok_or_else(|| format!("the image lacks the blob {digest}"))?;
        let is_right = *size == bytes.len() && self::digest(bytes) == digest;
        is_right.then_some(*bytes).ok_or_else(|| format!("the image's blob {digest} is another one"))
    };
    let index = json(files.get(INDEX_FILE).ok_or("the image has no index")?)?;
    let mut found = Vec::new();
    for entry in index["manifests"].as_array().into_iter().flatten() {
        let manifest = json(referred(entry)?)?;
        let config = json(referred(&manifest["config"])?)?;
        if manifest["layers"].as_array().is_none_or(Vec::is_empty) {
            return Err("an image without a layer".to_owned());
        }
        manifest["layers"].as_array().into_iter().flatten().try_for_each(|layer| referred(layer).map(drop))?;
        let platform = &entry["platform"];
        if ["architecture", "os", "variant"].iter().any(|word| platform[word] != config[word]) {
            return Err(format!("an image is for another processor than the index says: {platform}"));
        }
        found.push(platform["architecture"].as_str().unwrap_or_default().to_owned());
    }
    if !files.contains_key(LAYOUT_FILE) || found != processors {
        return Err(format!("the layout has images for {found:?}, and not for {processors:?}"));
    }
    Ok(())
}

fn index(manifests: &[Value]) -> Value {
    json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests })
}

/// What an image runs on.
fn platform(release: &Release) -> Value {
    let architecture = release.architecture();
    let mut platform = json!({ "architecture": architecture.debian(), "os": "linux" });
    if let Some(variant) = architecture.variant() {
        platform["variant"] = variant.into();
    }
    platform
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

/// Keeps bytes under their digest, and answers what refers to them.
fn blob(layout: &mut Tree, media_type: &str, bytes: Vec<u8>) -> Value {
    let (digest, size) = (digest(&bytes), bytes.len());
    layout.file(&blob_path(&digest), 0o644, bytes);
    json!({ "mediaType": media_type, "digest": digest, "size": size })
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

/// The files of the only layer.
fn root(release: &Release, sbom: &[u8]) -> Result<Tree, String> {
    let mut root = Tree::default();
    root.file("usr/bin/basalt", 0o755, release.program.clone());
    for (link, to) in [("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        root.folder(to, 0o755, 0);
        root.link(link, to);
    }
    for (path, library) in libraries(&release.elf)? {
        root.file(&format!("usr{path}"), 0o755, library);
    }
    let user = format!("root:x:0:0:root:/:/sbin/nologin\nbasalt:x:{USER}:{USER}:Basalt:/data:/sbin/nologin\n");
    root.file("etc/passwd", 0o644, user);
    root.file("etc/group", 0o644, format!("root:x:0:\nbasalt:x:{USER}:\n"));
    root.file("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n");
    if let Ok(authorities) = std::fs::read(Path::new("/").join(AUTHORITIES)) {
        root.file(AUTHORITIES, 0o644, authorities);
    }
    root.file("usr/share/doc/basalt/basalt.cdx.json", 0o644, sbom);
    root.folder("tmp", 0o1777, 0);
    root.folder("data", 0o700, USER);
    for mounted in ["dev", "proc", "sys"] {
        root.folder(mounted, 0o755, 0);
    }
    Ok(root)
}

fn config(release: &Release, layer: &str) -> Value {
    let created = rfc3339(release.at_s);
    let mut config = json!({
        "created": created,
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "BASALT_DIR=/data", "BASALT_LISTEN=0.0.0.0:7000"],
            "Entrypoint": ["/usr/bin/basalt", "container"],
            "Cmd": ["start"],
            "WorkingDir": "/data",
            "Volumes": { "/data": {} },
            "ExposedPorts": { "7000/tcp": {}, "17000/tcp": {} },
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "basalt",
                "org.opencontainers.image.description": SUMMARY,
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
            // Not OCI's, but what Docker and Podman read.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/basalt", "ctl", "health"],
                "Interval": 10 * SECOND_NS,
                "Timeout": 5 * SECOND_NS,
                // A long log may be replayed first. The first good answer ends it.
                "StartPeriod": 600 * SECOND_NS,
                "Retries": 3,
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [layer] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    });
    if let (Value::Object(config), Value::Object(platform)) = (&mut config, platform(release)) {
        config.extend(platform);
    }
    config
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A layout with an image for a processor.
    fn layout(architecture: &str, variant: Option<&str>) -> Tree {
        let mut layout = Tree::default();
        let mut platform = json!({ "architecture": architecture, "os": "linux" });
        if let Some(variant) = variant {
            platform["variant"] = variant.into();
        }
        let config = blob(&mut layout, CONFIG, text(&platform));
        let layers = [blob(&mut layout, LAYER, b"of all".to_vec()), blob(&mut layout, LAYER, architecture.into())];
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
        let mut manifest = blob(&mut layout, MANIFEST, text(&manifest));
        manifest["platform"] = platform;
        layout.file(DOCKER_FILE, 0o644, b"[]".to_vec());
        layout.file(INDEX_FILE, 0o644, text(&index(&[manifest])));
        layout.file(LAYOUT_FILE, 0o644, text(&json!({ "imageLayoutVersion": "1.0.0" })));
        layout
    }

    #[test]
    fn an_image_for_both_processors_has_the_blobs_of_both() {
        let both = together(&[layout("amd64", None), layout("arm64", Some("v8"))]).unwrap();
        check(&both, &["amd64", "arm64"]).unwrap();
        assert!(!both.iter().any(|(path, _)| path == DOCKER_FILE), "it has no word for processors");
        // A layer of both is there once: two configs, two manifests, three layers.
        assert_eq!(both.iter().filter(|(path, item)| path.starts_with("blobs/") && item.bytes().is_some()).count(), 7);
        assert!(check(&both, &["amd64"]).unwrap_err().contains("images for"));
        check(&layout("arm64", Some("v8")), &["arm64"]).unwrap();
    }

    #[test]
    fn what_is_wrong_with_an_image_is_told() {
        let whole = layout("amd64", None);
        let is_blob =
            |(path, item): &(&str, &super::super::tree::Item)| path.starts_with("blobs/") && item.bytes().is_some();
        let blobs: Vec<String> = whole.iter().filter(is_blob).map(|(path, _)| path.to_owned()).collect();
        for (changed, bytes) in blobs.iter().flat_map(|path| [(path, None), (path, Some(b"another"))]) {
            let mut other = Tree::default();
            for (path, item) in whole.iter() {
                let bytes =
                    if path == changed { bytes.map(|bytes| bytes.to_vec()) } else { item.bytes().map(<[u8]>::to_vec) };
                if let Some(bytes) = bytes {
                    other.file(path, 0o644, bytes);
                }
            }
            assert!(check(&other, &["amd64"]).is_err(), "{changed}");
        }
        let mut other = layout("amd64", None);
        let manifest = json!({ "platform": { "architecture": "arm64", "os": "linux" } });
        let mut index: Value =
            serde_json::from_slice(other.iter().find(|(path, _)| *path == INDEX_FILE).unwrap().1.bytes().unwrap())
                .unwrap();
        index["manifests"][0]["platform"] = manifest["platform"].clone();
        other.file(INDEX_FILE, 0o644, text(&index));
        assert!(check(&other, &["arm64"]).unwrap_err().contains("than the index says"));
    }
}
