package accesslog

import (
	"errors"
	"fmt"
	"strings"
)

// Format is a format that was asked for.
type Format struct{ format format }

// ParseFormat makes a format of a name, of a log_format of nginx, or of a LogFormat of Apache.
func ParseFormat(text string) (*Format, error) {
	for _, f := range everyFormat() {
		if f.name == text && text != "" {
			return &Format{f}, nil
		}
	}
	var t *template
	var err error
	switch {
	case strings.Contains(text, "$"):
		t, err = parseNginx("the log_format of --format", text)
	case strings.Contains(text, "%"):
		t, err = parseApache("the LogFormat of --format", text)
	default:
		return nil, fmt.Errorf("no format is called %q: name one of %s, or write a log_format of nginx or a LogFormat of Apache", text, FormatWords())
	}
	if err != nil {
		return nil, err
	}
	return &Format{format{newReader: readerOfTemplate(t)}}, nil
}

// ParseFields makes a format of JSON of the keys of its fields, such as ends=time,client=remote_addr,uri=path.
func ParseFields(text string) (*Format, error) {
	f, err := parseFields("the JSON of --fields", text)
	if err != nil {
		return nil, err
	}
	return &Format{format{newReader: f.newReader}}, nil
}

// errNoMoment is the error of fields without a time.
var errNoMoment = errors.New("name the key of the time as starts or ends: a log does not tell whether its time is that of the start or the end of requests")
