//! The part of HTTP that browsers and collectors need: one request per connection, GET and HEAD
//! only.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use block::Nanos;
use os::Clock;
use report::watch::{document, metrics, open_metrics, page};

use super::Shared;
use super::places::{Place, Places};
use super::token::Token;

/// Longest request.
const REQUEST_MAX: usize = 8 << 10;
/// Time limit for a complete request, and for a peer that reads nothing of a response.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// Time limit for a complete response, however slowly it is read.
const ANSWER: Nanos = Nanos::from_secs(30);
/// Interval of keep-alive messages of an idle stream.
const STILL: Duration = Duration::from_secs(1);
/// Maximum unsent bytes for a viewer: the kernel's minimum.
const UNREAD_BYTES: usize = 4 << 10;
/// Padding of a stream: comments at its start, more than a viewer's kernel buffers by default, and
/// a piece after each event. The padding exposes a viewer that reads nothing, although an event has
/// less than a kilobyte. The pieces are small, because a kernel whose program reads much at once
/// enlarges its buffer.
const PADDING_BYTES: usize = 192 << 10;
const PIECE_BYTES: usize = 4 << 10;
const PIECE_PAUSE: Duration = Duration::from_millis(5);
/// Minimum bytes that show whether a viewer reads.
const TELLING_BYTES: u64 = 1000;
/// Stack of a connection's thread.
const STACK: usize = 256 << 10;

/// Starts threads that answer requests until the process ends.
pub(super) fn start(
    listener: TcpListener,
    shared: Arc<Shared>,
    token: Option<Token>,
) -> io::Result<()> {
    let places = Places::default();
    let here = listener.local_addr()?;
    let accept = move || {
        for stream in listener.incoming() {
            // The peer left, or there are too many open files: the next accept may succeed.
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (shared, token) = (Arc::clone(&shared), token.clone());
            let Ok(place) = places.take(&stream) else { continue };
            let serve = move || {
                // A client that closed the connection needs no answer.
                let _ = serve(&stream, here, &shared, (token.as_ref(), &place));
            };
            // If no thread can be started, the connection and its slot are dropped.
            let _ = named("watcher").stack_size(STACK).spawn(serve);
        }
    };
    named("watch").stack_size(STACK).spawn(accept).map(drop)
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

/// A parsed request.
#[derive(Debug, Default, PartialEq)]
struct Request {
    method: String,
    path: String,
    token: Option<String>,
    host: Option<String>,
    /// True if the client accepts OpenMetrics.
    open_metrics: bool,
}

fn serve(
    stream: &TcpStream,
    here: SocketAddr,
    shared: &Shared,
    (token, place): (Option<&Token>, &Place),
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(request) = read(stream)? else {
        return answer(stream, 400, "text/plain", "bad request\n", false);
    };
    let is_head = request.method == "HEAD";
    if let Some((code, why)) = refused(&request, here, token) {
        return answer(stream, code, "text/plain", why, is_head);
    }
    let json = |value: serde_json::Value| format!("{value}\n");
    match &request.path[..] {
        "/" => {
            let kind = "text/html; charset=utf-8";
            answer(stream, 200, kind, &page(&shared.moment()), is_head)
        }
        "/metrics" if request.open_metrics => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            answer(stream, 200, kind, &open_metrics(&shared.moment()), is_head)
        }
        "/metrics" => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            answer(stream, 200, kind, &metrics(&shared.moment()), is_head)
        }
        "/api/state" => {
            let text = json(document(&shared.moment()));
            answer(stream, 200, "application/json", &text, is_head)
        }
        "/events" if !is_head && !place.becomes_stream() => {
            answer(stream, 503, "text/plain", "too many viewers: try again later\n", false)
        }
        "/events" if !is_head => {
            shared.joins();
            let ended = events(stream, shared);
            shared.leaves();
            ended
        }
        _ => {
            answer(stream, 404, "text/plain", "not found: try /, /metrics or /api/state\n", is_head)
        }
    }
}

/// Status and reason if a request is refused.
fn refused(
    request: &Request,
    here: SocketAddr,
    token: Option<&Token>,
) -> Option<(u16, &'static str)> {
    if !["GET", "HEAD"].contains(&&request.method[..]) {
        return Some((405, "method not allowed: use GET\n"));
    }
    match token {
        Some(token) => {
            let knows = request.token.as_ref().is_some_and(|said| token.is(said));
            (!knows).then_some((
                401,
                "missing or wrong token: add ?token=… or Authorization: \
                Bearer …\n",
            ))
        }
        // A page of another origin may have a DNS name that resolves here; its browser sends that
        // name as the host.
        None if here.ip().is_loopback() => {
            let is_own = request.host.as_deref().is_none_or(is_loopback);
            (!is_own).then_some((403, "unexpected Host header: use localhost or 127.0.0.1\n"))
        }
        None => None,
    }
}

/// Whether the host of a request is a loopback name or address.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => inside,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_number = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_number || name.eq_ignore_ascii_case("localhost")
}

/// Reads a request up to the empty line; `None` if it is invalid.
fn read(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let (clock, mut text) = (Clock::get(), Vec::new());
    let end = clock.now() + PATIENCE;
    let mut part = [0; 1024];
    while text.len() < REQUEST_MAX && !text.windows(4).any(|end| end == b"\r\n\r\n") {
        // The limit holds however slowly the bytes arrive.
        stream.set_read_timeout(Some(left(&clock, end)?))?;
        let count = stream.read(&mut part)?;
        if count == 0 {
            break;
        }
        text.extend(&part[..count]);
    }
    Ok(parse(&text))
}

/// Time left until `end`; an error afterwards.
fn left(clock: &Clock, end: Nanos) -> io::Result<Duration> {
    let left = end.since(clock.now());
    if left == Nanos(0) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(duration(left)) }
}

fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.0)
}

/// Writes all bytes within `limit`, unless the peer reads nothing for [`PATIENCE`].
fn write(mut stream: &TcpStream, mut bytes: &[u8], limit: Nanos) -> io::Result<()> {
    let clock = Clock::get();
    let end = clock.now() + limit;
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(&clock, end)?.min(duration(PATIENCE))))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

fn parse(text: &[u8]) -> Option<Request> {
    let end = text.windows(4).position(|end| end == b"\r\n\r\n")?;
    let text = str::from_utf8(&text[..end]).ok()?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target, version) = (first.next()?, first.next()?, first.next()?);
    if first.next().is_some() || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        token: query.split('&').find_map(|part| part.strip_prefix("token=")).map(str::to_owned),
        host: None,
        open_metrics: false,
    };
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "host" => request.host = Some(value.trim().to_owned()),
            "accept" => request.open_metrics = value.contains("application/openmetrics-text"),
            "authorization" => {
                let said = value.trim().strip_prefix("Bearer ").map(|said| said.trim().to_owned());
                request.token = said.or(request.token);
            }
            _ => {}
        }
    }
    Some(request)
}

/// Security headers for browsers: no other origin, no frame, no cache.
const HEAD: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
                    Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
                    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
                    script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\n";

fn answer(stream: &TcpStream, code: u16, kind: &str, body: &str, is_head: bool) -> io::Result<()> {
    let word = match code {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Service Unavailable",
    };
    let allow = if code == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code} {word}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         {allow}{HEAD}Connection: close\r\n\r\n"
    );
    write(stream, head.as_bytes(), ANSWER)?;
    if is_head { Ok(()) } else { write(stream, body.as_bytes(), ANSWER) }
}

/// Sends each change as soon as it happens, until the peer is gone or stops reading.
fn events(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    os::keep_unsent(stream, UNREAD_BYTES)?;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{HEAD}Connection: close\r\n\r\n\
         retry: 1000\n\n"
    );
    write(stream, head.as_bytes(), PATIENCE)?;
    let (mut number, mut reader, clock) = (0, Reader::default(), Clock::get());
    loop {
        let (text, is_first) = match shared.newer(number, STILL) {
            Some((newest, moment)) => {
                let is_first = number == 0;
                number = newest;
                (format!("id: {number}\ndata: {}\n\n", document(&moment)), is_first)
            }
            None => ("event: still\ndata: \n\n".to_owned(), false),
        };
        write(stream, text.as_bytes(), PATIENCE)?;
        shared.has(number);
        let pieces = if is_first { PADDING_BYTES / PIECE_BYTES } else { 1 };
        pad(stream, pieces)?;
        let sent = text.len() + pieces * PIECE_BYTES;
        if !reader.reads(clock.now(), sent as u64, os::peer_room_until(stream)) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn pad(stream: &TcpStream, pieces: usize) -> io::Result<()> {
    let piece = format!(":{:1$}\n", "", PIECE_BYTES - 2);
    for _ in 0..pieces {
        write(stream, piece.as_bytes(), PATIENCE)?;
        thread::sleep(PIECE_PAUSE);
    }
    Ok(())
}

/// Detects whether a viewer reads: if so, the receive window of its kernel advances with the sent
/// bytes.
#[derive(Default)]
struct Reader {
    sent: u64,
    /// Times of the last [`PATIENCE`], with the bytes sent until then and the window.
    marks: VecDeque<(Nanos, u64, u64)>,
}

impl Reader {
    /// Records sent bytes; `false` if less than half of the last seconds' bytes were read.
    fn reads(&mut self, now: Nanos, sent: u64, room: Option<u64>) -> bool {
        let Some(room) = room else { return true };
        self.sent += sent;
        self.marks.push_back((now, self.sent, room));
        while self.marks.get(1).is_some_and(|(at, ..)| now.since(*at) >= PATIENCE) {
            self.marks.pop_front();
        }
        let (at, before, room_before) = self.marks[0];
        let (sent, moved) = (self.sent - before, room.saturating_sub(room_before));
        now.since(at) < PATIENCE || sent < TELLING_BYTES || moved * 2 >= sent
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn asked(text: &str) -> Option<Request> {
        parse(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn requests_are_read_and_everything_else_is_none() {
        let request = asked("GET /metrics?a=b&token=x HTTP/1.1\nHost: localhost:80\n\n").unwrap();
        assert_eq!((&request.path[..], request.token.as_deref()), ("/metrics", Some("x")));
        assert_eq!(request.host.as_deref(), Some("localhost:80"));
        let request = asked("GET / HTTP/1.1\nauthorization: Bearer abc\n\n").unwrap();
        assert_eq!(request.token.as_deref(), Some("abc"));
        assert!(!request.open_metrics);
        let accepts = "GET /metrics HTTP/1.1\nAccept: application/openmetrics-text;q=0.5,*/*\n\n";
        assert!(asked(accepts).unwrap().open_metrics);
        for none in [
            "",
            "GET /\n\n",
            "GET / HTTP/2\n\n",
            "GET http://x/ HTTP/1.1\n\n",
            "GET / HTTP/1.1\nx\n\n",
        ] {
            assert_eq!(asked(none), None, "{none}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn who_reads_no_more_is_known_within_seconds() {
        // Bytes of each second, and the share of them by which the window advances.
        let left_after = |bytes: u64, share: f64| {
            let (mut reader, mut room) = (Reader::default(), 60_000.0);
            (0..100_u64).find(|second| {
                room += if *second < 20 { bytes as f64 } else { bytes as f64 * share };
                !reader.reads(Nanos::from_secs(*second), bytes, Some(room as u64))
            })
        };
        assert_eq!(left_after(750, 1.0), None);
        assert_eq!(left_after(750, 0.2), Some(23));
        assert_eq!(left_after(270, 0.0), Some(22));
        assert_eq!(left_after(20, 0.0), None, "so little tells nothing");
        let mut reader = Reader::default();
        assert!((0..100).all(|second| reader.reads(Nanos::from_secs(second), 999, None)));
    }

    #[test]
    fn who_may_look_on() {
        let here: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let code = |request: &Request, token: Option<&Token>| {
            refused(request, here, token).map(|(code, _)| code)
        };
        let get = |host: &str, token: Option<&str>| Request {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            token: token.map(str::to_owned),
            host: Some(host.to_owned()),
            open_metrics: false,
        };
        for host in ["localhost", "127.0.0.1:8080", "[::1]:80", "LOCALHOST:1"] {
            assert_eq!(code(&get(host, None), None), None, "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example:80", "10.0.0.1"] {
            assert_eq!(code(&get(host, None), None), Some(403), "{host}");
        }
        let token = Token::of("0123456789abcdef");
        let said = |token| get("any.example", token);
        assert_eq!(code(&said(Some("0123456789abcdef")), Some(&token)), None);
        for wrong in [None, Some(""), Some("0123456789abcdeF"), Some("0123456789abcdef0")] {
            assert_eq!(code(&said(wrong), Some(&token)), Some(401), "{wrong:?}");
        }
        let post = Request { method: "POST".to_owned(), ..said(Some("0123456789abcdef")) };
        assert_eq!(code(&post, Some(&token)), Some(405));
    }
}
