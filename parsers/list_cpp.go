package main

// cppServer returns a server whose program is compiled of files of the folder cpp, for the releases that have its packages.
func cppServer(name, suite string, packages, sources, libraries, forms, documents []string) *server {
	const folder = "/srv/parsers/cpp/"
	program := "/srv/" + sources[0]
	prepare := []string{"g++", "-std=c++20", "-I/usr/include/jsoncpp", "-o", program}
	if suite == newSuite { // which has other interfaces and more libraries
		prepare = append(prepare, "-DNEW_RELEASE")
	}
	for _, source := range sources {
		prepare = append(prepare, folder+source+".cpp")
	}
	for _, library := range libraries {
		prepare = append(prepare, "-l"+library)
	}
	return &server{
		name: name, suite: suite, packages: append([]string{"g++"}, packages...),
		sources: "cpp", compiled: sources[0], prepare: prepare,
		command: []string{program, "{port}"}, forms: forms, documents: documents,
	}
}

func cppServers() (all []*server) {
	for _, suite := range []string{oldSuite, newSuite} {
		packages := []string{
			"nlohmann-json3-dev", "rapidjson-dev", "libjansson-dev", "libcjson-dev", "libjson-c-dev", "libjsoncpp-dev", "libyajl-dev",
			"libsimdjson-dev",
		}
		libraries := []string{"cjson", "jansson", "json-c", "jsoncpp", "simdjson", "yajl"}
		documents := []string{
			"nlohmann", "rapidjson", "jansson", "cjson", "cjson-exact", "json-c", "json-c-strict", "jsoncpp", "yajl", "simdjson",
			"simdjson-ondemand",
		}
		if suite == newSuite {
			packages = append(packages, "libboost-json-dev", "libyyjson-dev")
			libraries, documents = append(libraries, "yyjson"), append(documents, "boost", "yyjson")
		}
		all = append(all,
			cppServer("parsers of JSON for C and C++", suite, packages, []string{"documents", "jsonc"}, libraries, nil, documents),
			cppServer("poco", suite, []string{"libpoco-dev"}, []string{"poco"}, []string{"PocoNet", "PocoJSON", "PocoFoundation"},
				[]string{"form"}, []string{"json"}),
			cppServer("cpp-httplib", suite, []string{"libcpp-httplib-dev"}, []string{"httplib"}, []string{"cpp-httplib"},
				[]string{"param"}, nil),
			cppServer("libmicrohttpd", suite, []string{"libmicrohttpd-dev"}, []string{"microhttpd"}, []string{"microhttpd"},
				[]string{"form"}, nil))
	}
	return append(all, cppServer("drogon", newSuite, []string{"libdrogon-dev"}, []string{"drogon"},
		[]string{"drogon", "trantor", "jsoncpp"}, []string{"parameter", "parts"}, []string{"json"}))
}
