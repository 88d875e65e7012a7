package accesslog

import "strings"

// formats are all formats. The first that recognizes a file's first line is that of the file. The last one recognizes
// any text.
var formats = []format{caddyJSON, commonLogFormat}

// FormatNames names all formats in a sentence.
func FormatNames() string {
	var names []string
	for _, f := range formats {
		names = append(names, f.called)
	}
	return strings.Join(names, ", ")
}
