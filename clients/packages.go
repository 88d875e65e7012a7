package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // npm's registry has it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// entries are the names and contents of an archive, in turn.
type entries []string

func zipped(e entries) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(e); i += 2 {
		f, _ := w.Create(e[i])         // a buffer takes all
		_, _ = f.Write([]byte(e[i+1])) // likewise
	}
	_ = w.Close() // likewise
	return b.String()
}

func tarUncompressed(e entries) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(e); i += 2 {
		_ = w.WriteHeader(&tar.Header{Name: e[i], Mode: 0o644, Size: int64(len(e[i+1]))}) // a buffer takes all
		_, _ = w.Write([]byte(e[i+1]))                                                    // likewise
	}
	_ = w.Close() // likewise
	return b.String()
}

func tarred(e entries) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(tarUncompressed(e))) // a buffer takes all
	_ = z.Close()                              // likewise
	return b.String()
}

func sha256Of(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// found counts the files below the client's folder that a pattern matches.
func (r *run) found(pattern string) (n int) {
	matches, err := filepath.Glob(filepath.Join(r.folder, pattern))
	r.check(err)
	return len(matches)
}

// counted is the outcome of a job that brings so many things.
func counted(exit, got, want int, things string) outcome {
	return outcome{exit: exit, data: fmt.Sprintf("%d of %d %s", got, want, things), whole: got == want}
}

// aptRepository writes a repository with two packages.
func aptRepository(r *run) error {
	var packages strings.Builder
	for _, name := range []string{"lab-one", "lab-two"} {
		control := "Package: " + name + "\nVersion: 1.0\nArchitecture: all\nMaintainer: lab <lab@example.com>\nDescription: lab\n"
		r.write(name+"/DEBIAN/control", control)
		file := name + "_1.0_all.deb"
		r.must("dpkg-deb", "--root-owner-group", "--build", name, filepath.Join(r.served, file))
		content, err := os.ReadFile(filepath.Join(r.served, file))
		r.check(err)
		fmt.Fprintf(&packages, "%sFilename: %s\nSize: %d\nSHA256: %s\n\n", control, file, len(content), sha256Of(string(content)))
	}
	index := packages.String()
	r.serve("dists/lab/main/binary-amd64/Packages", index)
	r.serve("dists/lab/Release", "Suite: lab\nComponents: main\nArchitectures: amd64\n"+
		fmt.Sprintf("SHA256:\n %s %d main/binary-amd64/Packages\n", sha256Of(index), len(index)))
	return r.err
}

func aptJob(r *run) outcome { return r.aptFetch(r.url) }

// aptFetch updates the lists and fetches both packages.
func (r *run) aptFetch(url string) outcome {
	for _, folder := range []string{"etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"} {
		r.write(folder+"/none", "")
	}
	r.write("status", "")
	r.write("etc/sources.list", "deb [trusted=yes arch=amd64] "+url+" lab main\n")
	apt := []string{
		"apt-get", "-q", "-o", "Dir::Etc=" + r.folder + "/etc", "-o", "Dir::State=" + r.folder + "/state",
		"-o", "Dir::Cache=" + r.folder + "/cache", "-o", "Dir::State::status=" + r.folder + "/status",
		"-o", "APT::Sandbox::User=root", "-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64", "-o", "Acquire::Languages=none",
	}
	exit := r.command(append(apt, "update")...)
	if exit == 0 {
		exit = r.command(append(apt, "download", "lab-one", "lab-two")...)
	}
	return counted(exit, r.found("*.deb"), 2, "packages")
}

// pipIndex writes an index with two wheels.
func pipIndex(r *run) error {
	for _, name := range []string{"labone", "labtwo"} {
		info := name + "-1.0.dist-info/"
		file := name + "-1.0-py3-none-any.whl"
		r.serve("simple/"+name+"/index.html", fmt.Sprintf(`<!doctype html><a href="../../%s">%[1]s</a>`, file))
		r.serve(file, zipped(entries{
			name + ".py", "x = 1\n", info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
			info + "WHEEL", "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n", info + "RECORD", "",
		}))
	}
	return r.err
}

func pipJob(r *run) outcome {
	exit := r.command("PIP_CONFIG_FILE=/dev/null", "PIP_NO_CACHE_DIR=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_INPUT=1",
		"pip", "download", "--no-deps", "--only-binary=:all:", "--index-url", r.url+"/simple/", "labone", "labtwo")
	return counted(exit, r.found("*.whl"), 2, "packages")
}

// npmRegistry answers for two packages. The URLs of their files lead through the limit.
func npmRegistry(*run) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		name, file, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/"), "/-/")
		text := `{"name":"` + name + `","version":"1.0.0"}`
		archive := tarred(entries{"package/package.json", text, "package/index.js", "x = 1\n"})
		if name != "labone" && name != "labtwo" {
			http.NotFound(w, q)
			return
		}
		if file != "" {
			_, _ = w.Write([]byte(archive)) // the client may have left
			return
		}
		sum := sha1.Sum([]byte(archive)) //nolint:gosec // see above
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // likewise
			"name": name, "dist-tags": map[string]string{"latest": "1.0.0"},
			"versions": map[string]any{"1.0.0": map[string]any{
				"name": name, "version": "1.0.0", "dist": map[string]string{
					"tarball": "http://" + q.Host + "/" + name + "/-/" + name + "-1.0.0.tgz", "shasum": hex.EncodeToString(sum[:]),
					"integrity": "sha1-" + base64.StdEncoding.EncodeToString(sum[:]),
				},
			}},
		})
	})
}

// npmJob has a package manager of node install both packages.
func npmJob(words ...string) func(r *run) outcome {
	return func(r *run) outcome {
		r.write("package.json", `{"name":"lab","version":"1.0.0","dependencies":{"labone":"1.0.0","labtwo":"1.0.0"}}`)
		r.write(".npmrc", "registry="+r.url+"/\naudit=false\nfund=false\nupdate-notifier=false\n")
		r.write(".yarnrc", "registry \""+r.url+"/\"\n")
		exit := r.command(words...)
		return counted(exit, r.found("node_modules/lab*/index.js"), 2, "packages")
	}
}

// goProxy writes the files of a module proxy with two modules.
func goProxy(r *run) error {
	for _, name := range []string{"one", "two"} {
		module, folder := "example.test/"+name, "example.test/"+name+"/@v/"
		mod := "module " + module + "\n\ngo 1.20\n"
		r.serve(folder+"list", "v1.0.0\n")
		r.serve(folder+"v1.0.0.info", `{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`)
		r.serve(folder+"v1.0.0.mod", mod)
		r.serve(folder+"v1.0.0.zip", zipped(entries{module + "@v1.0.0/go.mod", mod, module + "@v1.0.0/lab.go", "package lab\n"}))
	}
	return r.err
}

func goJob(r *run) outcome {
	r.write("go.mod", "module lab\n\ngo 1.20\n\nrequire (\n\texample.test/one v1.0.0\n\texample.test/two v1.0.0\n)\n")
	exit := r.command("GOPROXY="+r.url, "GONOSUMDB=*", "GONOSUMCHECK=1", "GOFLAGS=-modcacherw -mod=mod", "GOTOOLCHAIN=local",
		"GOMODCACHE="+r.folder+"/mods", "GOCACHE="+r.folder+"/cache", "go", "mod", "download")
	return counted(exit, r.found("mods/example.test/*/lab.go"), 2, "modules")
}

// cratesIndex writes a sparse registry with two crates.
func cratesIndex(r *run) error {
	for _, name := range []string{"labone", "labtwo"} {
		crate := tarred(entries{
			name + "-1.0.0/Cargo.toml", "[package]\nname = \"" + name + "\"\nversion = \"1.0.0\"\nedition = \"2018\"\n",
			name + "-1.0.0/src/lib.rs", "",
		})
		r.serve("crates/"+name+"/1.0.0/download", crate)
		r.serve("index/"+name[:2]+"/"+name[2:4]+"/"+name,
			fmt.Sprintf(`{"name":"%s","vers":"1.0.0","deps":[],"cksum":"%s","features":{},"yanked":false}`+"\n", name, sha256Of(crate)))
	}
	return r.err
}

func cargoJob(r *run) outcome {
	r.serve("index/config.json", `{"dl":"`+r.url+`/crates/{crate}/{version}/download"}`)
	r.write("Cargo.toml", "[package]\nname = \"lab\"\nversion = \"1.0.0\"\nedition = \"2018\"\n\n[dependencies]\n"+
		"labone = { version = \"1\", registry = \"lab\" }\nlabtwo = { version = \"1\", registry = \"lab\" }\n")
	r.write("src/lib.rs", "")
	r.write(".cargo/config.toml", "[registries.lab]\nindex = \"sparse+"+r.url+"/index/\"\n")
	exit := r.command("CARGO_HOME="+r.folder+"/cargo", "cargo", "fetch")
	return counted(exit, r.found("cargo/registry/src/*/lab*/src/lib.rs"), 2, "crates")
}

// packages are package managers.
func packages() []*client {
	return []*client{
		{
			name: "apt", program: "apt-get", install: "apt", version: []string{"apt-get", "--version"}, files: aptRepository, job: aptJob,
			note: "reads no Retry-After before apt 3",
		},
		{name: "pip", program: "pip", install: "python3-pip", version: []string{"pip", "--version"}, files: pipIndex, job: pipJob},
		{
			name: "npm", program: "npm", install: "npm", version: []string{"npm", "--version"}, limit: "3 3s", backend: npmRegistry,
			job: npmJob("npm", "install"), note: "reads no Retry-After: waits 10 s, then 60 s",
		},
		{
			name: "pnpm", program: "pnpm", install: "(npm)", version: []string{"pnpm", "--version"}, limit: "3 3s", backend: npmRegistry,
			job: npmJob("pnpm", "install"), note: "as npm",
		},
		{
			name: "yarn 1", program: "yarn", install: "(npm)", version: []string{"yarn", "--version"}, limit: "3 3s", backend: npmRegistry,
			job: npmJob("YARN_CACHE_FOLDER=cache", "yarn", "install", "--no-progress", "--non-interactive"),
		},
		{name: "go mod", program: "go", install: "golang-go", version: []string{"go", "version"}, files: goProxy, job: goJob},
		{name: "cargo", program: "cargo", install: "cargo", version: []string{"cargo", "--version"}, files: cratesIndex, job: cargoJob},
	}
}
