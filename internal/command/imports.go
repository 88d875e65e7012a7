package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// configFiles are the files that a configuration is read from: its own, and those that a Caddyfile
// imports. An import whose path is known only when Caddy expands it counts as all files that it may name.
func configFiles(file, adapter string) []string {
	files := []string{file}
	if adapter != "caddyfile" {
		return files
	}
	add := func(path string) {
		if path != "" && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	blocks, err := caddyfile.Parse(file, readRegular(file))
	if err != nil {
		blocks = nil // it was loaded before: it has changed meanwhile
	}
	for _, block := range blocks {
		for _, segment := range block.Segments {
			for _, token := range segment {
				add(token.File)
			}
		}
	}
	for next := 0; next < len(files); { // files grows meanwhile
		imported := importsOf(files[next])
		next++
		for _, path := range imported {
			add(path)
		}
	}
	return files
}

var (
	environment = regexp.MustCompile(`\{\$([^{}:]+)(?::([^{}]*))?\}`)
	unexpanded  = regexp.MustCompile(`\{[^{}]*\}`)
)

// importsOf are the files that one file may import. Some of what they hold, such as a snippet that is not
// used, leaves no trace in what Caddy makes of the Caddyfile.
func importsOf(file string) (files []string) {
	text := environment.ReplaceAllFunc(readRegular(file), func(variable []byte) []byte {
		parts := environment.FindSubmatch(variable)
		if value, found := os.LookupEnv(string(parts[1])); found {
			return []byte(value)
		}
		return parts[2]
	})
	tokens, err := caddyfile.Tokenize(text, file)
	if err != nil {
		return nil
	}
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1].Text != "import" || tokens[i-1].Line != tokens[i].Line {
			continue
		}
		pattern := unexpanded.ReplaceAllString(tokens[i].Text, "*")
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(file), pattern)
		}
		matches, err := filepath.Glob(pattern)
		if err == nil {
			files = append(files, matches...)
		}
	}
	return files
}

// readRegular returns what a file holds. One that is not there or not regular holds nothing: reading a
// pipe would wait.
func readRegular(path string) []byte {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return text
}
