package serve

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Instructions begins to count the instructions of the process outside the kernel. What it returns ends that
// and returns their number, 0 where the kernel has no such counter.
func (p *Process) Instructions() (end func() float64) {
	return p.count(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS)
}

// count counts an event in all threads and in those that they begin.
func (p *Process) count(kind uint32, event uint64) (end func() float64) {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(p.command.Process.Pid) + "/task/*") // the pattern is right
	var counters []*os.File
	for _, thread := range threads {
		id, _ := strconv.Atoi(filepath.Base(thread)) // always digits
		attributes := unix.PerfEventAttr{Type: kind, Config: event, Bits: unix.PerfBitInherit | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
		attributes.Size = unix.PERF_ATTR_SIZE_VER1
		if fd, err := unix.PerfEventOpen(&attributes, id, -1, -1, unix.PERF_FLAG_FD_CLOEXEC); err == nil {
			counters = append(counters, os.NewFile(uintptr(fd), thread))
		}
	}
	return func() float64 {
		var sum uint64
		for _, counter := range counters {
			var number [8]byte
			if n, err := counter.Read(number[:]); err == nil && n == len(number) {
				sum += binary.NativeEndian.Uint64(number[:])
			}
			_ = counter.Close() // it was only read
		}
		return float64(sum)
	}
}
