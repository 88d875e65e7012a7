package main

import "slices"

// list returns all clients, in the order of the table.
func list() []*client {
	refused := slices.Concat(transfers(), packages(), images(), gits(), stores(), acmes(), losses(), media(), pages(), sdks(), mcpSDKs(),
		senders())
	return append(refused, delayed(refused, "wget2 -r", "apt", "go mod", "git clone", "rclone sync, http", "ffmpeg, HLS",
		"httrack", "git-annex fsck --from web", "collectd write_http", "apt-mirror", "approx")...)
}

// delayed returns clients that never retry, or lose data when they are refused, at a limit that has them wait instead.
func delayed(all []*client, names ...string) (chosen []*client) {
	for _, c := range all {
		if slices.Contains(names, c.name) {
			waiting := *c
			waiting.name, waiting.limit, waiting.options = "max_delay: "+c.name, "2 2s", "algorithm gcra\nburst 11\nmax_delay 20s"
			waiting.spared, waiting.note = true, ""
			chosen = append(chosen, &waiting)
		}
	}
	return chosen
}
