package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/webdav"
)

// resticServer keeps what restic stores, as its REST protocol says.
func resticServer(r *run) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		path := filepath.Join(r.served, filepath.FromSlash(q.URL.Path))
		switch {
		case q.Method == http.MethodPost && q.URL.Query().Get("create") == "true":
			for _, kind := range []string{"data", "index", "keys", "locks", "snapshots"} {
				_ = os.MkdirAll(filepath.Join(path, kind), 0o755) // a folder of the run
			}
		case q.Method == http.MethodPost:
			_ = writeFile(path, []byte(readAll(q))) // likewise
		case q.Method == http.MethodDelete:
			_ = os.Remove(path) // likewise
		case strings.HasSuffix(q.URL.Path, "/"):
			var items []string
			files, _ := os.ReadDir(path)
			for _, f := range files {
				info, _ := f.Info()
				items = append(items, fmt.Sprintf(`{"name":%q,"size":%d}`, f.Name(), info.Size()))
			}
			w.Header().Set("Content-Type", "application/vnd.x.restic.rest.v2")
			_, _ = fmt.Fprintf(w, "[%s]", strings.Join(items, ",")) // the client may have left
		default:
			http.ServeFile(w, q, path)
		}
	})
}

// resticJob stores a folder through the limit, and restores it without one.
func resticJob(r *run) outcome {
	r.write("data/file.txt", "content\n")
	restic := func(site string, words ...string) []string {
		return append([]string{"RESTIC_PASSWORD=lab", "restic", "--no-cache", "-r", "rest:" + site + "/lab/"}, words...)
	}
	r.must(restic(r.direct, "init")...)
	exit := r.command(restic(r.url, "backup", "--quiet", "data")...)
	r.command(restic(r.direct, "restore", "--no-lock", "--target", "back", "latest")...) // fails without a backup
	return counted(exit, r.found("back/*/*/*/data/file.txt")+r.found("back/data/file.txt"), 1, "files")
}

// syncJob returns the job of syncing a folder from the site. The folder already holds all files, older by so much than
// those of the site, and is to keep them.
func syncJob(older time.Duration) func(r *run) outcome {
	return func(r *run) outcome {
		for i := range 5 {
			name := fmt.Sprintf("file%d.txt", i+1)
			r.write("copy/"+name, fmt.Sprintf("the content of file %d\n", i+1))
			moment := time.Now().Add(-older).Truncate(time.Second)
			r.check(os.Chtimes(filepath.Join(r.folder, "copy", name), moment, moment))
			r.check(os.Chtimes(filepath.Join(r.served, name), moment.Add(older), moment.Add(older)))
		}
		r.write("rclone.conf", "[site]\ntype = http\nurl = "+r.url+"/\n")
		o := r.compare(filepath.Join(r.folder, "copy"), r.command("rclone", "--config", "rclone.conf", "sync", "site:", "copy"))
		o.data += " left"
		return o
	}
}

// davJob copies five files to the site.
func davJob(r *run) outcome {
	for i := range 5 {
		r.write(fmt.Sprintf("data/file%d.txt", i+1), fmt.Sprintf("the content of file %d\n", i+1))
	}
	r.write("rclone.conf", "[site]\ntype = webdav\nurl = "+r.url+"/\nvendor = other\n")
	exit := r.command("rclone", "--config", "rclone.conf", "copy", "data", "site:", "-v")
	stored, _ := filepath.Glob(filepath.Join(r.served, "file*.txt")) // the pattern is right
	return counted(exit, len(stored), 5, "files")
}

// filesWithoutIndex are the five files in a folder that is listed.
func filesWithoutIndex(r *run) error {
	r.check(fiveFiles(r))
	r.check(os.Remove(filepath.Join(r.served, "index.html")))
	return r.err
}

// stores are programs that keep folders alike, and backups.
func stores() []*client {
	rclone := client{program: "rclone", install: "rclone", version: []string{"rclone", "version"}}
	sync, dav := rclone, rclone
	sync.name, sync.files, sync.job, sync.limit = "rclone sync, http", filesWithoutIndex, syncJob(0), "3 3s"
	sync.note = "rclone takes a file for absent whose HEAD is refused, by whatever status: no answer prevents that"
	free := sync
	free.name, free.matcher, free.job = "rclone sync, http, no limit for HEAD", "not method HEAD", syncJob(time.Hour)
	free.note = "reads no Retry-After of a GET, and deletes nothing when one is refused"
	dav.name, dav.job = "rclone copy, webdav", davJob
	dav.note = "reads no Retry-After"
	dav.backend = func(r *run) http.Handler {
		return &webdav.Handler{FileSystem: webdav.Dir(r.served), LockSystem: webdav.NewMemLS()}
	}
	return []*client{
		{
			name: "restic backup", program: "restic", install: "restic", version: []string{"restic", "version"}, limit: "6 3s",
			backend: resticServer, job: resticJob, note: "reads no Retry-After",
		},
		&sync, &free, &dav,
		{
			name: "aria2c", program: "aria2c", install: "aria2", version: []string{"aria2c", "--version"}, files: fiveFiles,
			job: fetch("aria2c", "-q", "--force-sequential=true", "--console-log-level=error"),
		},
		{
			name: "lftp mirror", program: "lftp", install: "lftp", version: []string{"lftp", "--version"}, files: filesWithoutIndex, limit: "6 3s",
			job: func(r *run) outcome {
				return r.compare(filepath.Join(r.folder, "copy"), r.command("lftp", "-c", "set net:max-retries 6; mirror "+r.url+"/ copy"))
			},
			note: "reads no Retry-After: waits 15 s and more",
		},
	}
}
