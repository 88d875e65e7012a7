package accesslog

// format is a format of access logs. A new one is a file of this package, and a line in textFormats or jsonFormats.
type format struct {
	// name is what --format calls the format; empty for one that cannot be asked for.
	name string

	// program is whose log it is, for a list of programs; empty for a format of many.
	program string

	// newReader returns the reader of one file.
	newReader func(h hints) lineReader
}

// lineReader reads the lines of one file in one format. State of a line makes the next one cheaper.
type lineReader interface {
	// recognizes reports whether a line is surely one of the format. A line is never blank, and does not begin with
	// blanks.
	recognizes(line string) bool

	// read reads a line into an empty entry. It returns what reports call the format of the line, and why the line is no
	// request.
	read(line string, e *Entry) (name string, why fault)
}

// learner is a [lineReader] that decides by the first lines of a file what their parts mean, and does so once.
type learner interface {
	learn(lines []string)
}

// placer is a [lineReader] that can say where its lines have the client, in words for a sentence.
type placer interface {
	clientPlace() string
}

// hints is what a configuration tells about the logs that it wrote.
type hints struct {
	timeLayouts     []string // see [ReaderOptions]
	durationFormats []string
	responses       bool
}
