package admin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// tries plays made requests through a Caddyfile, in a folder of its own, and wants no other file in the folder afterwards.
func tries(t *testing.T, caddyfile, stdin string, args ...string) caddytest.Ending {
	t.Helper()
	folder := t.TempDir()
	assert.Must(t, os.WriteFile(filepath.Join(folder, "Caddyfile"), []byte(caddyfile), 0o600))
	e := caddytest.Run{Folder: folder, Stdin: strings.NewReader(stdin)}.Ratelimit(t, append([]string{"try"}, args...)...)
	files := assert.NoError(os.ReadDir(folder))(t)
	assert.Equal(t, len(files), 1, "files")
	return e
}

// TestTry ends with the exit codes that its help names.
func TestTry(t *testing.T) {
	t.Parallel()
	const redis = "{\n\tredis_ratelimit {\n\t\tredis redis://192.0.2.1:1\n\t}\n}\n"
	site := func(directives string) string {
		return redis + "example.com {\n\ttls /no/cert.pem /no/key.pem\n\tlog {\n\t\toutput file access.log\n\t}\n\t" + directives + "\n\treverse_proxy localhost:1\n}\n"
	}
	login, user := "redis_ratelimit /login {client_ip} 5 15m", "redis_ratelimit {http.auth.user.id} 5 15m"
	email := "redis_ratelimit {form.email} 5 15m {\n\t\tmatch {\n\t\t\tmethod POST\n\t\t\texpression `{header.X-Kind} == \"a\"`\n\t\t}\n\t\ton_empty_key reject\n\t}"
	tries(t, site(login), "").Want(t, 1, "after 5", "! mistake", "GET /login/ is not counted")
	tries(t, site(login), "", "--strict-paths").Want(t, 0, "after 5", "0 mistakes in 1 policy")
	tries(t, site(user), "").Want(t, 0, "not played", "--as user.id=bob")
	tries(t, site(user), "", "--all").Want(t, 1, "not played")
	tries(t, site(user), "", "--all", "--as", "user.id=bob").Want(t, 0, "after 5")
	tries(t, site(email), "email=bob@example.com", "--all", "-H", "X-Kind: a", "-d", "@-").Want(t, 0, "POST example.com/")
	tries(t, site(email), "", "--all", "-H", "X-Kind: a", "--url", "https://example.com/signup").Want(t, 0, "POST example.com/signup")
	tries(t, site("no_such_directive"), "").Want(t, 2, "no_such_directive")
	tries(t, "import no_such_file\n", "").Want(t, 2, "no_such_file")
	tries(t, site(login), "", "--as", "bob").Want(t, 2, "write it as name=value")
	tries(t, site(login), "", "-H", "bob").Want(t, 2, "write it as 'Name: value'")
	tries(t, site(login), "", "-d", "a", "-d", "b").Want(t, 2, "--data stands 2 times")
	tries(t, site(login), "", "--config", "none").Want(t, 2, "no such file")
	e := tries(t, site(login), "", "--json")
	e.Want(t, 1)
	var report struct {
		Policies []struct {
			RefusedAfter int `json:"refused_after"`
		} `json:"policies"`
	}
	assert.Must(t, json.Unmarshal([]byte(e.Stdout), &report))
	assert.ErrorIf(t, len(report.Policies) != 1 || report.Policies[0].RefusedAfter != 5, "%s", e.Stdout)
}
