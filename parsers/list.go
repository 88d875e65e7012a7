package main

import "slices"

// list returns all servers, in the order of the table.
func list() []*server {
	return slices.Concat(phpServers(), nodeServers(), pythonServers(), rubyServers(), perlServers(), javaServers(), clojureServers(),
		cppServers(), rustServers(), erlangServers(), nginxServers(), monoServers(), goServers())
}

func phpServers() []*server {
	of := func(suite, php string) *server {
		return &server{
			name: "PHP, Symfony, Laravel", suite: suite,
			packages:  []string{php + "-cli", php + "-mbstring", php + "-opcache", "php-symfony-http-foundation", "php-laravel-framework"},
			command:   []string{php, "/srv/parsers/php/server.php", "{port}"},
			forms:     []string{"POST", "REQUEST", "laravel-input"},
			documents: []string{"json", "symfony-json", "laravel-input"},
		}
	}
	older, newer := of(oldSuite, "php8.2"), of(newSuite, "php8.4")
	newer.forms, newer.documents = append(newer.forms, "symfony-payload"), append(newer.documents, "symfony-payload")
	return []*server{older, newer}
}

func nodeServers() (all []*server) {
	add := func(framework string, forms, documents []string) {
		command := []string{"node", "node/server.mjs", framework, "{port}"}
		all = append(all, &server{name: framework, command: command, forms: forms, documents: documents})
	}
	add("express 5", []string{"extended", "simple"}, []string{"json", "json-any-type", "lodash"})
	add("express 4", []string{"extended", "simple"}, []string{"json", "json-any-type"})
	add("fastify", []string{"form"}, []string{"json"})
	add("koa", []string{"form", "koa-body"}, []string{"json", "koa-body"})
	add("hono", []string{"form", "dots"}, []string{"json"})
	add("hapi", []string{"form"}, []string{"json"})
	add("h3", []string{"body", "form"}, []string{"body"})
	add("formidable", []string{"form"}, []string{"json"})
	add("multiparty", []string{"form"}, nil)
	add("node", []string{"get", "object"}, []string{"json"})
	for _, framework := range []string{"node", "undici"} {
		all = append(all, inNew(server{
			name: framework, packages: []string{"nodejs"}, command: []string{"node", "/srv/parsers/node/server.mjs", framework, "{port}"},
			forms: []string{"get", "object"}, documents: []string{"json"},
		})...)
	}
	const modules = "{built}/node/node_modules/"
	bun, workerd := modules+"@oven/bun-linux-x64/bin/bun", modules+"@cloudflare/workerd-linux-64/bin/workerd"
	return append(all,
		&server{
			name: "bun", command: []string{bun, "node/bun.mjs", "bun", "{port}"},
			forms: []string{"get", "object"}, documents: []string{"json"},
		},
		&server{
			name: "elysia", command: []string{bun, "node/bun.mjs", "elysia", "{port}"},
			forms: []string{"body"}, documents: []string{"body"},
		},
		&server{
			name:    "deno",
			command: []string{modules + "@deno/linux-x64-glibc/deno", "run", "--allow-net", "--no-lock", "node/deno.mjs", "{port}"},
			forms:   []string{"get", "object"}, documents: []string{"json"},
		},
		&server{
			name: "workerd", command: []string{workerd, "serve", "node/workerd.capnp", "--socket-addr", "http=127.0.0.1:{port}"},
			version: []string{workerd, "--version"}, forms: []string{"get", "object"}, documents: []string{"json"},
		})
}

func pythonServers() (all []*server) {
	of := func(framework string, packages, forms, documents []string) server {
		return server{
			name: framework, packages: append([]string{"python3"}, packages...),
			command: []string{"python3", "/srv/parsers/python/server.py", framework, "{port}"},
			forms:   forms, documents: documents,
		}
	}
	add := func(both []*server) { all = append(all, both...) }
	wsgi := func(names ...string) []string { return append(names, "python3-waitress") }
	asgi := func(names ...string) []string { return append(names, "uvicorn") }
	django := wsgi("python3-django", "python3-djangorestframework")
	add(inBoth(of("django", django, []string{"POST", "rest-form"}, []string{"json", "rest-json"})))
	add(inBoth(of("flask", wsgi("python3-flask"), []string{"form", "values"}, []string{"force"})))
	add(inBoth(of("quart", asgi("python3-quart"), []string{"form"}, []string{"json"})))
	add(inNew(of("pyramid", wsgi("python3-pyramid"), []string{"params"}, []string{"json"})))
	add(inBoth(of("bottle", wsgi("python3-bottle"), []string{"params"}, []string{"json"})))
	add(inBoth(of("falcon", wsgi("python3-falcon"), []string{"media"}, []string{"json"})))
	add(inNew(of("cherrypy", []string{"python3-cherrypy3"}, []string{"params"}, []string{"json"})))
	starlette := inBoth(of("starlette", asgi("python3-starlette"), []string{"form"}, []string{"json"}))
	fastapi := inBoth(of("fastapi", asgi("python3-fastapi"), []string{"form"}, []string{"json", "int"}))
	for _, pair := range [][]*server{starlette, fastapi} { // Debian has renamed the package
		pair[0].packages = append(slices.Clone(pair[0].packages), "python3-multipart")
		pair[1].packages = append(slices.Clone(pair[1].packages), "python3-python-multipart")
		add(pair)
	}
	add(inNew(of("litestar", asgi("python3-litestar"), []string{"form"}, []string{"json"})))
	add(inBoth(of("tornado", []string{"python3-tornado"}, []string{"argument"}, []string{"json"})))
	add(inBoth(of("aiohttp", []string{"python3-aiohttp"}, []string{"post"}, []string{"json"})))
	add(inBoth(of("twisted", []string{"python3-twisted"}, []string{"args"}, []string{"json"})))
	parsers := inBoth(of("documents", wsgi("python3-simplejson", "python3-ujson"), nil, []string{"json", "simplejson", "ujson"}))
	parsers[1].packages = append(slices.Clone(parsers[1].packages), "python3-orjson", "python3-msgspec")
	parsers[1].documents = append(slices.Clone(parsers[1].documents), "orjson", "msgspec")
	for _, s := range parsers {
		s.name, s.command = "parsers of JSON for Python", append(s.command[:len(s.command):len(s.command)], s.documents...)
		add([]*server{s})
	}
	return all
}

func rubyServers() []*server {
	of := func(framework string, packages, forms, documents []string) server {
		return server{
			name: framework, packages: append([]string{"ruby", "puma"}, packages...),
			command: []string{"ruby", "/srv/parsers/ruby/server.rb", framework, "{port}"},
			forms:   forms, documents: documents,
		}
	}
	params := []string{"params"}
	older := of("grape", []string{"ruby-grape"}, params, params)
	older.suite = oldSuite
	return slices.Concat(
		inBoth(of("rack", []string{"ruby-rack", "ruby-oj"}, params, []string{"json", "oj"})),
		inBoth(of("sinatra", []string{"ruby-sinatra"}, params, nil)),
		inNew(of("roda", []string{"ruby-roda"}, params, []string{"json"})),
		[]*server{&older},
		inBoth(of("rails", []string{"ruby-rails"}, params, []string{"params", "wrapped"})))
}

func perlServers() []*server {
	of := func(framework string, packages, forms, documents []string) server {
		return server{
			name: framework, packages: packages, command: []string{"perl", "/srv/parsers/perl/server.pl", framework, "{port}"},
			forms: forms, documents: documents,
		}
	}
	return slices.Concat(
		inBoth(of("plack", []string{"libplack-perl", "libcgi-pm-perl", "libcpanel-json-xs-perl", "libjson-xs-perl"},
			[]string{"parameters", "cgi"}, []string{"JSON::PP", "JSON::XS", "Cpanel::JSON::XS"})),
		inBoth(of("mojolicious", []string{"libmojolicious-perl"}, []string{"param"}, []string{"json"})),
		inBoth(of("dancer", []string{"libdancer2-perl", "libplack-perl"}, []string{"param"}, []string{"json"})),
		inNew(of("catalyst", []string{"libcatalyst-perl", "libplack-perl"}, []string{"parameters"}, []string{"json"})))
}

func goServers() (all []*server) {
	add := func(framework string, forms, documents []string) {
		command := []string{"{built}/goservers", framework, "{port}"}
		all = append(all, &server{name: framework, command: command, forms: forms, documents: documents})
	}
	add("net/http", []string{
		"FormValue", "PostFormValue", "ParseForm", "ParseMultipartForm", "MultipartReader", "gorilla", "chi-form",
	}, []string{"chi-json"})
	add("gin", []string{"bind", "PostForm"}, []string{"json", "bind-json"})
	add("echo", []string{"FormValue", "FormValues", "bind"}, []string{"bind-json"})
	add("fiber", []string{"FormValue", "PostArgs", "bind"}, []string{"bind-json"})
	add("hertz", []string{"PostForm", "bind"}, []string{"bind-json"})
	all = append(all, &server{
		name: "parsers of JSON for Go", command: []string{"{built}/goservers", "documents", "{port}"},
		documents: []string{
			"json-struct", "json-map", "json-decoder", "json-int", "json-v2", "json-v2-fold", "goccy", "jsoniter", "jsoniter-go", "sonic",
			"sonic-map", "segmentio", "gjson", "jsonparser", "fastjson", "protojson",
		},
	})
	return all
}

// erlangServers returns those of the folder erlang. Debian has no framework of Elixir.
func erlangServers() []*server {
	of := func(framework string, packages []string) server {
		return server{
			name: framework, packages: packages,
			command: []string{"escript", "/srv/parsers/erlang/server.escript", framework, "{port}"},
			forms:   []string{"urlencoded", "multipart"}, documents: []string{"json"},
		}
	}
	return slices.Concat(
		inNew(of("cowboy", []string{"erlang-cowboy"})),
		inNew(of("mochiweb", []string{"erlang-mochiweb", "erlang-inets"})))
}

// nginxServers returns nginx with its modules for Lua, which OpenResty and Kong are built on, and for JavaScript.
func nginxServers() []*server {
	return inBoth(server{
		name:     "nginx",
		packages: []string{"dash", "coreutils", "nginx", "libnginx-mod-http-lua", "libnginx-mod-http-js", "lua-cjson"},
		command:  []string{"sh", "/srv/parsers/nginx/serve", "{port}"},
		forms:    []string{"lua-post-args", "js-querystring"}, documents: []string{"lua-cjson", "js-json"},
	})
}
