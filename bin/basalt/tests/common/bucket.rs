//! A bucket of an S3-compatible store, as far as backups use one: objects are put, read, listed and deleted, in memory.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

type Objects = BTreeMap<String, Vec<u8>>;

/// What a request asks for.
struct Asked {
    method: String,
    path: String,
    query: String,
    body: Vec<u8>,
}

/// The bucket; requests are not checked for who signs them.
pub struct FakeBucket {
    port: u16,
    objects: Arc<Mutex<Objects>>,
    /// Objects that were read.
    read: Arc<Mutex<Vec<String>>>,
}

impl FakeBucket {
    /// Serves it until the test ends.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bucket = Self { port, objects: Arc::default(), read: Arc::default() };
        let (objects, read) = (bucket.objects.clone(), bucket.read.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (objects, read) = (objects.clone(), read.clone());
                std::thread::spawn(move || serve(stream, &objects, &read));
            }
        });
        bucket
    }

    /// What S3's own tools read from the environment to find it.
    pub fn environment(&self) -> [(&'static str, String); 3] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ]
    }

    /// All objects, by `/BUCKET/NAME`.
    pub fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock()
    }

    /// The objects that were read since the last call.
    pub fn take_read(&self) -> Vec<String> {
        std::mem::take(&mut *self.read.lock())
    }
}

/// Answers one request.
fn serve(stream: TcpStream, objects: &Mutex<Objects>, read: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(&stream);
    let Some(asked) = request(&mut reader) else { return };
    let (mut status, mut tag, mut body) = ("200 OK", String::new(), Vec::new());
    let mut objects = objects.lock();
    match (asked.method.as_str(), asked.query.contains("list-type=2")) {
        ("PUT", _) => {
            tag = tag_of(&asked.body);
            objects.insert(asked.path, asked.body);
        }
        ("DELETE", _) => drop(objects.remove(&asked.path)),
        (_, true) => body = list(&objects, &asked).into_bytes(),
        (_, false) => match objects.get(&asked.path) {
            Some(object) => {
                body.clone_from(object);
                read.lock().push(asked.path);
            }
            None => status = "404 Not Found",
        },
    }
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"{tag}\"\r\nConnection: close\r\n\r\n", body.len());
    let mut stream = &stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

fn request(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, query, body })
}

/// The objects below the prefix that is asked for.
fn list(objects: &Objects, asked: &Asked) -> String {
    let prefix = asked.query.split('&').find_map(|word| word.strip_prefix("prefix=")).unwrap_or_default();
    let root = format!("{}/", asked.path.trim_end_matches('/'));
    let below = format!("{root}{}", prefix.replace("%2F", "/"));
    let mut text = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
    for (name, object) in objects.iter().filter(|(name, _)| name.starts_with(&below)) {
        let (key, size, tag) = (&name[root.len()..], object.len(), tag_of(object));
        let _ = write!(text, "<Contents><ETag>&quot;{tag}&quot;</ETag><Key>{key}</Key><Size>{size}</Size></Contents>");
    }
    text + "</ListBucketResult>"
}

fn tag_of(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}
