//! Pages for people: reports in one file, thresholds for build servers, and the live page.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Folder, Nbd, Patience, Running, free_port, require};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const RUN: &str = "run null:1g --seconds 1.2 --ramp 0 --no-ceiling";

/// Response of a server: its head and its body.
pub fn get(address: &str, path: &str, more: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{more}\r\n"))
}

fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    // A connection that is refused early may be reset after the response.
    let _ = stream.read_to_string(&mut text);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned())
}

/// Starts a program that can be watched, and finds out where.
pub fn watched(drumfire: &Drumfire, folder: &Path, args: &str) -> (Running, String) {
    let mut running = Running::start(&mut drumfire.command(folder, args));
    let address = running.await_stderr(LIMIT, |text| {
        let (_, rest) = text.split_once("drumfire: watch http://")?;
        Some(rest.split_once("/\n")?.0.to_owned())
    });
    (running, address)
}

#[test]
fn a_run_is_a_page_markdown_and_cases_of_a_build_server() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    run(&format!("{RUN} --out r")).ok();
    let html = run("report r --as html").ok().stdout;
    for part in ["INDICATIVE", "Rate over time", "the same as a table", "set up", "<svg"] {
        assert!(html.to_lowercase().contains(&part.to_lowercase()), "{part} in {html}");
    }
    // The raw result is embedded, and valid.
    let (_, raw) = html.split_once("id=\"result\">").unwrap();
    std::fs::write(folder.path().join("again.json"), raw.split("</script>").next().unwrap())
        .unwrap();
    let table = run("report again.json").ok().stdout;
    assert_eq!(table, run("report r").ok().stdout);
    let markdown = run("report r --as markdown").ok().stdout;
    assert!(markdown.starts_with("# ") && markdown.contains("\n| all |"), "{markdown}");
    let junit = run("report r --as junit --fail-if iops<1");
    assert_eq!(junit.code, Some(4), "a null volume keeps no bound: {junit:?}");
    let case = "name=\"fail if iops&lt;1\"><failure message=\"";
    assert!(junit.stdout.contains(case), "{junit:?}");
    let scenario = r#"{"scenarios":[{"name":"s","rows":[{"id":"iops","published":1000000,
        "modelled":1010000,"live":null,"unit":"iops","error_percent":1.0}]}]}"#;
    std::fs::write(folder.path().join("s.json"), scenario).unwrap();
    let page = run("report s.json --as html").ok().stdout;
    assert!(page.contains("+1.0\u{a0}%") || page.contains("+1.0 %"), "{page}");
    // A truncated file and an unrelated one: a line each.
    std::fs::write(folder.path().join("cut.json"), &raw[..raw.len() / 3]).unwrap();
    std::fs::write(folder.path().join("odd.json"), "{\"scenarios\":7}").unwrap();
    for (file, why) in
        [("cut", "the file was truncated"), ("odd", "scenarios are not as they were")]
    {
        let refused = run(&format!("report {file}.json --as html"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(why) && refused.stdout.is_empty(), "{refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
    }
}

#[test]
fn thresholds_end_in_4_and_so_does_what_cannot_be_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let args = RUN.replace("null:1g", "ram:16m");
    let missed = run(&format!("{args} --out r --fail-if iops<1000G --fail-if mean>9s"));
    assert_eq!(missed.code, Some(4), "{missed:?}");
    assert!(missed.stderr.contains("MISSED: fail if iops<1000G"), "{missed:?}");
    assert!(missed.stderr.contains("kept: fail if mean>9s"), "{missed:?}");
    for wrong in ["p99>5", "speed>3", "iops<-3%"] {
        let refused = run(&format!("{RUN} --out x --fail-if {wrong}"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    assert!(!folder.path().join("x").exists(), "nothing was measured for a wrong threshold");
    let compared = run("compare r r --fail-if iops<-3%");
    assert_eq!(compared.code, Some(4), "{compared:?}");
    let why = "MISSED: fail if iops<-3%: cannot tell: +0.0 %, of 1 and 1 runs";
    assert!(compared.stderr.contains(why), "{compared:?}");
    let args = "sweep null:1g --seconds 0.2 --ramp 0 --axis outstanding=1,8 --repeats 1 --out s \
                --fail-if iops<1000G";
    let swept = run(args);
    assert_eq!(swept.code, Some(4), "{swept:?}");
    assert_eq!(swept.stderr.matches("MISSED: outstanding=").count(), 2, "{swept:?}");
}

#[test]
fn a_run_is_watched_and_nobody_who_looks_on_keeps_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1g --seconds 4 --ramp 0 --no-ceiling --out r --listen 127.0.0.1:0";
    let (running, address) = watched(&drumfire, folder.path(), args);
    // Three clients: one views the page, one reads nothing, one never sends a request.
    let look_on = || {
        let mut stream = TcpStream::connect(&*address).unwrap();
        write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        stream
    };
    let (mut reads, stopped) = (look_on(), look_on());
    let reader = std::thread::spawn(move || {
        let mut seen = String::new();
        let _ = reads.read_to_string(&mut seen);
        seen
    });
    let silent = TcpStream::connect(&*address).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    let (head, body) = get(&address, "/api/state", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let state: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(state["stage"], "running");
    assert!(state["second"]["iops"].as_f64().unwrap() > 0.0, "{state}");
    assert_eq!(state["second"]["workers"].as_array().unwrap().len(), 1, "{state}");
    let (head, page) = get(&address, "/", "");
    assert!(head.contains("default-src 'none'") && page.contains("EventSource"), "{head}");
    let (_, metrics) = get(&address, "/metrics", "");
    assert!(metrics.contains("\ndrumfire_iops "), "{metrics}");
    prometheus_takes(&metrics);
    let total = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in {metrics}")).parse::<f64>().unwrap()
    };
    let ios = total("drumfire_ios_total{direction=\"read\"}");
    assert!(ios > 0.0, "{metrics}");
    assert_eq!(total("drumfire_io_latency_seconds_count{direction=\"read\"}"), ios);
    let (head, open) = get(&address, "/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(head.contains("openmetrics-text; version=1.0.0"), "{head}");
    assert!(open.contains("# TYPE drumfire_ios counter\n") && open.ends_with("# EOF\n"), "{open}");
    for (request, code) in [
        (format!("POST / HTTP/1.1\r\nHost: {address}\r\n\r\n"), "405"),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), "403"),
        (format!("GET /../result.json HTTP/1.1\r\nHost: {address}\r\n\r\n"), "404"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9000)), "400"),
    ] {
        let (head, _) = ask(&address, &request);
        assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{request:.60}: {head}");
    }
    let ended = running.finish(Duration::from_secs(20));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    // The client that read has the verdict.
    let seen = reader.join().unwrap();
    assert!(seen.contains("\"stage\":\"ended\""), "{seen:.300}");
    let _ = (silent.shutdown(Shutdown::Both), stopped.shutdown(Shutdown::Both));
}

/// Number of I/Os of a job in `a_server_counts_the_ios_of_each_volume`.
const COUNTED: u64 = 300;

/// A job of a number of I/Os of 4 KiB on a volume.
fn job_of(volume: &str, read_percent: u32) -> String {
    format!(
        "[[steps]]\nseconds = 60.0\nends_with_first = true\n[[steps.groups]]\nvolumes = \
         [\"{volume}\"]\n[steps.groups.workload]\noutstanding = 4\nlimit_ios = {COUNTED}\n\
         [[steps.groups.workload.access.lines]]\nsize_bytes = \"4k\"\n\
         read_percent = {read_percent}\n"
    )
}

/// Reads metrics until they are enough.
type Scrape<'a> = dyn Fn(&dyn Fn(&str) -> bool) -> String + 'a;

/// A counter of a served volume.
fn value(metrics: &str, name: &str, volume: &str, direction: &str) -> u64 {
    let series =
        format!("drumfire_volume_{name}{{volume=\"{volume}\",direction=\"{direction}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&*series)?.parse().ok());
    value.unwrap_or_else(|| panic!("{series} in {metrics}"))
}

/// Does a few I/Os of each kind on volumes of an NBD server, and checks the exact counters.
fn count_exactly(nbd: u16, scrape: &Scrape<'_>) {
    for volume in ["memory", "file"] {
        let mut disk = Nbd::connect(&format!("127.0.0.1:{nbd}"), volume).unwrap();
        for at in 0..7 {
            assert!(disk.write(at << 16, &[1; 8192], false).unwrap());
            assert!(at > 2 || disk.read(at << 16, 4096).is_ok());
        }
        assert!(disk.flush().unwrap());
    }
    let mut disk = Nbd::connect(&format!("127.0.0.1:{nbd}"), "fails").unwrap();
    assert_eq!((0..5).filter(|_| disk.read(0, 4096).is_err()).count(), 3);
    let after = scrape(&|metrics| value(metrics, "ios_total", "fails", "read") == 2);
    for volume in ["memory", "file"] {
        let of = |name: &str, direction: &str| value(&after, name, volume, direction);
        assert_eq!([of("ios_total", "read"), of("bytes_total", "read")], [3, 3 * 4096], "{volume}");
        assert_eq!([of("ios_total", "write"), of("bytes_total", "write")], [7, 7 * 8192]);
        assert_eq!([of("ios_total", "flush"), of("latency_seconds_count", "write")], [1, 7]);
    }
    assert_eq!(value(&after, "errors_total", "fails", "read"), 3);
    assert_eq!(value(&after, "ios_total", "idle", "read"), 0);
}

#[test]
fn a_server_counts_the_ios_of_each_volume() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("img", &vec![7; 4 << 20]);
    let fault = "name = \"three reads\"\n[[fault]]\nverb = \"error\"\nop = \"read\"\ncount = 3\n";
    folder.file("fails.toml", fault.as_bytes());
    let [iscsi, nvme, nbd] = [(); 3].map(|()| free_port());
    let args = format!(
        "serve --iscsi 127.0.0.1:{iscsi} --nvme-tcp 127.0.0.1:{nvme} --nbd 127.0.0.1:{nbd} \
         --volume memory=ram:4m --volume file=file:img --volume idle=ram:1m \
         --volume fails=fault:./fails.toml(ram:4m) --listen 127.0.0.1:0"
    );
    let (_running, address) = watched(&drumfire, folder.path(), &args);
    // Counters are read once a second.
    let scrape = |enough: &dyn Fn(&str) -> bool| {
        let mut patience = Patience::new(LIMIT);
        loop {
            let (_, metrics) = get(&address, "/metrics", "");
            if enough(&metrics) || !patience.wait() {
                return metrics;
            }
        }
    };
    let before = scrape(&|metrics| metrics.contains("drumfire_volume_ios_total"));
    prometheus_takes(&before);
    let counters = ["ios_total", "bytes_total", "errors_total", "latency_seconds_count"];
    for volume in ["memory", "file", "idle", "fails"] {
        for (name, direction) in counters.iter().flat_map(|name| [(name, "read"), (name, "write")])
        {
            assert_eq!(value(&before, name, volume, direction), 0, "{name} of {volume}");
        }
    }
    count_exactly(nbd, &scrape);
    // Runs read more for their honesty checks.
    let mut least = [7, 3];
    for protocol in [
        format!("iscsi://127.0.0.1:{iscsi}/iqn.2026-11.io.drumfire:"),
        format!("nvme+tcp://127.0.0.1:{nvme}/nqn.2026-11.io.drumfire:"),
    ] {
        for volume in ["memory", "file"] {
            for (job, reads) in [("w.toml", 0), ("r.toml", 100)] {
                folder.file(job, job_of(&format!("{protocol}{volume}/1"), reads).as_bytes());
                let args = format!("run {job} --no-ceiling --destroy --out run --replace");
                let ended = drumfire.run(folder.path(), &args, LIMIT);
                assert!(ended.stdout.contains("IOPS"), "{ended:?}");
            }
        }
        least = least.map(|before| before + COUNTED);
        let enough = |metrics: &str| {
            ["memory", "file"].iter().all(|volume| {
                value(metrics, "ios_total", volume, "write") >= least[0]
                    && value(metrics, "ios_total", volume, "read") >= least[1]
            })
        };
        let after = scrape(&enough);
        assert!(enough(&after), "{protocol}: at least {least:?} in {after}");
        for volume in ["memory", "file"] {
            let writes = value(&after, "ios_total", volume, "write");
            assert_eq!(writes, least[0], "{protocol}: none counts twice, of {volume}");
        }
    }
}

/// Requests a stream of a watched server.
fn streaming(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    stream
}

/// Whether the peer closes within a time, after any data.
fn closes(stream: &mut TcpStream, within: Duration) -> bool {
    let end = Instant::now() + within;
    let mut bytes = [0; 65_536];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        stream.set_read_timeout(Some(left)).unwrap();
        match stream.read(&mut bytes) {
            Ok(1..) => {}
            Ok(0) => return true,
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn slow_connections_shut_nobody_out() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "serve --nbd 127.0.0.1:0 --volume d=ram:1m --listen 127.0.0.1:0";
    let (_running, address) = watched(&drumfire, folder.path(), args);
    let connect = || TcpStream::connect(&*address).unwrap();
    let slow = |request: &str| {
        let mut stream = connect();
        write!(stream, "{request}").unwrap();
        stream
    };
    let scrapes = |why: &str| {
        for _ in 0..20 {
            let (head, _) = get(&address, "/metrics", "");
            assert!(head.starts_with("HTTP/1.1 200 "), "{why}: {head}");
        }
    };
    // Some send nothing, some a partial request, some a request and read nothing.
    let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\n");
    for request in ["", "G", &head, &format!("{head}\r\n")] {
        let mut held: Vec<TcpStream> = (0..40).map(|_| slow(request)).collect();
        scrapes(request);
        // More and more of them, while a client sends a request.
        held.extend((0..200).map(|_| slow(request)));
        scrapes(request);
    }
    // One byte per second does not extend the time limit.
    let mut drips = slow("GET / HT");
    let begun = Instant::now();
    let ended = (0..20).any(|_| {
        closes(&mut drips, Duration::from_secs(1)) || {
            let _ = drips.write_all(b"x");
            false
        }
    });
    assert!(ended && begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[test]
fn a_viewer_that_reads_nothing_is_left_and_one_that_reads_is_not() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "serve --nbd 127.0.0.1:0 --volume d=ram:1m --listen 127.0.0.1:0";
    let (_running, address) = watched(&drumfire, folder.path(), args);
    let reads = std::thread::spawn({
        let address = address.clone();
        move || closes(&mut streaming(&address), Duration::from_secs(20))
    });
    // One reads at first and stops.
    let mut stops = streaming(&address);
    assert!(!closes(&mut stops, Duration::from_secs(3)));
    let stopped: Vec<TcpStream> = (0..40).map(|_| streaming(&address)).collect();
    let (head, _) = get(&address, "/metrics", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    std::thread::sleep(Duration::from_secs(9));
    // Clients that read nothing have lost their slots.
    let mut next = streaming(&address);
    let mut begins = [0; 12];
    next.read_exact(&mut begins).unwrap();
    assert_eq!(&begins, b"HTTP/1.1 200");
    for mut stream in stopped.into_iter().chain([stops]) {
        assert!(closes(&mut stream, Duration::from_secs(2)), "it is kept");
    }
    assert!(!reads.join().unwrap(), "who reads is left");
}

fn prometheus_takes(metrics: &str) {
    let Some(promtool) = require("promtool") else { return };
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn others_need_a_token_and_a_server_is_watched_too() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let refused = run(&format!("{RUN} --listen 0.0.0.0:0"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--listen-token FILE"), "{refused:?}");
    std::fs::write(folder.path().join("short"), "abc\n").unwrap();
    let refused = run(&format!("{RUN} --listen 127.0.0.1:0 --listen-token short"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    std::fs::write(folder.path().join("token"), "0123456789abcdef0123\n").unwrap();
    let args = "serve --iscsi 127.0.0.1:0 --volume disk=ram:8m --listen 127.0.0.1:0 \
                --listen-token token";
    let (running, address) = watched(&drumfire, folder.path(), args);
    let mut patience = Patience::new(LIMIT);
    let state = "/api/state?token=0123456789abcdef0123";
    while !get(&address, state, "").1.contains("\"stage\":\"serving\"") {
        assert!(patience.wait(), "it never says that it serves");
    }
    for (path, more, code) in [
        ("/api/state", "", "401"),
        ("/api/state?token=0123456789abcdef0124", "", "401"),
        ("/api/state?token=0123456789abcdef0123", "", "200"),
        ("/metrics", "Authorization: Bearer 0123456789abcdef0123\r\n", "200"),
    ] {
        let (head, body) = get(&address, path, more);
        assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{path}: {head}");
        assert!(!body.contains("0123456789abcdef"), "{body}");
        if path == "/metrics" {
            assert!(body.contains("drumfire_volume_bytes{volume=\"disk\"} 8388608"), "{body}");
            prometheus_takes(&body);
        }
    }
    let look_on = "GET /events?token=0123456789abcdef0123 HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut stream = TcpStream::connect(&*address).unwrap();
    stream.write_all(look_on.as_bytes()).unwrap();
    running.signal(Signal::TERM);
    let ended = running.finish(Duration::from_secs(10));
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn prometheus_understands_what_the_dashboard_asks() {
    let Some(promtool) = require("promtool") else { return };
    let folder = Folder::new();
    let dashboard: Value = serde_json::from_str(include_str!("../../docs/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    let mut count = 0;
    for target in targets {
        let expression = target["expr"].as_str().unwrap().replace("$job", ".*");
        // JSON is YAML.
        let expression = Value::from(expression);
        rules.push_str(&format!("  - record: asked_{count}\n    expr: {expression}\n"));
        count += 1;
    }
    let file = folder.file("rules.yml", rules.as_bytes());
    let check = |file: &Path| {
        let mut command = Command::new(&promtool);
        drumfire_tests::run(command.args(["check", "rules"]).arg(file), LIMIT)
    };
    let said = check(&file).ok();
    assert!(said.stdout.contains(&format!("{count} rules found")), "{said:?}");
    let wrong = folder.file("wrong.yml", rules.replace("job=", "job").as_bytes());
    assert_ne!(check(&wrong).code, Some(0));
}

/// The page at an address as rendered by a browser after a while, with its script run.
fn browsed(folder: &Path, address: &str) -> Option<String> {
    let mut command = browser(folder)?;
    command.args(["--timeout=6000", "--dump-dom"]).arg(address);
    let said = drumfire_tests::run(&mut command, LIMIT);
    assert!(!said.stderr.contains("CONSOLE"), "{}", said.stderr);
    Some(said.stdout)
}

/// A headless browser without background requests.
fn browser(folder: &Path) -> Option<Command> {
    let chromium = require("chromium")?;
    let mut command = Command::new(chromium);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("browser").display()));
    Some(command)
}

/// Frames a page and reports in its own title the brightness of the background, and the minimum
/// contrast of a text to its background, by WCAG 2.2: 4.5 is enough for small text.
const CONTRAST: &str = r"<script>onload=()=>{const w=f.contentWindow,d=f.contentDocument;
const rgb=t=>{const m=t.match(/[\d.]+/g)||[0,0,0,0];return m.map(Number)};
const part=v=>(v/=255)<=.04045?v/12.92:((v+.055)/1.055)**2.4;
const light=c=>.2126*part(c[0])+.7152*part(c[1])+.0722*part(c[2]);
const ground=e=>{for(;e;e=e.parentElement){const c=rgb(w.getComputedStyle(e).backgroundColor);
if(c.length<4||c[3]>.5)return light(c)}return 1};
let least=99,texts=0,at='';
for(const e of d.querySelectorAll('body *')){
const own=[...e.childNodes].some(n=>n.nodeType==3&&n.data.trim());
if(!own||!e.getClientRects().length||/script|style|title|desc/i.test(e.tagName))continue;
const s=w.getComputedStyle(e),ink=light(rgb(/svg/.test(e.namespaceURI)?s.fill:s.color));
const b=ground(e),r=(Math.max(ink,b)+.05)/(Math.min(ink,b)+.05);texts++;
if(r<least){least=r;at=e.textContent.slice(0,30)}}
document.title=`ground ${ground(d.body)} least ${least} texts ${texts} at ${at}`}</script>
<iframe id=f src=r.html style='width:1000px;height:900px;border:0'></iframe>";

#[test]
fn a_page_is_readable_in_light_and_in_dark() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    drumfire.run(folder.path(), &format!("{RUN} --out r"), LIMIT).ok();
    let html = drumfire.run(folder.path(), "report r --as html", LIMIT).ok().stdout;
    folder.file("r.html", html.as_bytes());
    let frame = folder.file("frame.html", CONTRAST.as_bytes());
    for (looks, ground) in [(None, 0.8..=1.0), (Some("--force-dark-mode"), 0.0..=0.05)] {
        let Some(mut command) = browser(folder.path()) else { return };
        command.args(looks);
        command.args(["--allow-file-access-from-files", "--timeout=6000", "--dump-dom"]);
        let said = drumfire_tests::run(command.arg(&frame), LIMIT);
        let title = said.stdout.split_once("<title>").unwrap_or_else(|| panic!("{said:?}")).1;
        let words: Vec<&str> = title.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        assert!(ground.contains(&number(1)), "{looks:?}: {title:.120}");
        assert!(number(3) >= 4.5 && number(5) >= 50.0, "{looks:?}: {title:.120}");
    }
}

#[test]
fn a_page_is_printed_and_fits_a_telephone() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    drumfire.run(folder.path(), &format!("{RUN} --out r"), LIMIT).ok();
    let html = drumfire.run(folder.path(), "report r --as html", LIMIT).ok().stdout;
    let file = folder.file("r.html", html.as_bytes());
    let Some(mut command) = browser(folder.path()) else { return };
    let printed = folder.path().join("r.pdf");
    command.arg(format!("--print-to-pdf={}", printed.display())).arg("--no-pdf-header-footer");
    let said = drumfire_tests::run(command.arg(&file), LIMIT);
    assert!(!said.stderr.contains("CONSOLE"), "{}", said.stderr);
    assert!(std::fs::read(&printed).unwrap().starts_with(b"%PDF"));
    // The page in a frame that is 400 pixels wide reports its preferred width.
    let framed = "<script>onload=()=>{const d=f.contentDocument.documentElement;\
                  document.title=`wide ${d.scrollWidth} of ${d.clientWidth}`}</script>\
                  <iframe id=f src=r.html style=\"width:400px;height:900px;border:0\"></iframe>";
    let frame = folder.file("frame.html", framed.as_bytes());
    let mut command = browser(folder.path()).unwrap();
    command.args(["--allow-file-access-from-files", "--timeout=6000", "--dump-dom"]);
    let said = drumfire_tests::run(command.arg(&frame), LIMIT);
    let (_, widths) = said.stdout.split_once("<title>wide ").unwrap_or_else(|| panic!("{said:?}"));
    let (wants, has) = widths.split_once(" of ").unwrap();
    let has = has.split_once('<').unwrap().0;
    let number = |text: &str| text.parse::<u32>().unwrap();
    assert!(number(wants) <= number(has), "it wants {wants} pixels of {has}");
}

#[test]
fn a_browser_draws_what_was_measured_and_has_nothing_to_complain() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1g --seconds 20 --ramp 0 --no-ceiling --out r --listen 127.0.0.1:0";
    let (running, address) = watched(&drumfire, folder.path(), args);
    let Some(mut page) = browsed(folder.path(), &format!("http://{address}/")) else { return };
    let rate = |page: &str| {
        page.split_once("id=\"rate\"").unwrap().1.split_once('>').unwrap().1.to_owned()
    };
    let is_drawn = |page: &str| rate(page).starts_with(|c: char| c.is_ascii_digit());
    // A browser prints the page in its state at load, which may be before the first second.
    for _ in 0..4 {
        if !is_drawn(&page) {
            page = browsed(folder.path(), &format!("http://{address}/")).unwrap();
        }
    }
    assert!(is_drawn(&page), "{:.100}", rate(&page));
    assert!(page.contains("no errors") && page.contains("<path class=\"l \""), "{page}");
    running.finish(LIMIT);
    let html = drumfire.run(folder.path(), "report r --as html", LIMIT).ok().stdout;
    let file = folder.file("r.html", html.as_bytes());
    let page = browsed(folder.path(), &format!("file://{}", file.display())).unwrap();
    let figure = page.split_once("Rate over time</title>").unwrap().1;
    let points = figure.split("</svg>").next().unwrap().matches("class=\"point").count();
    let result = folder.path().join("r/result.json");
    let result: Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
    assert_eq!(points, result["intervals"].as_array().unwrap().len(), "{figure:.300}");
}
