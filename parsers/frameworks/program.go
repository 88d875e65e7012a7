// Package frameworks installs web frameworks below a folder, those of two releases of Debian, of npm and of Go's modules, and
// runs programs that serve them.
package frameworks

// The releases of Debian whose frameworks are run: the oldest one that is widely in use, and what the next one will have.
const (
	OldSuite = "bookworm"
	NewSuite = "sid"
)

// Program is a program that serves a framework on a port.
type Program struct {
	Name     string   // in errors
	Suite    string   // the Debian release that the program is of, or "" for one of this machine
	Packages []string // Debian's, with the program
	Sources  string   // the folder of what is compiled
	Compiled string   // what becomes of it
	Prepare  []string // a command that compiles it before the program is run, once
	Command  []string // {port} stands for the port, and {built} for [Workshop.Built] where there is no release
	Version  []string // a command that prints the version; none: the program prints it in its first line
}
