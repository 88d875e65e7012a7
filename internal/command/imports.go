package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// configFiles returns the files that a configuration is read from: its own, and those that a Caddyfile
// imports. An import with a placeholder in its path counts as all files that it may name.
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
		blocks = nil // the file was loaded before, and has changed since
	}
	for _, block := range blocks {
		for _, segment := range block.Segments {
			for _, token := range segment {
				add(token.File)
			}
		}
	}
	for next := 0; next < len(files); { // files grows in the loop
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

// importsOf returns the files that one file may import. Caddy's parser does not list all of them: a snippet
// that is not used is absent from its result.
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

// readRegular returns a file's text. A missing file and one that is not regular are empty: reading a pipe
// would block.
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
