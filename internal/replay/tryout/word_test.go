package tryout

import (
	"testing"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
)

func TestCarryPath(t *testing.T) {
	for _, test := range []struct{ spelled, usual, path, want string }{
		{"/login/", "/login", "/login", "/login/"},
		{"/LOGIN", "/login", "/wp-admin", "/WP-ADMIN"},
		{"/Login", "/login", "/signin", "/Signin"},
		{"/%6cogin", "/login", "/api/items", "/api/%69tems"},
		{"/%4Cogin", "/login", "/a", "/%41"},
		{"/logi%6E", "/login", "/signin", "/signi%6E"},
		{"/..//login", "/login", "/api/x", "/..//api/x"},
		{"/;x/login", "/login", "/api/x", "/;x/api/x"},
		{"/login;x.json", "/login", "/api/x", "/api/x;x.json"},
		{"/login/..;/login", "/login", "/api/x", "/api/x/..;/x"},
		{"//other", "/login", "/api/x", ""},
		{"/login.php/x", "/login.php", "/wp-login.php", "/wp-login.php/x"},
		{"/api;x/items", "/api/items", "/v1/users/7", "/v1/users;x/7"},
		{"/api//items", "/api/items", "/users", ""},
		{"/login/", "/login", "/", ""},
	} {
		carried, ok := carryPath(test.spelled, test.usual, test.path)
		if !ok {
			carried = ""
		}
		assert.Equal(t, carried, test.want, "%s of %s for %s", test.spelled, test.usual, test.path)
	}
}

func TestTextFor(t *testing.T) {
	for pattern, want := range map[string]string{
		`^/users/(\d+)/edit$`: "/users/7/edit", `(?i)bot|crawl`: "BOT", `[a-z]{3}`: "xxx", `^/(a|b)?c+`: "/c", `x{1000}x{1000}`: "", "(": "",
	} {
		text, ok := textFor(pattern)
		if !ok {
			text = ""
		}
		assert.Equal(t, text, want, "for %s", pattern)
	}
}
