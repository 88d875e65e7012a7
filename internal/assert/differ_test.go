package assert

import (
	"testing"
	"time"
)

// state is what the tests compare.
type state struct {
	Left    int
	Wait    time.Duration
	Inside  *state
	List    []state
	ByName  map[string]int
	Any     any
	hidden  string
	holding []int
	when    time.Time
}

func TestDiffer(t *testing.T) {
	day := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		got, want state
		differ    string
	}{
		"nothing":            {state{Left: 1, List: []state{{}}}, state{Left: 1, List: []state{{}}}, ""},
		"fields":             {state{Left: 3, Wait: time.Second}, state{Left: 4, Wait: 2 * time.Second}, "Left is 3, want 4; Wait is 1s, want 2s"},
		"behind a pointer":   {state{Inside: &state{Left: 1}}, state{Inside: &state{}}, "Inside.Left is 1, want 0"},
		"no pointer":         {state{Inside: nil}, state{Inside: &state{}}, "Inside is <nil>, want &{Left:0 Wait:0s Inside:<nil> List:[] ByName:map[] Any:<nil> hidden: holding:[] when:{wall:0 ext:0 loc:<nil>}}"},
		"an element":         {state{List: []state{{}, {Left: 7}}}, state{List: []state{{}, {}}}, "List[1].Left is 7, want 0"},
		"an entry":           {state{ByName: map[string]int{"a": 1}}, state{ByName: map[string]int{"a": 2}}, `ByName["a"] is 1, want 2`},
		"a missing entry":    {state{ByName: map[string]int{}}, state{ByName: map[string]int{"a": 2}}, `ByName["a"] is missing, want 2`},
		"an entry too much":  {state{ByName: map[string]int{"a": 2}}, state{ByName: map[string]int{}}, `ByName["a"] is 2, want missing`},
		"types":              {state{Any: 1}, state{Any: "1"}, `Any is 1, want "1"`},
		"hidden text":        {state{hidden: "a\n"}, state{hidden: "b"}, `hidden is "a\n", want "b"`},
		"hidden lists":       {state{holding: []int{1, 2}}, state{holding: []int{1, 3}}, "holding[1] is 2, want 3"},
		"a hidden length":    {state{holding: []int{1}}, state{holding: []int{1, 3}}, "holding is [1], want [1 3]"},
		"a hidden empty one": {state{holding: []int{}}, state{}, "holding is [], want []"},
		"the same, hidden":   {state{holding: []int{1}, when: day}, state{holding: []int{1}, when: day}, ""},
	} {
		if got := Differ(test.got, test.want); got != test.differ {
			t.Errorf("%s: got %q, want %q", name, got, test.differ)
		}
	}
}

// TestDiffer_bounded has more parts than are shown, and a value that holds itself.
func TestDiffer_bounded(t *testing.T) {
	got := Differ(make([]int, 20), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	if want := "[0] is 0, want 1; [1] is 0, want 2"; got[:len(want)] != want || got[len(got)-len("12 more differ"):] != "12 more differ" {
		t.Errorf("got %q", got)
	}
	ring, other := &state{Left: 1}, &state{Left: 2}
	ring.Inside, other.Inside = ring, other
	if got := Differ(ring, other); got == "" {
		t.Error("rings that differ are the same")
	}
}
