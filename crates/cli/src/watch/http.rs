//! As much of HTTP as browsers and collectors need to read: one request of a connection, GET only.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use report::watch::{document, metrics, page};

use super::Shared;
use super::token::Token;

/// Most connections at once; more are told to come later.
const CONNECTIONS: usize = 32;
/// Longest request.
const REQUEST_MAX: usize = 8 << 10;
/// Most pieces that a request comes in: who sends a byte at a time is not waited for.
const PARTS_MAX: usize = 64;
/// A client that sends or reads nothing for this long is dropped.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a stream says that it is there when nothing is new.
const STILL: Duration = Duration::from_secs(1);
/// Stack of a connection's thread.
const STACK: usize = 256 << 10;

/// Answers on threads of its own until the process ends.
pub(super) fn start(
    listener: TcpListener,
    shared: Arc<Shared>,
    token: Option<Token>,
) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    let here = listener.local_addr()?;
    let accept = move || {
        for stream in listener.incoming() {
            // A peer that left, or too many open files: the next may do better.
            let Ok(stream) = stream else {
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let (shared, token, open) = (Arc::clone(&shared), token.clone(), Arc::clone(&open));
            if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                let _ = answer(
                    &stream,
                    503,
                    "text/plain",
                    "too many viewers: try again later\n",
                    false,
                );
                continue;
            }
            let count = Arc::clone(&open);
            let serve = move || {
                // Who went away needs no answer.
                let _ = serve(&stream, here, &shared, token.as_ref());
                count.fetch_sub(1, Ordering::Relaxed);
            };
            if named("watcher").stack_size(STACK).spawn(serve).is_err() {
                open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    named("watch").stack_size(STACK).spawn(accept).map(drop)
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

/// What was asked for.
#[derive(Debug, Default, PartialEq)]
struct Request {
    method: String,
    path: String,
    token: Option<String>,
    host: Option<String>,
}

fn serve(
    stream: &TcpStream,
    here: SocketAddr,
    shared: &Shared,
    token: Option<&Token>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
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
        "/metrics" => {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            answer(stream, 200, kind, &metrics(&shared.moment()), is_head)
        }
        "/api/state" => {
            let text = json(document(&shared.moment()));
            answer(stream, 200, "application/json", &text, is_head)
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

/// Why a request gets nothing.
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
            (!knows).then_some((401, "give the token: ?token=… or Authorization: Bearer …\n"))
        }
        // A page of elsewhere may have a name that leads here; no browser says that name of itself.
        None if here.ip().is_loopback() => {
            let is_own = request.host.as_deref().is_none_or(is_loopback);
            (!is_own).then_some((403, "ask for localhost or 127.0.0.1\n"))
        }
        None => None,
    }
}

/// Whether a host of a request is this one by name or number.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, _)) => inside,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_number = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_number || name.eq_ignore_ascii_case("localhost")
}

/// Reads a request up to the empty line; `None` if it is none.
fn read(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut text = Vec::new();
    let mut part = [0; 1024];
    for _ in 0..PARTS_MAX {
        if text.windows(4).any(|end| end == b"\r\n\r\n") || text.len() >= REQUEST_MAX {
            break;
        }
        let count = stream.read(&mut part)?;
        if count == 0 {
            break;
        }
        text.extend(&part[..count]);
    }
    Ok(parse(&text))
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
    };
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "host" => request.host = Some(value.trim().to_owned()),
            "authorization" => {
                let said = value.trim().strip_prefix("Bearer ").map(|said| said.trim().to_owned());
                request.token = said.or(request.token);
            }
            _ => {}
        }
    }
    Some(request)
}

/// What browsers are held to: nothing of elsewhere, in no frame, nothing kept.
const HEAD: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
                    Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\
                    Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
                    script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\n";

fn answer(
    mut stream: &TcpStream,
    code: u16,
    kind: &str,
    body: &str,
    is_head: bool,
) -> io::Result<()> {
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
    stream.write_all(head.as_bytes())?;
    if is_head { Ok(()) } else { stream.write_all(body.as_bytes()) }
}

/// Sends what is new as soon as it is, until the other end is gone.
fn events(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{HEAD}Connection: close\r\n\r\n\
         retry: 1000\n\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut number = 0;
    loop {
        match shared.newer(number, STILL) {
            Some((newest, moment)) => {
                number = newest;
                let event = format!("id: {number}\ndata: {}\n\n", document(&moment));
                stream.write_all(event.as_bytes())?;
                shared.has(number);
            }
            None => stream.write_all(b"event: still\ndata: \n\n")?,
        }
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
