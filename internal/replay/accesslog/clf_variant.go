package accesslog

// clfVariant is Common or Combined Log Format of a program that is known: by what it writes around it, or because it was
// asked for. Programs that write nothing around it differ in what the time is.
type clfVariant struct {
	name    string // of --format
	program string // whose log it is; empty for one that only a name tells
	called  string // by reports
	moment  moment
	plain   bool // backslashes in requests stand for themselves

	// fits reports whether a line is surely the program's. The entry has what the line says, tail is what follows the size,
	// or Referer and User-Agent. It is nil for a program that cannot be told by its lines.
	fits func(e *Entry, tail string) bool

	// finish sets what a tail says; nil if that is nothing.
	finish func(e *Entry, tail string)
}

// format returns the variant as a format.
func (v *clfVariant) format() format {
	return format{name: v.name, program: v.program, newReader: func(hints) lineReader { return &variantReader{clfVariant: v, common: commonReader{plain: v.plain}} }}
}

// variantReader reads the lines of one file.
type variantReader struct {
	*clfVariant

	common commonReader
}

func (r *variantReader) recognizes(line string) bool {
	reader := commonReader{layout: learnHead([][]string{headWords(headOf(line))})}
	var e Entry
	_, tail, why := reader.readAll(line, &e)
	return r.fits != nil && (why == noFault || why == emptyRequest) && r.fits(&e, tail)
}

// headOf returns what stands before the time.
func headOf(line string) string {
	open, _, _ := new(commonReader).time(line)
	return line[:open]
}

// learn implements [learner].
func (r *variantReader) learn(lines []string) { r.common.learn(lines) }

// clientPlace implements [placer].
func (r *variantReader) clientPlace() string { return r.common.clientPlace() }

func (r *variantReader) read(line string, e *Entry) (name string, why fault) {
	_, tail, why := r.common.readAll(line, e)
	if why != noFault {
		return r.called, why
	}
	r.common.readTrailing(tail, e)
	e.setTime(e.Time, r.moment, true)
	if r.finish != nil {
		r.finish(e, tail)
	}
	return r.called, noFault
}

// namedServers are programs whose lines are told by their names alone, with what their time is.
var namedServers = []clfVariant{
	{name: "apache", moment: startMoment}, {name: "gorilla", moment: startMoment}, {name: "gunicorn", moment: endMoment, plain: true},
	{name: "h2o", moment: startMoment, plain: true}, {name: "morgan", moment: endMoment}, {name: "nginx", moment: endMoment},
	{name: "tomcat", moment: endMoment}, {name: "uwsgi", moment: startMoment, plain: true},
}
