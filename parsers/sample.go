package main

// sample is a request that parsers may read in several ways, with the name that is asked for.
type sample struct {
	name  string   // in the table of disagreements
	field string   // that is asked of forms; without one no reader of forms is asked
	path  string   // that is asked of documents; without one no reader of documents is asked
	types []string // Content-Types
	query string   // as it is sent
	body  string
}

const (
	urlencodedType = "application/x-www-form-urlencoded"
	multipartType  = "multipart/form-data; boundary=" + boundary
	jsonType       = "application/json"
	boundary       = "AaB"
)

// urlencoded returns a sample of a body that is application/x-www-form-urlencoded.
func urlencoded(name, field, body string) sample {
	return sample{name: "urlencoded: " + name, field: field, types: []string{urlencodedType}, body: body}
}

// multipart returns a sample of a body that is multipart/form-data.
func multipart(name, field, body string) sample {
	return sample{name: "multipart: " + name, field: field, types: []string{multipartType}, body: body}
}

// document returns a sample of a body that is JSON.
func document(name, path, body string) sample {
	return sample{name: "JSON: " + name, path: path, types: []string{jsonType}, body: body}
}

// part returns a part of a form with a field.
func part(name, value string) string { return headPart(`form-data; name="`+name+`"`, "", value) }

// headPart returns a part with a Content-Disposition and more lines of its head, each with its end.
func headPart(disposition, lines, value string) string {
	return "--" + boundary + "\r\nContent-Disposition: " + disposition + "\r\n" + lines + "\r\n" + value + "\r\n"
}

// end ends a form of parts.
const end = "--" + boundary + "--\r\n"
