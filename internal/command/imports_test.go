package command

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestConfigFiles_Imports(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("IMPORTED_SITE", "by_env")
	for name, text := range map[string]string{
		"Caddyfile": "{\n\timport options\n}\nimport snippets\nimport sites/*.caddy\nimport {$IMPORTED_SITE}\nimport {$IMPORTED_NONE:by_default}\n" +
			"(named) {\n\timport {args[0]}\n}\n:8080 {\n\timport limits\n\timport named deep/er/by_args\n\trespond \"import other\"\n}\n",
		"options": "debug\n", "snippets": "(limits) {\n\timport inner\n}\n(unused) {\n\timport unused_inner\n}\n",
		"inner": "header X 1\n", "unused_inner": "header Y 1\n", "sites/a.caddy": ":8081 {\n\trespond a\n}\n",
		"sites/empty.caddy": "# nothing\n", "by_env": ":8082 {\n}\n", "by_default": ":8083 {\n}\n", "deep/er/by_args": "header Z 1\n",
		"sites/a.log": "a log", "access.log": "a log", "deep/other": "",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := configFiles(filepath.Join(folder, "Caddyfile"), "caddyfile")
	for name, want := range map[string]bool{
		"Caddyfile": true, "options": true, "snippets": true, "inner": true, "unused_inner": true, "sites/a.caddy": true,
		"sites/empty.caddy": true, "by_env": true, "by_default": true, "deep/er/by_args": true,
		"sites/a.log": false, "deep/other": false,
	} {
		if got := slices.Contains(files, filepath.Join(folder, name)); got != want {
			t.Errorf("%s is read: got %v, want %v", name, got, want)
		}
	}
	if files := configFiles("config.json", "json5"); !slices.Equal(files, []string{"config.json"}) {
		t.Errorf("of JSON, got %q", files)
	}
}
