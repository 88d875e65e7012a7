package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"path/filepath"
	"strconv"
	"strings"
)

// gitRepository makes a repository with one file and serves it by git's own program.
func gitRepository(r *run) http.Handler {
	repository := filepath.Join(r.served, "lab.git")
	r.must("git", "init", "-q", "--bare", "-b", "main", repository)
	r.must("git", "init", "-q", "-b", "main", "work")
	r.write("work/file.txt", "content\n")
	r.must("git", "-C", "work", "add", ".")
	r.must("git", "-C", "work", "-c", "user.name=lab", "-c", "user.email=lab@example.com", "commit", "-q", "-m", "lab")
	r.must("git", "-C", "work", "push", "-q", repository, "main")
	program := filepath.Join(strings.TrimSpace(r.must("git", "--exec-path")), "git-http-backend")
	return &cgi.Handler{Path: program, Env: []string{"GIT_PROJECT_ROOT=" + r.served, "GIT_HTTP_EXPORT_ALL=1"}, InheritEnv: []string{"PATH"}}
}

func cloneJob(r *run) outcome {
	exit := r.command("GIT_TERMINAL_PROMPT=0", "git", "clone", "-q", r.url+"/lab.git", "clone")
	return counted(exit, r.found("clone/file.txt"), 1, "files")
}

// listJob lists the branches of the repository twice, which is two requests each.
func listJob(r *run) outcome {
	listed, exit := 0, 0
	for exit == 0 && listed < 2 {
		exit = r.command("GIT_TERMINAL_PROMPT=0", "git", "ls-remote", "--quiet", r.url+"/lab.git")
		if exit == 0 {
			listed++
		}
	}
	return counted(exit, listed, 2, "lists")
}

// lfsServer answers for large files: where they are, and what they hold.
func lfsServer(*run) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "/objects/batch") {
			_, number, _ := strings.Cut(q.URL.Path, "/object")
			_, _ = w.Write([]byte(lfsContent(number))) // the client may have left
			return
		}
		var asked struct {
			Objects []struct {
				OID  string `json:"oid"`
				Size int    `json:"size"`
			} `json:"objects"`
		}
		_ = json.NewDecoder(q.Body).Decode(&asked) // the client writes JSON
		var objects []map[string]any
		for _, o := range asked.Objects {
			for i := range 2 {
				if o.OID == sha256Of(lfsContent(strconv.Itoa(i))) {
					objects = append(objects, map[string]any{"oid": o.OID, "size": o.Size, "authenticated": true, "actions": map[string]any{
						"download": map[string]string{"href": fmt.Sprintf("http://%s/object%d", q.Host, i)},
					}})
				}
			}
		}
		w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
		_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": objects}) // the client may have left
	})
}

func lfsContent(number string) string { return "large content " + number + "\n" }

// lfsJob fetches two large files of a repository that is there but for them.
func lfsJob(r *run) outcome {
	r.must("git", "init", "-q", "-b", "main", "clone")
	r.write("clone/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
	for i := range 2 {
		content := lfsContent(strconv.Itoa(i))
		pointer := fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", sha256Of(content), len(content))
		r.write(fmt.Sprintf("clone/%d.bin", i), pointer)
	}
	r.must("git", "-C", "clone", "add", ".")
	r.must("git", "-C", "clone", "-c", "user.name=lab", "-c", "user.email=lab@example.com", "commit", "-q", "-m", "lab")
	r.must("git", "-C", "clone", "lfs", "install", "--local")
	r.must("git", "-C", "clone", "config", "lfs.url", r.url+"/lfs")
	exit := r.command("git", "-C", "clone", "lfs", "pull")
	return counted(exit, r.found("clone/.git/lfs/objects/*/*/*"), 2, "files")
}

// gits are git and its extension.
func gits() []*client {
	return []*client{
		{name: "git clone", program: "git", install: "git", version: []string{"git", "--version"}, backend: gitRepository, job: cloneJob},
		{name: "git ls-remote", program: "git", install: "git", version: []string{"git", "--version"}, backend: gitRepository, job: listJob},
		{
			name: "git lfs pull", program: "git-lfs git", install: "git-lfs", version: []string{"git-lfs", "--version"},
			backend: lfsServer, job: lfsJob,
			note: "reads the Retry-After of a batch, and of objects from version 3.8 on",
		},
	}
}
