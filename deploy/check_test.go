package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// check returns the errors of an expression: its syntax, and names, labels and values that no metric
// has. Records are names of recording rules.
func (e exported) check(expr string, records []string) (wrong []error) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []error{err}
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			wrong = append(wrong, e.checkSelector(n, records)...)
		case *parser.AggregateExpr:
			wrong = append(wrong, e.checkLabels(n.Expr, n.Grouping)...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				wrong = append(wrong, e.checkLabels(n, n.VectorMatching.MatchingLabels)...)
			}
		}
		return nil
	})
	return wrong
}

// checkSelector returns an error where no metric has the selector's name, or a label or value of its
// matchers. Values in regular expressions are checked where they are literal.
func (e exported) checkSelector(s *parser.VectorSelector, records []string) (wrong []error) {
	if slices.Contains(records, s.Name) {
		return nil
	}
	if e[s.Name] == nil {
		return []error{fmt.Errorf("no metric is called %s", s.Name)}
	}
	for _, m := range s.LabelMatchers {
		values, known := e[s.Name][m.Name]
		if !known {
			wrong = append(wrong, fmt.Errorf("%s has no label %s", s.Name, m.Name))
			continue
		}
		for _, value := range alternatives(m) {
			if !values[value] {
				wrong = append(wrong, fmt.Errorf("%s of %s is never %q", m.Name, s.Name, value))
			}
		}
	}
	return wrong
}

// alternatives returns the literal values of a matcher.
func alternatives(m *labels.Matcher) []string {
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		return []string{m.Value}
	}
	var values []string
	for value := range strings.SplitSeq(m.Value, "|") {
		if regexp.QuoteMeta(value) == value {
			values = append(values, value)
		}
	}
	return values
}

// checkLabels returns an error for each label that a metric beneath a node lacks. The labels of a
// recorded series stand before the colon of its name.
func (e exported) checkLabels(under parser.Node, names []string) (wrong []error) {
	parser.Inspect(under, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		level, _, recorded := strings.Cut(s.Name, ":")
		for _, name := range names {
			if _, known := e[s.Name][name]; known || recorded && slices.Contains(strings.Split(level, "_"), name) {
				continue
			}
			wrong = append(wrong, fmt.Errorf("%s has no label %s", s.Name, name))
		}
		return nil
	})
	return wrong
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// checkVariable checks the metric and the label of a variable's values.
func checkVariable(t *testing.T, e exported, v variable) {
	t.Helper()
	query := labelValues.FindStringSubmatch(v.Definition)
	if query == nil {
		t.Fatalf("%s is no label_values(metric, label)", v.Definition)
	}
	expr := fmt.Sprintf("sum by (%s) (%s)", query[2], loadDashboard(t).expand(query[1], ""))
	for _, err := range e.check(expr, nil) {
		t.Error(err)
	}
}

// checkShows checks that an expression has values in the recording, with all labels of its legend.
func (r *recording) checkShows(t *testing.T, expr, legend string) {
	t.Helper()
	matrix := r.values(t, expr, begin, r.end, scrapeEvery)
	if len(matrix) == 0 {
		t.Fatalf("%s shows nothing", expr)
	}
	for _, series := range matrix {
		for _, label := range legendLabel.FindAllStringSubmatch(legend, -1) {
			if !series.Metric.Has(label[1]) {
				t.Errorf("%s: the legend %s names a label that %s does not have", expr, legend, series.Metric)
			}
		}
	}
}
