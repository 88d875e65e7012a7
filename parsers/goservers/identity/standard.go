package main

import (
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/golang-jwt/jwt/v5"
	"github.com/golang-jwt/jwt/v5/request"
	"github.com/gorilla/mux"
)

// answer is what readers have of a request, or what a router takes it for.
type answer map[string]any

func (a answer) send(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the client has gone
}

// routeTo answers with the name of a route.
func routeTo(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer{"route": name}.send(w) }
}

// userRoute answers with the name of a route that has a parameter.
func userRoute(id func(r *http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { answer{"route": "user " + id(r)}.send(w) }
}

// readStandard answers with what net/http and golang-jwt have of a request.
func readStandard(w http.ResponseWriter, r *http.Request) {
	a := answer{"host": r.Host}
	if user, password, ok := r.BasicAuth(); ok {
		a["basic"] = user + "|" + password
	}
	if key := r.Header.Get("X-Api-Key"); key != "" {
		a["key"] = key
	}
	if cookie, err := r.Cookie("session"); err == nil {
		a["cookie"] = cookie.Value
	}
	if query := r.URL.Query(); query.Has("token") {
		a["query"] = query.Get("token")
	}
	if value := r.FormValue("token"); value != "" {
		a["query FormValue"] = value
	}
	secret := func(*jwt.Token) (any, error) { return []byte("secret"), nil }
	for name, extractor := range map[string]request.Extractor{
		"OAuth2Extractor": request.OAuth2Extractor, "BearerExtractor": request.BearerExtractor{},
	} {
		if token, err := request.ParseFromRequest(r, extractor, secret); err == nil && token.Valid {
			a["jwt "+name], _ = token.Claims.GetSubject()
		}
		if token, err := extractor.ExtractToken(r); err == nil {
			a["token "+name] = token
		}
	}
	a.send(w)
}

func standard() http.Handler {
	router := http.NewServeMux()
	router.HandleFunc("/r", readStandard)
	router.HandleFunc("/login", routeTo("login"))
	router.HandleFunc("/api/items", routeTo("items"))
	router.HandleFunc("/users/{id}", userRoute(func(r *http.Request) string { return r.PathValue("id") }))
	return router
}

func chiRouter() http.Handler {
	router := chi.NewRouter()
	router.HandleFunc("/r", readStandard)
	router.HandleFunc("/login", routeTo("login"))
	router.HandleFunc("/api/items", routeTo("items"))
	router.HandleFunc("/users/{id}", userRoute(func(r *http.Request) string { return chi.URLParam(r, "id") }))
	return router
}

func muxRouter() http.Handler {
	router := mux.NewRouter()
	router.HandleFunc("/r", readStandard)
	router.HandleFunc("/login", routeTo("login"))
	router.HandleFunc("/api/items", routeTo("items"))
	router.HandleFunc("/users/{id}", userRoute(func(r *http.Request) string { return mux.Vars(r)["id"] }))
	return router
}
