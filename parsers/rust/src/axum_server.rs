//! axum.
use crate::document::{at, Document, Form as Fields};
use axum::extract::{DefaultBodyLimit, Form, FromRequest, Multipart, Path, Request};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::Value;
use std::collections::HashMap;

type Answer = Result<String, (StatusCode, String)>;

fn refused(error: impl std::fmt::Display) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, format!("refused: {error}"))
}

/// The first part of the name.
async fn part(request: Request, asked: &str) -> Answer {
    let mut parts = Multipart::from_request(request, &()).await.map_err(refused)?;
    let mut found = None;
    while let Some(field) = parts.next_field().await.map_err(refused)? {
        let (name, file) = (field.name().map(String::from), field.file_name().map(String::from));
        let text = field.bytes().await.map_err(refused)?;
        if found.is_none() && name.as_deref() == Some(asked) {
            found = Some(match file {
                Some(file) => crate::of_file(&file),
                None => crate::of_text(&String::from_utf8(text.to_vec()).map_err(refused)?),
            });
        }
    }
    Ok(found.unwrap_or("none".into()))
}

async fn read(Path(way): Path<String>, request: Request) -> Answer {
    let asked = request.headers()["x-asked"].to_str().map_err(refused)?.to_string();
    match way.as_str() {
        "map" => {
            let Form(form) = Form::<HashMap<String, String>>::from_request(request, &()).await.map_err(refused)?;
            Ok(form.get(&asked).map_or("none".into(), |value| crate::of_text(value)))
        }
        "pairs" => {
            let Form(form) = Form::<Vec<(String, String)>>::from_request(request, &()).await.map_err(refused)?;
            Ok(form.iter().find(|pair| pair.0 == asked).map_or("none".into(), |pair| crate::of_text(&pair.1)))
        }
        "form" => Ok(Form::<Fields>::from_request(request, &()).await.map_err(refused)?.0.of(&asked)),
        "multipart" => part(request, &asked).await,
        "struct" => Ok(Json::<Document>::from_request(request, &()).await.map_err(refused)?.0.of(&asked)),
        _ => Ok(at(&Json::<Value>::from_request(request, &()).await.map_err(refused)?.0, &asked)),
    }
}

#[tokio::main(flavor = "current_thread")]
pub async fn serve(port: u16) {
    let app = Router::new().route("/{way}", post(read)).layer(DefaultBodyLimit::max(8 << 20));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
    axum::serve(listener, app).await.expect("it serves");
}
