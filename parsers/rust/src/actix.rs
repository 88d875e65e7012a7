//! Actix Web.
use crate::document::{at, Document, Form as Fields};
use actix_multipart::Multipart;
use actix_web::{error::ErrorBadRequest, web, App, Error, FromRequest, HttpRequest, HttpServer};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::Value;
use std::collections::HashMap;

fn refused(error: impl std::fmt::Display) -> Error {
    ErrorBadRequest(format!("refused: {error}"))
}

/// The first part of the name.
async fn part(mut parts: Multipart, asked: &str) -> Result<String, Error> {
    let mut found = None;
    while let Some(mut field) = parts.try_next().await.map_err(refused)? {
        let mut text = Vec::new();
        while let Some(piece) = field.next().await {
            text.extend_from_slice(&piece.map_err(refused)?);
        }
        if found.is_none() && field.name() == Some(asked) {
            found = Some(match field.content_disposition().and_then(|disposition| disposition.get_filename()) {
                Some(file) => crate::of_file(file),
                None => crate::of_text(&String::from_utf8(text).map_err(refused)?),
            });
        }
    }
    Ok(found.unwrap_or("none".into()))
}

async fn read(way: web::Path<String>, request: HttpRequest, payload: web::Payload) -> Result<String, Error> {
    let asked = request.headers().get("X-Asked").and_then(|name| name.to_str().ok()).unwrap_or_default();
    let mut payload = payload.into_inner();
    match way.as_str() {
        "map" => {
            let form = web::Form::<HashMap<String, String>>::from_request(&request, &mut payload).await.map_err(refused)?;
            Ok(form.get(asked).map_or("none".into(), |value| crate::of_text(value)))
        }
        "form" => Ok(web::Form::<Fields>::from_request(&request, &mut payload).await.map_err(refused)?.of(asked)),
        "multipart" => part(Multipart::from_request(&request, &mut payload).await.map_err(refused)?, asked).await,
        "struct" => Ok(web::Json::<Document>::from_request(&request, &mut payload).await.map_err(refused)?.of(asked)),
        _ => Ok(at(&web::Json::<Value>::from_request(&request, &mut payload).await.map_err(refused)?.0, asked)),
    }
}

#[actix_web::main]
pub async fn serve(port: u16) -> std::io::Result<()> {
    HttpServer::new(|| {
        App::new()
            .app_data(web::JsonConfig::default().limit(8 << 20))
            .app_data(web::FormConfig::default().limit(8 << 20))
            .route("/{way}", web::post().to(read))
    })
    .workers(1)
    .bind(("127.0.0.1", port))?
    .run()
    .await
}
