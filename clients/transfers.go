package main

import (
	"fmt"
	"strings"
)

// fiveFiles are what the programs that fetch files are to bring.
func fiveFiles(r *run) error {
	var index strings.Builder
	index.WriteString("<!doctype html><title>files</title>\n")
	for i := range 5 {
		name := fmt.Sprintf("file%d.txt", i+1)
		r.serve(name, fmt.Sprintf("the content of file %d\n", i+1))
		fmt.Fprintf(&index, `<a href="%s">%[1]s</a>`+"\n", name)
	}
	r.serve("index.html", index.String())
	return r.err
}

// urls returns the URLs of the five files.
func (r *run) urls() (urls []string) {
	for i := range 5 {
		urls = append(urls, fmt.Sprintf("%s/file%d.txt", r.url, i+1))
	}
	return urls
}

// fetch returns the job of a program that is given the URLs of five files.
func fetch(words ...string) func(r *run) outcome {
	return func(r *run) outcome {
		return r.compare(r.folder, r.command(append(words, r.urls()...)...))
	}
}

// mirror returns the job of a program that is given the URL of an index.
func mirror(words ...string) func(r *run) outcome {
	return func(r *run) outcome {
		return r.compare(r.folder, r.command(append(words, r.url+"/")...))
	}
}

// transfers are programs that fetch files.
func transfers() []*client {
	curl := client{program: "curl", install: "curl", version: []string{"curl", "--version"}, files: fiveFiles}
	plain, fail, retry := curl, curl, curl
	plain.name, plain.job = "curl", fetch("curl", "-sS", "--remote-name-all")
	plain.note = "curl takes any answer for the file without `-f`"
	fail.name, fail.job = "curl -f", fetch("curl", "-fsS", "--remote-name-all")
	retry.name, retry.job = "curl --retry 3", fetch("curl", "-fsS", "--retry", "3", "--remote-name-all")
	wget := client{program: "wget", install: "wget", version: []string{"wget", "--version"}, files: fiveFiles}
	tree, again := wget, wget
	tree.name, tree.job = "wget -r", mirror("wget", "-nv", "-r", "-e", "robots=off")
	again.name = "wget --retry-on-http-error"
	again.job = mirror("wget", "-nv", "-r", "-e", "robots=off", "--retry-on-http-error=429")
	again.note = "reads no Retry-After"
	return []*client{
		&plain, &fail, &retry, &tree, &again,
		{
			name: "wget2 -r", program: "wget2", install: "wget2", version: []string{"wget2", "--version"}, files: fiveFiles,
			job:  mirror("wget2", "-nv", "-r", "--robots=off"),
			note: "wget2 has exit 0 for any refusal",
		},
	}
}
