//! Third-party texts: names that a portal lists, files, jobs and results of other authors. No
//! control character in them reaches the terminal, and none forges a line.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Terminal};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// An escape sequence for the title, one that clears the screen, a forged line, C1, DEL, and
/// characters that reverse the direction.
const ODD: &str =
    "\u{1b}]0;PWNED\u{7}\u{1b}[2Jred\nforged: line\u{9b}31m\u{7f}\u{202e}\u{2066}x\u{200f}";

/// Characters that control a terminal, except line feeds.
fn steers(text: &str) -> Option<char> {
    text.chars().find(|letter| {
        letter.is_control() && *letter != '\n'
            || matches!(*letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(*letter, '\u{2066}'..='\u{2069}')
    })
}

fn harmless(what: &str, text: &str) {
    assert_eq!(steers(text), None, "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{what}: {text:?}");
}

fn both_harmless(what: &str, ended: &Finished) {
    harmless(what, &ended.stdout);
    harmless(what, &ended.stderr);
}

/// A portal that answers a log-in and lists a target by an odd name.
fn portal() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(list(stream))));
    port
}

/// Answers requests; ends with the connection, or at any other request.
fn list(mut stream: TcpStream) -> std::io::Result<()> {
    for number in 1_u32.. {
        let mut request = [0; 48];
        stream.read_exact(&mut request)?;
        let len = u32::from_be_bytes([0, request[5], request[6], request[7]]) as usize;
        stream.read_exact(&mut vec![0; len.next_multiple_of(4)])?;
        let command = u32::from_be_bytes(request[24..28].try_into().unwrap());
        let mut answer = [0; 48];
        answer[16..20].copy_from_slice(&request[16..20]);
        answer[24..28].copy_from_slice(&number.to_be_bytes());
        let text = match request[0] & 0x3f {
            3 => {
                (answer[0], answer[1]) = (0x23, request[1] & 0x8f);
                answer[8..14].copy_from_slice(&request[8..14]);
                answer[15] = 1;
                "AuthMethod=None\0HeaderDigest=None\0DataDigest=None\0\
                 MaxRecvDataSegmentLength=8192\0TargetPortalGroupTag=1\0"
                    .to_owned()
            }
            4 => {
                (answer[0], answer[1]) = (0x24, 0x80);
                answer[20..24].fill(0xff);
                format!("TargetName=iqn.2020-01.x:{ODD}\0TargetAddress={ODD}:3260,1\0")
            }
            _ => return Ok(()),
        };
        let next = command + u32::from(request[0] & 0x40 == 0);
        answer[28..32].copy_from_slice(&next.to_be_bytes());
        answer[32..36].copy_from_slice(&(next + 64).to_be_bytes());
        answer[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
        let mut bytes = answer.to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(48 + text.len().next_multiple_of(4), 0);
        stream.write_all(&bytes)?;
    }
    Ok(())
}

#[test]
fn a_portal_cannot_steer_the_terminal_by_its_names() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (folder, port) = (Folder::new(), portal());
    let args = format!("discover 127.0.0.1:{port}");
    let ended = drumfire.run(folder.path(), &args, LIMIT).ok();
    both_harmless("discover", &ended);
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    let terminal = Terminal::open();
    let mut program = terminal.start(&drumfire.command(folder.path(), &args));
    program.finish(LIMIT);
    let seen = program.seen().replace("\r\n", "\n");
    assert!(seen.contains("iqn.2020-01.x:"), "{seen:?}");
    harmless("discover on a terminal", &seen);
}

/// Puts an odd text into every free-text string of a document.
fn poison(name: &str, value: &mut Value) {
    const FIXED: [&str; 12] = [
        "origin",
        "class",
        "verdict",
        "started",
        "schema_version",
        "size",
        "kind",
        "code",
        "git",
        "histograms",
        "digest",
        "buckets",
    ];
    match value {
        Value::String(text) if !FIXED.contains(&name) => text.insert_str(0, ODD),
        Value::Array(all) => all.iter_mut().for_each(|value| poison(name, value)),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| poison(name, value)),
        _ => {}
    }
}

/// Folder of a run whose texts are all odd, as far as it is still readable.
fn poisoned(drumfire: &Drumfire, folder: &Folder, name: &str) {
    let args = format!("run ram:1m null:1m --seconds 1 --ramp 0 --no-ceiling --out {name}");
    drumfire.run(folder.path(), &args, LIMIT).ok();
    let path = folder.path().join(name).join("result.json");
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let fields = document.as_object_mut().unwrap();
    fields.remove("digest");
    // One field at a time: a field that would make the document unreadable is reset.
    for field in fields.keys().cloned().collect::<Vec<_>>() {
        let before = document[&field].clone();
        poison(&field, &mut document[&field]);
        fs::write(&path, document.to_string()).unwrap();
        let report = format!("report {name}");
        let ended = drumfire.run(folder.path(), &report, LIMIT);
        both_harmless(&field, &ended);
        if ended.code != Some(0) {
            document[&field] = before;
        }
    }
    fs::write(&path, document.to_string()).unwrap();
    assert!(document["job"]["name"].as_str().unwrap().starts_with(ODD), "{document}");
    assert!(document["host"]["kernel"].as_str().unwrap().starts_with(ODD), "{document}");
    assert!(document["checks"][0]["evidence"].as_str().unwrap().starts_with(ODD), "{document}");
}

#[test]
fn a_result_of_others_cannot_steer_the_terminal() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for name in ["a", "b"] {
        poisoned(&drumfire, &folder, name);
    }
    for args in ["report a", "report a b --fail-if p99>1s", "compare a b", "report a --as text"] {
        let ended = drumfire.run(folder.path(), args, LIMIT);
        assert!(ended.stdout.contains("PWNED"), "{args}: {ended:?}");
        both_harmless(args, &ended);
    }
    // Documents have the same meaning, and keep every byte.
    let document = |args: &str| {
        let ended = drumfire.run(folder.path(), args, LIMIT).ok();
        both_harmless(args, &ended);
        ended.json()
    };
    let result = document("report a --as json");
    assert!(result["job"]["name"].as_str().unwrap().starts_with(ODD), "{result}");
    document("report a --as fio");
    document("compare a b --json");
    // Nor do other forms, on a terminal.
    for form in ["text", "json", "csv", "iometer", "hlog", "junit", "markdown", "html", "fio"] {
        let terminal = Terminal::open();
        let args = format!("report a --as {form} --color never");
        let mut program = terminal.start(&drumfire.command(folder.path(), &args));
        program.finish(LIMIT);
        harmless(&args, &program.seen().replace("\r\n", "\n"));
    }
}

#[test]
fn files_and_jobs_of_others_cannot_steer_the_terminal() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let odd = ODD.replace('/', "");
    fs::create_dir(folder.path().join("tree")).unwrap();
    fs::write(folder.path().join("tree").join(&odd), [1; 5000]).unwrap();
    let not_text = OsString::from_vec(b"\xff\x1b[2J".to_vec());
    fs::write(folder.path().join("tree").join(not_text), [1; 5000]).unwrap();
    let line = odd.replace('\n', " ");
    folder.file("odd.fio", format!("[{line}]\nrw={line}\nsize=1m\n").as_bytes());
    folder.file("good.fio", format!("[{line}]\nrw=read\nioengine=null\nsize=1m\n").as_bytes());
    let toml = format!("name = {:?}\n[[steps]]\nseconds = 1\n", odd.replace('\u{7f}', ""));
    folder.file("odd.toml", toml.as_bytes());
    for args in [
        "backup tree --to kept --verify",
        "backup --from kept --verify",
        "explain odd.fio",
        "explain good.fio",
        "run odd.fio",
        "run good.fio --out good",
        "fio good.fio",
        "fio odd.fio",
        "run odd.toml",
        "explain odd.toml",
        "plan --bill odd.toml",
        "audit odd.toml",
    ] {
        both_harmless(args, &drumfire.run(folder.path(), args, LIMIT));
    }
    // The name is an argument, as when a shell expands file names.
    for words in [
        vec!["run", &odd],
        vec!["report", &odd],
        vec!["compare", &odd, &odd],
        vec![&odd],
        vec!["run", "null:1m", &format!("--{odd}")],
        vec!["serve", "--volume", &odd],
        vec!["serve", "--volume", &format!("{odd}=ram:1m?{odd}")],
        vec!["fio", &odd],
        vec!["backup", &odd, "--to", "x"],
        vec!["explain", &odd],
        vec!["discover", &odd],
        vec!["volume", "show", &odd],
        vec!["attach", "ram:1m", &odd, "--cores", &odd],
        vec!["detach", &odd],
        vec!["plan", "--bill", &odd],
        vec!["catalogue", "show", &odd],
        vec!["database", &odd],
        vec!["scenario", "show", &odd],
        vec!["audit", &odd],
    ] {
        let mut command = drumfire.command(folder.path(), "");
        command.args(&words);
        both_harmless(&words.join(" "), &drumfire_tests::run(&mut command, LIMIT));
    }
    assert!(Path::new(folder.path()).join("kept").exists());
}
