// Package dashboard reads what Grafana would draw from the dashboard's file.
package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Dashboard is the part of Grafana's classic model that decides what is asked of Prometheus.
type Dashboard struct {
	Title         string     `json:"title"`
	SchemaVersion int        `json:"schemaVersion"`
	Panels        []Panel    `json:"panels"`
	Templating    Templating `json:"templating"`
}

// Panel is one panel, or a row's title, which has no targets.
type Panel struct {
	Title       string      `json:"title"`
	Type        string      `json:"type"`
	Description string      `json:"description"`
	Targets     []Target    `json:"targets"`
	FieldConfig FieldConfig `json:"fieldConfig"`
}

// Target is a query and how its series are called.
type Target struct {
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

// FieldConfig holds what is said of all of a panel's values.
type FieldConfig struct {
	Defaults Field `json:"defaults"`
}

// Field is how values are shown.
type Field struct {
	Unit     string    `json:"unit"`
	Mappings []Mapping `json:"mappings"`
	Custom   Custom    `json:"custom"`
}

// Mapping gives values words.
type Mapping struct {
	Options map[string]struct {
		Text string `json:"text"`
	} `json:"options"`
}

// Custom is how lines are drawn.
type Custom struct {
	Interpolation string `json:"lineInterpolation"`
	Stacking      struct {
		Mode string `json:"mode"`
	} `json:"stacking"`
}

// Templating holds the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is one that the user chooses. Definition is its query, empty for the data source.
type Variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Definition string `json:"definition"`
	AllValue   string `json:"allValue"`
}

// Load reads a dashboard's file.
func Load(path string) (*Dashboard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := new(Dashboard)
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	return d, nil
}

// Panel is the panel of that title which is drawn over time, nil where there is none.
func (d *Dashboard) Panel(title string) *Panel {
	for i := range d.Panels {
		if p := &d.Panels[i]; p.Title == title && p.Type == "timeseries" {
			return p
		}
	}
	return nil
}

// Expand puts into an expression what Grafana would: everything chosen in each variable, and the
// interval that rates are taken over, such as "1m".
func (d *Dashboard) Expand(expr, rateInterval string) string {
	pairs := []string{"$__rate_interval", rateInterval}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			pairs = append(pairs, "$"+v.Name, v.AllValue)
		}
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}
