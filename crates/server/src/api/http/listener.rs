//! The listener for operators' HTTP: a bounded number of connections, each with a thread and a time limit of its own.

use super::answer::{Client, answer};
use super::drive::{ready, split};
use super::seats::{Seat, Seats};
use crate::net::Stream;
use crate::security::shown_certificate;
use crate::shared::NodeShared;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use rustix::event::PollFlags;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vocab::limits::{HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_PROBES_MAX};

/// From one answer, or the beginning, to the end of the next request and the sending of its answer.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked whether the node stops.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const NO_TLS_HERE: &str = "this port has no TLS: use http:// here, or the port for HTTPS (tls-http-listen)\n";
const TLS_HERE: &str = "this port speaks HTTPS, and this connection does not: use https:// here\n";
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Listens on `HOST:PORT`.
pub(crate) fn bind(listen: &str) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The listener's thread.
pub(crate) struct HttpListener {
    thread: JoinHandle<()>,
}

impl HttpListener {
    /// Serves what connects to a listener, with TLS or without.
    pub(crate) fn start(store: &Arc<NodeShared>, listener: TcpListener, encrypted: bool) -> io::Result<Self> {
        let store = store.clone();
        let run = move || accept(&store, &listener, encrypted);
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(run)?;
        Ok(Self { thread })
    }

    /// Waits for its end, once the store stops.
    pub(crate) fn join(self) {
        if self.thread.join().is_err() {
            log::error!("the HTTP listener has panicked");
        }
    }
}

fn accept(store: &Arc<NodeShared>, listener: &TcpListener, encrypted: bool) {
    let seats = Seats::new(HTTP_CONNECTIONS_MAX, HTTP_PROBES_MAX);
    while !store.is_stopping() {
        match ready(listener, PollFlags::IN, LOOK_EVERY) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(e) => log::warn!("the HTTP listener: {e}"),
        }
        match listener.accept() {
            Ok((stream, _)) => admit(store, stream, encrypted, &seats),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(e) => {
                log::warn!("the HTTP listener cannot accept a connection: {e}");
                // It is most likely files that are lacking: they will not be there at once.
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

fn admit(store: &Arc<NodeShared>, mut stream: TcpStream, encrypted: bool, seats: &Arc<Seats>) {
    let other = match stream.try_clone() {
        Ok(other) => other,
        Err(e) => return log::warn!("an HTTP connection cannot be served: {e}"),
    };
    let Some(seat) = seats.take(Box::new(other)) else {
        // Whether it hears it is up to the client.
        let _ = stream.write(TOO_MANY);
        return;
    };
    let store = store.clone();
    let serve = move || {
        if let Err(e) = serve(&store, stream, encrypted, &seat) {
            log::debug!("an HTTP connection: {e}");
        }
    };
    if let Err(e) = std::thread::Builder::new().name("http-client".to_owned()).spawn(serve) {
        log::warn!("an HTTP connection cannot be served: {e}");
    }
}

/// Whether the client speaks TLS, once it says something.
fn begins_with_tls(store: &NodeShared, stream: &Stream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let since = Instant::now();
    while since.elapsed() < REQUEST_WITHIN && !store.is_stopping() {
        if ready(stream, PollFlags::IN, LOOK_EVERY)?
            && let Some(begins) = stream.begins_with_tls()?
        {
            return Ok(begins);
        }
    }
    Err(io::Error::new(ErrorKind::TimedOut, "the client says nothing"))
}

/// Tells a client that is at the wrong one of two ports, and the log.
fn refuse(stream: &Stream, encrypted: bool) -> io::Result<()> {
    let from = stream.peer_addr()?;
    let (what, text) = if encrypted {
        ("does not speak TLS, and has connected to the port for HTTPS", TLS_HERE)
    } else {
        ("speaks TLS at the port for HTTP", NO_TLS_HERE)
    };
    log::warn!("the client at {from} {what}; it is closed");
    // What is unread when a connection is closed would take the answer with it.
    stream.receive(&mut [0; HTTP_HEAD_BYTES_MAX]);
    let length = text.len();
    let head = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain";
    stream.send(format!("{head}\r\ncontent-length: {length}\r\n\r\n{text}").as_bytes());
    stream.shutdown(Shutdown::Write)
}

fn serve(store: &Arc<NodeShared>, stream: TcpStream, encrypted: bool, seat: &Seat) -> io::Result<()> {
    let from = stream.peer_addr().ok().map(|address| address.ip());
    let mut stream = Stream::plain(stream);
    if begins_with_tls(store, &stream)? != encrypted {
        return refuse(&stream, encrypted);
    }
    if encrypted {
        // Its handshake is part of the time for the first request.
        stream.encrypt(store.tls.accept_http().map_err(io::Error::other)?)?;
    }
    let connection = stream.clone();
    let (socket, driver) = split(stream, REQUEST_WITHIN)?;
    let clock = driver.clock();
    let service = service_fn(|request| {
        let (store, clock, certificate) = (store.clone(), Rc::clone(&clock), shown_certificate(&connection));
        async move {
            let response = answer(&store, request, Client { from, certificate, seat }).await;
            seat.set_busy(false);
            clock.set(Instant::now());
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.max_buf_size(HTTP_HEAD_BYTES_MAX).max_headers(HTTP_HEADERS_MAX).half_close(true);
    let connection = http.serve_connection(socket, service);
    driver.run(connection, &|| store.is_stopping())?.map_err(io::Error::other)
}
