package main

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// frames is the length of the film.
const frames = 100

// film writes a film of five segments.
func film(r *run) error {
	r.must("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=5:size=160x120:rate=20", "-c:v", "mpeg2video", "-g", "20",
		"-f", "hls", "-hls_time", "1", "-hls_list_size", "0", filepath.Join(r.served, "index.m3u8"))
	return r.err
}

// watch returns the job of a program that stores the film as film.ts.
func watch(words ...string) func(r *run) outcome {
	return func(r *run) outcome {
		exit := r.command(append(words, r.url+"/index.m3u8", "-y", "film.ts")...)
		return r.countFrames(exit)
	}
}

func (r *run) countFrames(exit int) outcome {
	if !isFile(filepath.Join(r.folder, "film.ts")) {
		return counted(exit, 0, frames, "frames")
	}
	text := r.must("ffprobe", "-v", "quiet", "-count_packets", "-show_entries", "stream=nb_read_packets", "-of", "csv=p=0", "film.ts")
	got, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(text)) // 0 frames in what is no film
	return counted(exit, got, frames, "frames")
}

// feedJob has a reader of feeds read four, and counts what it has to show.
func feedJob(r *run) outcome {
	var urls strings.Builder
	for i := range 4 {
		r.serve(fmt.Sprintf("feed%d.xml", i), fmt.Sprintf(`<?xml version="1.0"?><rss version="2.0"><channel><title>feed %d</title>`+
			`<link>http://example.com/</link><description>lab</description><item><title>one</title>`+
			`<link>http://example.com/%[1]d</link><guid>%[1]d</guid></item></channel></rss>`, i))
		fmt.Fprintf(&urls, "%s/feed%d.xml\n", r.url, i)
	}
	r.write("urls", urls.String())
	newsboat := []string{"newsboat", "-C", "/dev/null", "-u", "urls", "-c", "cache.db", "-x"}
	exit := r.command(append(newsboat, "reload")...)
	unread, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(r.must(append(newsboat, "print-unread")...))) // 0 for what is no number
	return counted(exit, unread, 4, "feeds")
}

// writesFor is how long Prometheus sends its samples.
const writesFor = 12 * time.Second

// samplesJob has Prometheus send its own metrics, and asks it how many samples it gave up.
func samplesJob(r *run) outcome {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	r.check(err)
	if r.err != nil {
		return outcome{}
	}
	address := listener.Addr().String()
	_ = listener.Close() // Prometheus takes the port
	r.write("prometheus.yml", "global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: lab\n  static_configs:\n  - targets: ['"+address+
		"']\nremote_write:\n- url: "+r.url+"/write\n  queue_config:\n    batch_send_deadline: 1s\n    max_shards: 1\n")
	command := r.prepare("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)
	command.Stdout, command.Stderr = &r.output, &r.output
	r.check(command.Start())
	if r.err != nil {
		return outcome{}
	}
	time.Sleep(writesFor)
	lost, sent := 0.0, 0.0
	if response, err := http.Get("http://" + address + "/metrics"); err == nil { //nolint:noctx // of this machine
		metrics := readAll(&http.Request{Body: response.Body})
		_ = response.Body.Close()
		lost = metric(metrics, "prometheus_remote_storage_samples_failed_total")
		sent = metric(metrics, "prometheus_remote_storage_samples_total")
	} else {
		r.check(err)
	}
	_ = command.Process.Signal(syscall.SIGKILL) // its last batches are of no interest
	_ = command.Wait()                          // which says how it was ended
	o := outcome{data: "all samples sent", whole: lost == 0}
	if lost > 0 {
		o.data = fmt.Sprintf("%.0f %% of the samples lost", 100*lost/max(sent, 1))
	}
	return o
}

// metric returns the value of the first series of a metric.
func metric(text, name string) float64 {
	match := regexp.MustCompile(`(?m)^` + name + `\{[^}]*\} (\S+)$`).FindStringSubmatch(text)
	if match == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(match[1], 64) // a metric has a number
	return n
}

// accepted answers everything with 204.
func accepted(*run) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_ = readAll(q)
		w.WriteHeader(http.StatusNoContent)
	})
}

// media are players, readers and monitoring.
func media() []*client {
	return []*client{
		{
			name: "ffmpeg, HLS", program: "ffmpeg", install: "ffmpeg", version: []string{"ffmpeg", "-version"}, files: film,
			job:  watch("ffmpeg", "-v", "warning", "-i"),
			note: "leaves out a segment that is refused, by whatever status: no answer prevents that",
		},
		{
			name: "yt-dlp, HLS", program: "yt-dlp ffmpeg", install: "yt-dlp", version: []string{"yt-dlp", "--version"}, limit: "4 3s", files: film,
			job: func(r *run) outcome {
				return r.countFrames(r.command("yt-dlp", "--ignore-config", "--no-cache-dir", "--no-progress", "-o", "film.ts", r.url+"/index.m3u8"))
			},
			note: "as ffmpeg",
		},
		{
			name: "newsboat", program: "newsboat", install: "newsboat", version: []string{"newsboat", "--version"}, job: feedJob,
			note: "asks again at its next turn",
		},
		{
			name: "prometheus remote_write", program: "prometheus", install: "prometheus", version: []string{"prometheus", "--version"},
			limit: "1 3s", options: "algorithm sliding_window_log", backend: accepted, job: samplesJob,
			note: "would lose its samples at 429; reads the Retry-After of a 503 from version 3 on",
		},
	}
}
