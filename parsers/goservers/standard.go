package main

import (
	"net/http"

	"github.com/go-chi/render"
	"github.com/gorilla/schema"
)

const maxMemory = 4 << 20 // of a form with files

// serveStandard serves net/http's own forms, and decoders on them.
func serveStandard(address string) error {
	decoder := schema.NewDecoder()
	decoder.IgnoreUnknownKeys(true)
	return serveReaders(address, map[string]func(r *http.Request, asked string) (string, error){
		"FormValue": func(r *http.Request, asked string) (string, error) {
			_ = r.FormValue(asked) // parses the form, and passes over errors
			return first(r.Form[asked]), nil
		},
		"PostFormValue": func(r *http.Request, asked string) (string, error) {
			_ = r.PostFormValue(asked)
			return first(r.PostForm[asked]), nil
		},
		"ParseForm": func(r *http.Request, asked string) (string, error) {
			err := r.ParseForm()
			return first(r.PostForm[asked]), err
		},
		"ParseMultipartForm": func(r *http.Request, asked string) (string, error) {
			err := r.ParseMultipartForm(maxMemory)
			return first(r.PostForm[asked]), err
		},
		"MultipartReader": func(r *http.Request, asked string) (string, error) {
			reader, err := r.MultipartReader()
			if err != nil {
				return "", err
			}
			form, err := reader.ReadForm(maxMemory)
			if err != nil {
				return "", err
			}
			return first(form.Value[asked]), nil
		},
		"gorilla": func(r *http.Request, asked string) (string, error) {
			_ = r.FormValue(asked)
			var form Form
			err := decoder.Decode(&form, r.PostForm)
			return form.of(asked), err
		},
		"chi-form": func(r *http.Request, asked string) (string, error) {
			var form Form
			err := render.DecodeForm(r.Body, &form)
			return form.of(asked), err
		},
		"chi-json": func(r *http.Request, asked string) (string, error) {
			var document Document
			err := render.Decode(r, &document)
			return document.of(asked), err
		},
	})
}
