//! Serves metrics over HTTP, one request at a time.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::output::note;

/// Maximum duration of a request, and maximum length of its head.
const REQUEST_TIME: Duration = Duration::from_secs(2);
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Time until the next attempt to accept a connection after a failed one.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Answers requests for `/metrics` with what `metrics` returns. Returns only if it cannot listen.
///
/// # Errors
/// [`Error::Listen`].
pub(super) fn serve(at: SocketAddr, metrics: impl Fn() -> Result<String>) -> Result<ExitCode> {
    let listen = |source| Error::Listen { address: at, source };
    let listener = TcpListener::bind(at).map_err(listen)?;
    note("info", format_args!("serving http://{}/metrics", listener.local_addr().map_err(listen)?));
    loop {
        match listener.accept() {
            // A connection that fails concerns its client alone.
            Ok((stream, _)) => _ = answer(stream, &metrics),
            // Such as a lack of descriptors, which may end.
            Err(_) => thread::sleep(RETRY_DELAY),
        }
    }
}

fn answer(mut stream: TcpStream, metrics: &impl Fn() -> Result<String>) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    let mut words = head.split_whitespace();
    let (status, text) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => match metrics() {
            Ok(text) => ("200 OK", text),
            Err(error) => ("503 Service Unavailable", format!("{error}\n")),
        },
        (Some("GET"), _) => ("404 Not Found", "expected /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "expected GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n",
        text.len()
    );
    stream.set_write_timeout(Some(REQUEST_TIME))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())
}

/// Reads the head of a request, up to the empty line.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let until = Instant::now() + REQUEST_TIME;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > MAX_HEAD_BYTES {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => head.extend_from_slice(&buffer[..got]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
