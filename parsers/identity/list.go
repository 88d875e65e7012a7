package main

import (
	"slices"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// list returns all servers, in the order of the table.
func list() []*server {
	return slices.Concat(goServers(), nodeServers(), pythonServers(), rubyServers(), perlServers(), javaServers(), phpServers(),
		inBoth(server{Program: frameworks.Program{
			Name: "nginx", Packages: []string{"dash", "coreutils", "nginx", "libnginx-mod-http-lua"},
			Command: []string{"sh", "/srv/parsers/identity/nginx/serve", "{port}"},
		}}))
}

// inBoth returns a server of each release.
func inBoth(s server) []*server {
	older, newer := s, s
	older.Suite, newer.Suite = frameworks.OldSuite, frameworks.NewSuite
	return []*server{&older, &newer}
}

func goServers() (all []*server) {
	add := func(framework string, paths ...string) {
		program := frameworks.Program{Name: framework, Command: []string{"{built}/goservers", framework, "{port}"}}
		all = append(all, &server{Program: program, paths: paths})
	}
	add("net/http")
	add("chi")
	add("mux")
	add("gin", "/basic")
	add("echo", "/token", "/basic")
	add("fiber", "/token", "/basic")
	return all
}

func nodeServers() (all []*server) {
	add := func(framework string, paths ...string) {
		program := frameworks.Program{Name: framework, Command: []string{"node", "identity/node/server.mjs", framework, "{port}"}}
		all = append(all, &server{Program: program, paths: paths})
	}
	add("http")
	add("express 5", "/token", "/basic", "/jwt", "/jwt2")
	add("express 4", "/token", "/basic", "/jwt", "/jwt2")
	add("fastify", "/token", "/basic", "/jwt")
	add("koa")
	add("hapi", "/basic")
	add("hono", "/token", "/basic", "/jwt")
	return all
}

func pythonServers() (all []*server) {
	add := func(framework string, packages []string, paths ...string) {
		all = append(all, inBoth(server{Program: frameworks.Program{
			Name: framework, Packages: append([]string{"python3"}, packages...),
			Command: []string{"python3", "/srv/parsers/identity/python/server.py", framework, "{port}"},
		}, paths: paths})...)
	}
	add("django", []string{"python3-django", "python3-djangorestframework", "gunicorn"}, "/token", "/basic")
	add("flask", []string{"python3-flask", "python3-flask-httpauth", "python3-jwt", "gunicorn"}, "/token", "/basic")
	add("bottle", []string{"python3-bottle", "gunicorn"})
	add("falcon", []string{"python3-falcon", "gunicorn"})
	add("aiohttp", []string{"python3-aiohttp"})
	add("tornado", []string{"python3-tornado"})
	add("fastapi", []string{"python3-fastapi", "uvicorn", "python3-jwt"}, "/token", "/token2", "/basic")
	return all
}

func rubyServers() (all []*server) {
	add := func(framework, gem string) {
		all = append(all, inBoth(server{Program: frameworks.Program{
			Name: framework, Packages: []string{"ruby", "puma", "ruby-rack", "ruby-jwt", gem},
			Command: []string{"ruby", "/srv/parsers/identity/ruby/server.rb", framework, "{port}"},
		}})...)
	}
	add("rack", "ruby-rack")
	add("sinatra", "ruby-sinatra")
	add("rails", "ruby-actionpack")
	return all
}

func perlServers() (all []*server) {
	add := func(framework string, packages []string, paths ...string) {
		all = append(all, inBoth(server{Program: frameworks.Program{
			Name: framework, Packages: packages,
			Command: []string{"perl", "/srv/parsers/identity/perl/server.pl", framework, "{port}"},
		}, paths: paths})...)
	}
	add("plack", []string{"libplack-perl"}, "/basic")
	add("mojolicious", []string{"libmojolicious-perl"})
	add("dancer", []string{"libdancer2-perl", "libplack-perl"})
	return all
}
