package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// blob is a part of an image.
type blob struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`

	content string
}

func newBlob(kind, title, content string) blob {
	return blob{
		MediaType: "application/vnd.oci.image." + kind, Digest: "sha256:" + sha256Of(content), Size: len(content),
		Annotations: map[string]string{"org.opencontainers.image.title": title}, content: content,
	}
}

// registry serves an image of three layers.
func registry(*run) http.Handler {
	var layers []blob
	var diffs []string
	for i := range 3 {
		layer := tarUncompressed(entries{fmt.Sprintf("file%d.txt", i+1), "content\n"})
		layers = append(layers, newBlob("layer.v1.tar", fmt.Sprintf("layer%d.tar", i+1), layer))
		diffs = append(diffs, "sha256:"+sha256Of(layer))
	}
	config, _ := json.Marshal(map[string]any{ // strings alone
		"architecture": "amd64", "os": "linux", "config": map[string]any{}, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	settings := newBlob("config.v1+json", "", string(config))
	settings.Annotations = nil
	text, _ := json.Marshal(map[string]any{ // likewise
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": settings, "layers": layers,
	})
	manifest := newBlob("manifest.v1+json", "", string(text))
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		for _, b := range append(layers, settings, manifest) {
			if strings.HasSuffix(q.URL.Path, "/"+b.Digest) || b.Digest == manifest.Digest && strings.HasSuffix(q.URL.Path, "/manifests/v1") {
				w.Header().Set("Content-Type", b.MediaType)
				w.Header().Set("Docker-Content-Digest", b.Digest)
				w.Header().Set("Content-Length", strconv.Itoa(b.Size))
				_, _ = w.Write([]byte(b.content)) // the client may have left
				return
			}
		}
		if q.URL.Path != "/v2/" {
			http.NotFound(w, q)
		}
	})
}

// pull returns the job of a program that writes an image to files that a pattern finds.
func pull(pattern string, want int, words ...string) func(r *run) outcome {
	return func(r *run) outcome {
		var filled []string
		for _, word := range words {
			filled = append(filled, strings.ReplaceAll(word, "IMAGE", r.host()+"/lab/image:v1"))
		}
		exit := r.command(filled...)
		return counted(exit, r.found(pattern), want, "files")
	}
}

// podmanJob pulls into a storage of its own.
func podmanJob(r *run) outcome {
	podman := []string{"podman", "--root", r.folder + "/root", "--runroot", r.folder + "/runroot", "--storage-driver", "vfs",
		"--network-config-dir", r.folder + "/networks"}
	exit := r.command(append(podman, "pull", "--quiet", "--tls-verify=false", r.host()+"/lab/image:v1")...)
	return counted(exit, r.found("root/vfs-images/images.json"), 1, "images")
}

// images are programs that pull images.
func images() []*client {
	return []*client{
		{
			name: "skopeo copy", program: "skopeo", install: "skopeo", version: []string{"skopeo", "--version"}, backend: registry,
			job: pull("image/*[0-9a-f]", 4, "skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "docker://IMAGE", "dir:image"),
		},
		{
			name: "podman pull", program: "podman", install: "podman", version: []string{"podman", "--version"}, backend: registry,
			job: podmanJob,
		},
		{
			name: "crane pull", program: "crane", install: "(Go)", version: []string{"go", "version", "-m", "{built}/crane"}, backend: registry,
			job:  pull("image/blobs/sha256/*", 5, "crane", "pull", "--insecure", "--format", "oci", "IMAGE", "image"),
			note: "reads no Retry-After: waits 1 s, then 3 s",
		},
		{
			name: "oras pull", program: "oras", install: "(Go)", version: []string{"oras", "version"}, backend: registry,
			job: pull("layer*.tar", 3, "oras", "pull", "--plain-http", "--no-tty", "IMAGE"),
		},
	}
}
