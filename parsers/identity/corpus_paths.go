package main

import (
	"slices"
	"strings"
)

func pathInputs() []input {
	return ofTargets(paths, "", []string{
		"/login", "/login/", "/login//", "//login", "///login", "/Login", "/LOGIN", "/./login", "/x/../login", "/login/.",
		"/login/..", "/login/x/..", "/..//login", "/../login", "/%6cogin", "/%6Cogin", "/logi%6e", "/%4cogin", "/login%2f",
		"/%2flogin", "/x%2f..%2flogin", "/%2e/login", "/x/%2e%2e/login", "/login;x", "/login;jsessionid=1", "/login;",
		";/login", "/;/login", "/;x/login", "/x;/../login", "/login.", "/login.json", "/login.html", "/login%20", "/login+",
		"/login%00", "/login%09", "/login%0a", "/login%3f", "/login?", "/login?x", "/login%23", "/login%3b", "/login%3bx",
		`/login\`, "/login%5c", `\login`, "/%5clogin", "/login/%2e", "/login%2e", "/log%69n/", "/login~", "/login:x",
		"/login*", "/login%2f.", "/login&x", "/login=", "/login,", "/login%252f", "/%256cogin", "/lo%67in?x=1",
		"/login%c2%a0", "/l%6F%67in", "/api/items", "/api//items", "/api/items/", "/api%2fitems", "/api/%69tems",
		"/API/items", "/api/./items", "/api/x/../items", "/api;x/items", "/api/;x/items", `/api\items`, "/api%5citems",
		"/users/7", "/users/7/", "/users//7", "/users/%37", "/users/07", "/users/7%20", "/users/7;x", "/users/7.json",
		"/users/7%2f", "/users/7%00", "/users/a%2fb", "/users/+7", "/users/%c3%a9", "/users/%e9", "/users/A", "/users/a",
		"/users/7%0a", "*login", "http://other.example/login", "http://other.example//login", "/%E2%84%93ogin",
		"/log%C4%B1n", "/lOGIN/", "/login%2F/", "/login/;x", "/login/?", "/login/%20", "/login.zzz", "/login.a.b",
		"/login%0d", "/login%0a%0a", "/login%0A/", "/login.json/", "/Login.JSON", "/login;x.json", "/login;/", "/%3b/login",
		"/login/index.html", "/login.php", "/login%2e%6a%73on", "//other.example/login", "/api/items.json", "/api/items%0a",
		"/api%2Fitems/", "/users/7%09", "/login%E2%80%8B", "/login%ff", "/login%", "/login%zz", "/index.php/api/items",
		"/./", "/login%5c..%5clogin", "/login/%2f", "/%6C%6F%67%69%6E%2F",
		"/login%0d%0a", "/login%7f", "/login%c0%af", "/login%2f%2f", "/login%00.json", "/%00login", "/login%20%20",
		"/login%e3%80%80", "/login%ef%bc%8f", "/login#x", "/login?#x", "/.;/login", "/..;/login", "/x/..;/login", "/%2e%2e;/login",
		"/login/..;/login", "/login.;x", "/login..", "/login::$DATA", "/login.json.", "/login.json;x", "/(S(x))/login", "/%0alogin",
		"/api/items%ff", "/api%0a/items", "/login%c2%85", "/login%e2%80%a8",
	})
}

func scriptInputs() []input {
	return ofTargets(scripts, "", []string{
		"/login.php", "/login.php/", "/login.php/x", "/login.php/x/y", "//login.php", "/Login.php", "/LOGIN.PHP",
		"/login.PHP", "/login.php.", "/login.php%20", "/login.php%2fx", "/login.php;x", "/login.php%00", "/%6cogin.php",
		"/./login.php", "/x/../login.php", "/login", "/login.php/.php", "/index.php/login", "/index.php/login.php",
		"/index.php", "/", "/index.php/", "/login.php?x", "/login.php%3f", "/x.php/../login.php", "/login%2ephp",
		"/r.php/login.php",
		"/login.php%0a", "/login.php/%0a", "/login.php/%0ax", "/login.php%20/", "/login.php/x%0a", "/login.php/%ff", "/login.php%ff",
		"/login.php;/x", "/login.php#x", "/login.php::$DATA", "/login.php%c0%af", "/login.php/..%2flogin.php", "/login.php/../x",
	})
}

func hostInputs() []input {
	const host = "Host: app.example"
	return slices.Concat(ofHeader(hosts, "Host", append([]string{
		"app.example", "APP.example", "App.Example", "app.example.", "app.example..", "app.example:80", "app.example:443",
		"app.example:8080", "app.example:", "APP.EXAMPLE.:80", "app.example:080", "app.example:99999", "app.example:x",
		" app.example", "app.example ", "app.example,other.example", "app_example", "user@app.example", "app.example/x",
		`app.example\x`, "app.example?x", "app.example#x", "app%2eexample", "%61pp.example", "\xc3\xa4pp.example",
		"xn--pp-xka.example", "xn--PP-XKA.example", "", "127.0.0.1", "127.1", "0x7f.1", "2130706433", "[::1]",
		"[0:0:0:0:0:0:0:1]", "[::1]:80", "[::1", "[::1%25lo]", "a b.example", "app.example\t", "-app.example",
		"app..example", "app.example:80:80", `"app.example"`, "app.example;x", "\xffapp.example",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0177.0.0.1", "127.0.0.1.", "app.example:0", "app.example:65536",
	}, strings.Repeat("a", 300)+".example")), ofLines(hosts, [][]string{
		{host, "Host: other.example"}, nil, {host, "X-Forwarded-Host: other.example"},
	}), []input{
		{hosts, "http://other.example/r", []string{host}}, {hosts, "HTTP://OTHER.example:80/r", []string{host}},
	})
}
