// Package dashboard reads the panels and queries of a Grafana dashboard's file.
package dashboard

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Dashboard is the part of Grafana's classic model that yields the queries to Prometheus.
type Dashboard struct {
	Title         string     `json:"title"`
	SchemaVersion int        `json:"schemaVersion"`
	Panels        []Panel    `json:"panels"`
	Templating    Templating `json:"templating"`
}

// Panel is a panel, or the title of a row, which has no targets.
type Panel struct {
	Title       string      `json:"title"`
	Type        string      `json:"type"`
	Description string      `json:"description"`
	Targets     []Target    `json:"targets"`
	FieldConfig FieldConfig `json:"fieldConfig"`
}

// Target is a query with the names of its series.
type Target struct {
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

// FieldConfig holds the settings of all values of a panel.
type FieldConfig struct {
	Defaults Field `json:"defaults"`
}

// Field is the format of values.
type Field struct {
	Unit     string    `json:"unit"`
	Mappings []Mapping `json:"mappings"`
	Custom   Custom    `json:"custom"`
}

// Mapping maps values to words.
type Mapping struct {
	Options map[string]struct {
		Text string `json:"text"`
	} `json:"options"`
}

// Custom is the form of lines.
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

// Variable is chosen by the user. Definition is its query, empty for the data source.
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

// Panel returns the time series panel of that title, or nil.
func (d *Dashboard) Panel(title string) *Panel {
	for i := range d.Panels {
		if p := &d.Panels[i]; p.Title == title && p.Type == "timeseries" {
			return p
		}
	}
	return nil
}

// Expand replaces the variables of an expression as Grafana does where all their values are chosen.
// rateInterval is the range of rates, such as "1m".
func (d *Dashboard) Expand(expr, rateInterval string) string {
	pairs := []string{"$__rate_interval", rateInterval}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			pairs = append(pairs, "$"+v.Name, v.AllValue)
		}
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}
