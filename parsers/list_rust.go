package main

// rustServers returns the servers of the folder rust, which are one program.
func rustServers() (all []*server) {
	const program = "/srv/rustservers"
	for _, framework := range []struct {
		name  string
		forms []string
	}{
		{"axum", []string{"form", "map", "pairs", "multipart"}},
		{"actix-web", []string{"form", "map", "multipart"}},
	} {
		all = append(all, inNew(server{
			name: framework.name,
			packages: []string{
				"dash", "coreutils", "cargo", "librust-axum-dev", "librust-multer-dev", "librust-actix-web-dev",
				"librust-actix-multipart-dev", "librust-serde-json-dev", "librust-tokio-dev",
			},
			sources: "rust", compiled: "rustservers", prepare: []string{"sh", "/srv/parsers/rust/build", program},
			command: []string{program, framework.name, "{port}"},
			forms:   framework.forms, documents: []string{"struct", "value"},
		})...)
	}
	return all
}
