//! rustservers FRAMEWORK PORT serves one framework. It prints the version first.
//!
//! The first element of a path is the way to read, the header X-Asked the name that is asked for.
mod actix;
mod axum_server;
mod document;

use serde_json::Value;

/// A value as an answer.
fn answer(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "none".into(),
        Some(Value::String(text)) => of_text(text),
        Some(Value::Number(number)) => format!("number {number}"),
        Some(value) => format!("other {value}"),
    }
}

fn of_text(text: &str) -> String {
    format!("text {}", Value::from(text))
}

fn of_file(name: &str) -> String {
    format!("other {}", serde_json::json!({ "file": name }))
}

/// The version of a crate in the lock that cargo has written as it built this program.
fn version(name: &str) -> &'static str {
    let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"));
    let head = format!("name = \"{name}\"\nversion = \"");
    lock.split_once(&head).and_then(|(_, rest)| rest.split('"').next()).unwrap_or("?")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let port: u16 = arguments[2].parse().expect("a port");
    if arguments[1] == "axum" {
        println!("axum {}, multer {}, serde_json {}, serde_urlencoded {}", version("axum"), version("multer"), version("serde_json"), version("serde_urlencoded"));
        axum_server::serve(port);
    } else {
        println!("actix-web {}, actix-multipart {}", version("actix-web"), version("actix-multipart"));
        actix::serve(port).expect("it serves");
    }
}
