package accesslog

import (
	"strings"
	"time"
)

// nginxFields are the variables of nginx that matter. All its times are when a request ended and was logged.
var nginxFields = map[string]field{
	"remote_addr":               {role: clientRole},
	"realip_remote_addr":        {role: peerRole},
	"http_x_forwarded_for":      {role: forwardedRole, raw: true},
	"proxy_add_x_forwarded_for": {role: forwardedRole, raw: true},
	"remote_user":               {role: userRole, raw: true},
	"time_local":                {role: timeRole, moment: endMoment, layout: commonLog, coarse: true},
	"time_iso8601":              {role: timeRole, moment: endMoment, layout: time.RFC3339, coarse: true},
	"msec":                      {role: timeRole, moment: endMoment},
	"request_time":              {role: durationRole, unit: time.Second},
	"request":                   {role: requestRole, raw: true},
	"request_method":            {role: methodRole},
	"request_uri":               {role: uriRole, raw: true},
	"uri":                       {role: pathRole, raw: true},
	"document_uri":              {role: pathRole, raw: true},
	"args":                      {role: queryRole, raw: true},
	"query_string":              {role: queryRole, raw: true},
	"server_protocol":           {role: protoRole},
	"scheme":                    {role: schemeRole},
	"host":                      {role: hostRole},
	"status":                    {role: statusRole},
	"body_bytes_sent":           {role: sizeRole},
	"bytes_sent":                {role: sizeRole},
}

// parseNginx makes a template of a log_format of nginx, without its name. Variables that do not matter are skipped.
func parseNginx(called, text string) (*template, error) {
	return parseVariables(called, text, nginxFields)
}

// parseVariables makes a template of a text with variables, such as $status or ${status}.
func parseVariables(called, text string, known map[string]field) (*template, error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\t`, "\t"), `\"`, `"`)
	// a path and its query are one text for who reads a line
	text = strings.NewReplacer("$uri$is_args$args", "$request_uri", "$document_uri$is_args$args", "$request_uri").Replace(text)
	texts, fields := []string{""}, []field(nil)
	for text != "" {
		before, rest, found := strings.Cut(text, "$")
		texts[len(texts)-1] += before
		if !found {
			break
		}
		rest, braces := strings.CutPrefix(rest, "{")
		end := strings.IndexFunc(rest, func(c rune) bool {
			return c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
		})
		if end < 0 {
			end = len(rest)
		}
		fields = append(fields, variable(rest[:end], known))
		texts = append(texts, "")
		if text = rest[end:]; braces {
			text = strings.TrimPrefix(text, "}")
		}
	}
	return newTemplate(called, texts, fields)
}

// variable returns the field of a variable. Those of headers and cookies are texts of clients.
func variable(name string, known map[string]field) field {
	if f, found := known[name]; found {
		return f
	}
	header, isHeader := strings.CutPrefix(name, "http_")
	switch {
	case isHeader && header == "host":
		return field{role: hostRole, raw: true}
	case isHeader:
		return field{role: headerRole, name: strings.ReplaceAll(header, "_", "-"), raw: true}
	case strings.HasPrefix(name, "cookie_"), strings.HasPrefix(name, "arg_"), strings.HasPrefix(name, "sent_http_"), strings.HasPrefix(name, "upstream_"):
		return field{raw: true}
	}
	return field{}
}
