//! What documents are decoded into.
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub struct Document {
    model: Option<Value>,
    user: Option<User>,
}

#[derive(Deserialize)]
pub struct User {
    email: Option<Value>,
}

impl Document {
    pub fn of(&self, asked: &str) -> String {
        if asked == "model" {
            return crate::answer(self.model.as_ref());
        }
        crate::answer(self.user.as_ref().and_then(|user| user.email.as_ref()))
    }
}

/// What stands at a path of a document.
pub fn at(document: &Value, asked: &str) -> String {
    crate::answer(if asked == "user.email" { document.get("user").and_then(|user| user.get("email")) } else { document.get(asked) })
}

/// A form as it is decoded into a struct.
#[derive(Deserialize)]
pub struct Form {
    email: Option<String>,
    user_email: Option<String>,
    model: Option<String>,
}

impl Form {
    pub fn of(&self, asked: &str) -> String {
        let value = match asked {
            "email" => &self.email,
            "user_email" => &self.user_email,
            "model" => &self.model,
            _ => &None,
        };
        value.as_deref().map_or("none".into(), crate::of_text)
    }
}
