package answer

import (
	"fmt"
	"slices"
	"strings"
)

// Formats are the groups of headers that a handler shows quotas in. The zero value is none.
//
// A new format needs a constant and a name here, a line in [Quotas.SetHeaders], its headers in exposable, and its word in the row of
// headers in internal/options/directive.go.
type Formats uint8

// The formats.
const (
	XRateLimit Formats = 1 << iota // X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset
	IETF                           // RateLimit-Policy, RateLimit
)

// The values of the headers option.
const (
	FormatXRateLimit = "x_ratelimit"
	formatIETF       = "ietf"
	formatOff        = "off"
)

// formatNames are the formats by their names in the headers option, in the order of the constants.
var formatNames = []string{FormatXRateLimit, formatIETF}

// FormatsHint says which values the headers option has.
func FormatsHint() string {
	last := len(formatNames) - 1
	return formatOff + ", or any of " + strings.Join(formatNames[:last], ", ") + " and " + formatNames[last]
}

// ParseFormats reads the headers option: off alone, or any of the others, each once.
func ParseFormats(names []string) (formats Formats, err error) {
	for _, name := range names {
		format := Formats(0)
		if i := slices.Index(formatNames, name); i >= 0 {
			format = 1 << i
		}
		switch {
		case name == formatOff && len(names) == 1:
		case format == 0 || formats&format != 0:
			return formats, fmt.Errorf("headers %s: use %s, each once", name, FormatsHint())
		}
		formats |= format
	}
	return formats, nil
}
