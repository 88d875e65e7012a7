package serve

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestProcess_count counts context switches, which every kernel can: a server that answers has some.
func TestProcess_count(t *testing.T) {
	r, err := Redis(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	end := r.count(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK)
	cpu := r.CPU()
	for r.CPU() == cpu {
		if err := r.waitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	counted := end()
	t.Log(counted, r.CPU()-cpu)
	if counted <= 0 || counted > 1000*float64(r.CPU()) {
		t.Errorf("counted %v, processor time %v", counted, r.CPU())
	}
}
