package accesslog

import (
	"slices"
	"strings"
)

// textFormats are the formats of lines that are no JSON. Of those that recognize the lines of a file the first is the
// file's. The last one reads whatever there is, and says what is wrong.
var textFormats = []format{
	haproxyHTTP, haproxyCLF.format(), squidNative, squidCommon.format(), traefikCommon.format(), varnishLog.format(), lighttpdLog.format(),
	ingressNginx.format(), w3cLog, envoyLog, albLog, s3Log, commonLogFormat,
}

// jsonFormats are those of JSON. Caddy's is the last, and says what is wrong.
var jsonFormats = []format{traefikJSON, gcpLog, cloudflareLog, caddyJSON}

// namedFormats are those that only a name tells.
var namedFormats = serverFormats()

func serverFormats() (all []format) {
	for i := range namedServers {
		v := &namedServers[i]
		v.called = v.name
		all = append(all, v.format())
	}
	return all
}

// everyFormat returns all formats.
func everyFormat() []format { return slices.Concat(textFormats, jsonFormats, namedFormats) }

// FormatNames names the formats that are told by their lines, for a sentence.
func FormatNames() string {
	var programs []string
	for _, f := range everyFormat() {
		if f.program != "" && !slices.Contains(programs, f.program) {
			programs = append(programs, f.program)
		}
	}
	return "Caddy's JSON, Common or Combined Log Format, and the formats of " + strings.Join(programs, ", ")
}

// FormatWords names the formats that can be asked for, for a sentence.
func FormatWords() string {
	var names []string
	for _, f := range everyFormat() {
		if f.name != "" {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
