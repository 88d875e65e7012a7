package answer

import (
	"strconv"
	"strings"
)

// acceptsPages reports whether an Accept header names HTML: a person reads the answer.
func acceptsPages(accept []string) bool { return readAccept(accept).page }

// preferredJSON returns the form in JSON that a request with an Accept header and the media type of its own body prefers;
// nil if the request prefers another type. JSON is preferred if no type has a higher quality than one of JSON, and HTML is
// not named. A request that accepts anything is answered in JSON if it is in JSON itself. Clients of MCP accept event streams
// beside JSON; what their SDKs show of a refusal is its body as it stands.
func preferredJSON(accept []string, own string) *Form {
	if len(accept) == 0 || len(accept) == 1 && accept[0] == "*/*" {
		if isJSON(own) {
			return &document
		}
		return nil
	}
	a := readAccept(accept)
	if a.page || a.events || a.json <= 0 || a.json < a.best {
		return nil
	}
	return a.document()
}

// document returns the JSON document with the media type that the header names.
func (a accepted) document() *Form {
	if a.problem {
		return &problem
	}
	return &document
}

// isJSON reports whether a media type is JSON.
func isJSON(kind string) bool {
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// accepted is what an Accept header says (RFC 9110, section 12.5.1), as far as a form is chosen by that. The zero value is
// that of a header that cannot be read.
type accepted struct {
	page       bool    // HTML is named
	events     bool    // event streams are named
	json, best float64 // the highest quality of a type of JSON, and of any
	problem    bool    // problem details are named
}

// readAccept reads an Accept header.
func readAccept(values []string) (a accepted) {
	length := 0
	for _, value := range values {
		if length += len(value) + 1; length > maxHeaderLen {
			return accepted{}
		}
		for value != "" {
			var element string
			element, value, _ = strings.Cut(value, ",")
			name, parameters, _ := strings.Cut(element, ";")
			if name = strings.Trim(name, " \t"); name == "" {
				continue
			}
			kind := mediaType(name)
			if kind == "" {
				return accepted{}
			}
			quality := qualityOf(parameters)
			a.best = max(a.best, quality)
			switch {
			case kind == "text/html":
				a.page = true
				return a
			case kind == "text/event-stream":
				a.events = true
			case isJSON(kind):
				a.json = max(a.json, quality)
				a.problem = a.problem || kind == "application/problem+json" && quality > 0
			}
		}
	}
	return a
}

// qualityOf returns the quality among the parameters of an element of Accept, from 0 to 1; 1 if there is none, 0 if it
// cannot be read. A quoted text with a comma ends the element: what stands behind the comma is no media type.
func qualityOf(parameters string) float64 {
	for parameters != "" {
		var parameter string
		parameter, parameters, _ = strings.Cut(parameters, ";")
		name, value, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
		if name == "q" || name == "Q" {
			quality, err := strconv.ParseFloat(value, 64)
			if err != nil || !(quality >= 0 && quality <= 1) {
				return 0
			}
			return quality
		}
	}
	return 1
}
