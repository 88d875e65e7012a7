package main

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Document is what documents are decoded into.
type Document struct {
	Model  any   `json:"model" form:"model"`
	UserID any   `json:"user_id" form:"user_id"`
	User   *User `json:"user"`
}

// User is the object within a document.
type User struct {
	Email any `json:"email"`
}

// Form is what forms are decoded into.
type Form struct {
	Email     *string `form:"email" json:"email" schema:"email"`
	UserEmail *string `form:"user_email" json:"user_email" schema:"user_email"`
	Model     *string `form:"model" json:"model" schema:"model"`
}

// Counted takes a whole number.
type Counted struct {
	Model *int64 `json:"model"`
}

// of returns the value at a path.
func (d Document) of(asked string) string {
	switch {
	case asked == "model":
		return answer(d.Model)
	case asked == "user_id":
		return answer(d.UserID)
	case d.User != nil:
		return answer(d.User.Email)
	}
	return "none"
}

// of returns the value of a field. The form has none for other names.
func (f Form) of(asked string) string {
	field, ok := map[string]*string{"email": f.Email, "user_email": f.UserEmail, "model": f.Model}[asked]
	if !ok || field == nil {
		return "none"
	}
	return answer(*field)
}

// of returns the number.
func (c Counted) of() string {
	if c.Model == nil {
		return "none"
	}
	return answer(json.Number(strconv.FormatInt(*c.Model, 10)))
}

// at returns the value at a path of an object.
func at(document map[string]any, asked string) string {
	if asked != "user.email" {
		return answer(document[asked])
	}
	user, _ := document["user"].(map[string]any)
	return answer(user["email"])
}

// answer returns a value as an answer.
func answer(value any) string {
	switch value := value.(type) {
	case nil:
		return "none"
	case string:
		text, _ := json.Marshal(value)
		return "text " + string(text)
	case float64:
		return fmt.Sprintf("number %v", value)
	case json.Number:
		return "number " + value.String()
	}
	text, _ := json.Marshal(value)
	return "other " + string(text)
}

// first returns the first of a field's values.
func first(values []string) string {
	if len(values) == 0 {
		return "none"
	}
	return answer(values[0])
}

func refusal(err error) string { return fmt.Sprintf("refused: %.200v", err) }
