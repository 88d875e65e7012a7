package livepage

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"io/fs"
	"strings"
)

// files are the page, its style sheet and its scripts, in the order of their names.
//
//go:embed document/page.html document/page.css document/*.js
var files embed.FS

// document is the page in one piece, with the policy that lets a browser run its own scripts alone.
type document struct{ text, policy string }

// newDocument puts the page together. The command and its flags stand in the commands that the page shows.
func newDocument(command, flags string) document {
	style := read("document/page.css")
	var scripts, hashes strings.Builder
	names, _ := fs.Glob(files, "document/*.js") // the pattern is a good one
	for _, name := range names {
		script := read(name)
		scripts.WriteString("<script>" + script + "</script>\n")
		hashes.WriteString(" " + hash(script))
	}
	text := strings.NewReplacer(
		"{{.Style}}", "<style>"+style+"</style>", "{{.Scripts}}", scripts.String(),
		"{{.Command}}", html.EscapeString(command), "{{.Flags}}", html.EscapeString(flags),
	).Replace(read("document/page.html"))
	return document{text, "default-src 'none'; script-src" + hashes.String() + "; style-src " + hash(style) + "; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"}
}

// read returns a file of the page.
func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("the binary lacks %s", name))
	}
	return string(text)
}

// hash names a script or a style sheet in a policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
