package accesslog

import (
	"fmt"
	"strings"
	"time"
)

// apacheFields are the directives of a LogFormat of Apache that matter. Its time is the start of a request unless it begins
// with end:.
var apacheFields = map[byte]field{
	'h': {role: clientRole}, 'a': {role: clientRole}, 'u': {role: userRole, raw: true},
	'r': {role: requestRole, raw: true}, 'm': {role: methodRole}, 'U': {role: pathRole, raw: true}, 'q': {role: queryRole, raw: true},
	'H': {role: protoRole}, 'v': {role: hostRole}, 'V': {role: hostRole}, 's': {role: statusRole},
	'b': {role: sizeRole}, 'B': {role: sizeRole}, 'O': {role: sizeRole},
	'D': {role: durationRole, unit: time.Microsecond}, 'T': {role: durationRole, unit: time.Second},
	'f': {raw: true}, 'R': {raw: true}, 'i': {raw: true}, 'o': {raw: true}, 'C': {raw: true}, 'n': {raw: true}, 'e': {raw: true},
}

// parseApache makes a template of a LogFormat of Apache, without its name. Directives that do not matter are skipped.
func parseApache(called, text string) (*template, error) {
	text = strings.NewReplacer(`\"`, `"`, `\t`, "\t", `\\`, `\`, "%%", "\x00").Replace(text)
	text = strings.ReplaceAll(text, "%U%q", "%{uri}U") // one text for who reads a line
	texts, fields := []string{""}, []field(nil)
	for text != "" {
		before, rest, found := strings.Cut(text, "%")
		texts[len(texts)-1] += strings.ReplaceAll(before, "\x00", "%")
		if !found {
			break
		}
		letter, name, rest, ok := cutDirective(rest)
		if !ok {
			return nil, fmt.Errorf("%%%s is no directive of a LogFormat", rest[:min(len(rest), 20)])
		}
		f, err := directiveField(letter, name)
		if err != nil {
			return nil, err
		}
		if letter == 't' && name == "" { // it has brackets of its own
			texts[len(texts)-1] += "["
			rest = "]" + rest
		}
		text = rest
		if last := len(fields) - 1; last >= 0 && f.role == timeRole && f.layout != "" && fields[last].role == timeRole {
			joined := strings.TrimSuffix(fields[last].layout, ".") + texts[len(texts)-1] + f.layout
			fields[last].layout = strings.ReplaceAll(joined, "..", ".")
			fields[last].coarse = fields[last].coarse && f.coarse
			texts[len(texts)-1] = ""
			continue
		}
		fields, texts = append(fields, f), append(texts, "")
	}
	for i := range fields {
		if fields[i].layout == epochLayout || strings.HasPrefix(fields[i].layout, epochLayout+".") {
			fields[i].layout = ""
		}
	}
	return newTemplate(called, texts, fields)
}

// cutDirective cuts what follows a percent sign: conditions such as !200,304 and >, a name in braces, and a letter.
func cutDirective(text string) (letter byte, name, rest string, ok bool) {
	rest = strings.TrimLeft(text, "!0123456789,<>")
	if inner, found := strings.CutPrefix(rest, "{"); found {
		if name, rest, found = strings.Cut(inner, "}"); !found {
			return 0, "", text, false
		}
	}
	rest = strings.TrimLeft(rest, "<>")
	if rest == "" {
		return 0, "", text, false
	}
	if rest[0] == '^' && len(rest) >= 3 { // ^ti and ^to are trailers
		return 'o', name, rest[3:], true
	}
	return rest[0], name, rest[1:], true
}

// directiveField returns the field of a directive.
func directiveField(letter byte, name string) (field, error) {
	f := apacheFields[letter]
	switch letter {
	case 't':
		return apacheTime(name)
	case 'a':
		if name == "c" {
			f.role = peerRole
		}
	case 'U':
		if name == "uri" {
			f.role = uriRole
		}
	case 'T':
		switch name {
		case "ms":
			f.unit = time.Millisecond
		case "us":
			f.unit = time.Microsecond
		}
	case 'i':
		switch {
		case strings.EqualFold(name, "X-Forwarded-For"):
			f.role = forwardedRole
		case strings.EqualFold(name, "Host"):
			f.role = hostRole
		default:
			f.role, f.name = headerRole, name
		}
	}
	return f, nil
}

// epochLayout marks a time that is a number since the Unix epoch.
const epochLayout = "epoch"

// apacheTime returns the field of %{name}t.
func apacheTime(name string) (field, error) {
	f := field{role: timeRole, moment: startMoment, layout: commonLog, coarse: true}
	if rest, found := strings.CutPrefix(name, "end:"); found {
		f.moment, name = endMoment, rest
	}
	name = strings.TrimPrefix(name, "begin:")
	switch name {
	case "":
		return f, nil
	case "sec", "msec", "usec":
		f.layout, f.coarse = epochLayout, name == "sec"
		return f, nil
	case "msec_frac":
		f.layout, f.coarse = ".000", false
		return f, nil
	case "usec_frac":
		f.layout, f.coarse = ".000000", false
		return f, nil
	}
	layout, ok := goLayout(name)
	if !ok {
		return f, fmt.Errorf("%%{%s}t: of a strftime format only %%d %%e %%b %%m %%Y %%y %%H %%M %%S %%T %%F %%D %%z %%Z are known", name)
	}
	f.layout = layout
	return f, nil
}

// goLayout returns Go's layout of a format of strftime.
func goLayout(format string) (layout string, ok bool) {
	names := map[byte]string{
		'd': "02", 'e': "_2", 'b': "Jan", 'B': "January", 'm': "01", 'Y': "2006", 'y': "06", 'H': "15", 'M': "04", 'S': "05",
		'T': "15:04:05", 'F': "2006-01-02", 'D': "01/02/06", 'z': "-0700", 'Z': "MST", 'a': "Mon", 'A': "Monday", 'I': "03", 'p': "PM",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i >= len(format) || names[format[i]] == "" {
			return "", false
		}
		b.WriteString(names[format[i]])
	}
	return b.String(), true
}
