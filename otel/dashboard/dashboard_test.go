package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// dashboard is the part of Grafana's JSON that the test looks at.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
}

type target struct{ RefID, Expr, LegendFormat string }

type variable struct {
	Name, Type string
	AllValue   string
	Query      any // an object {query} of a variable whose values are queried
}

func load(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) == 0 || d.Title == "" || d.UID == "" || d.SchemaVersion == 0 {
		t.Fatalf("no dashboard: %+v", d)
	}
	return d
}

// Each expression of each panel finds something other than 0 in the recorded
// metrics, and the labels that its legend names.
func TestPanelsShowTheRecordedMetrics(t *testing.T) {
	d, r := load(t), record(t)
	for _, p := range d.Panels {
		t.Run(p.Title, func(t *testing.T) {
			if len(p.Targets) == 0 || p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
				t.Error("a panel has an expression, a description and a unit")
			}
			for _, target := range p.Targets {
				if err := r.check(d, target); err != nil {
					t.Errorf("%s: %v", target.RefID, err)
				}
			}
		})
	}
}

// Each metric that the program exports is in a panel.
func TestPanelsShowAllMetrics(t *testing.T) {
	d, r := load(t), record(t)
	shown := map[string]bool{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for name := range names(t, d.filled(target.Expr)) {
				shown[family(name)] = true
			}
		}
	}
	for name := range r.names {
		if strings.HasPrefix(name, "doclock_") && !shown[family(name)] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// The README has the names that Prometheus has.
func TestReadmeHasTheNames(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range record(t).names {
		if strings.HasPrefix(name, "doclock_") && !strings.Contains(string(readme), "`"+family(name)+"`") {
			t.Errorf("the README doesn't have %s", family(name))
		}
	}
}

// The alerts of docs/operations.md are a file of rules. Each expression finds the recorded
// failures, with 0 as its threshold: the recording has few. The page has each metric.
func TestAlerts(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```\n")
	file, errs := rulefmt.Parse([]byte(block), false, model.UTF8Validation)
	if len(errs) > 0 || len(file.Groups) != 1 {
		t.Fatal("no file of rules: ", errs)
	}
	r, threshold := record(t), regexp.MustCompile(` > [0-9.]+\s*$`)
	for _, rule := range file.Groups[0].Rules {
		if err := r.check(dashboard{}, target{Expr: threshold.ReplaceAllString(rule.Expr, " > 0")}); err != nil {
			t.Errorf("%s: %v", rule.Alert, err)
		}
	}
	for name := range r.names {
		if strings.HasPrefix(name, "doclock_") && !strings.Contains(string(page), "| `"+family(name)+"`") && !strings.Contains(string(page), "beside `"+family(name)+"`") {
			t.Errorf("the page doesn't say what %s tells", family(name))
		}
	}
}

// The values of the variables are those of a label that the series have.
func TestVariablesHaveValues(t *testing.T) {
	d, r := load(t), record(t)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		query := v.Query.(map[string]any)["query"].(string)
		m := labelValues.FindStringSubmatch(query)
		if m == nil {
			t.Errorf("%s: %q is no label_values(series, label)", v.Name, query)
			continue
		}
		if err := r.check(d, target{Expr: "count by (" + m[2] + ") (" + m[1] + ")", LegendFormat: "{{" + m[2] + "}}"}); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.*), *([a-z_]+)\)$`)

// Panels have IDs of their own and don't overlap.
func TestPanelsHaveTheirPlaces(t *testing.T) {
	const columns = 24
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range load(t).Panels {
		if ids[p.ID] != "" || p.ID == 0 {
			t.Errorf("%s and %s have the ID %d", p.Title, ids[p.ID], p.ID)
		}
		ids[p.ID] = p.Title
		if g := p.GridPos; g.W == 0 || g.H == 0 || g.X+g.W > columns {
			t.Errorf("%s is at %+v", p.Title, g)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" {
					t.Fatalf("%s is on top of %s", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
	}
}

// The check finds the faults that it is there for.
func TestTheCheckFindsFaults(t *testing.T) {
	d, r := load(t), record(t)
	for _, c := range []struct{ fault, expr, legend string }{
		{"no such metric", "sum(rate(doclock_acquires_total[$__rate_interval]))", ""},
		{"no such metric beside one", "sum(doclock_active_leases) / sum(doclock_leases)", ""},
		{"no such label value", `sum(rate(doclock_wait_duration_seconds_count{doclock_outcome="gave up"}[$__rate_interval]))`, ""},
		{"no such label", "sum by (tag) (doclock_active_leases)", "{{tag}}"},
		{"a label that is summed away", "sum(doclock_active_leases)", "{{doclock_tag}}"},
		{"no PromQL", "sum(doclock_active_leases", ""},
		{"no such variable", `doclock_active_leases{doclock_tag=~"$tags"}`, ""},
		{"always 0", "doclock_active_leases * 0", ""},
		{"nothing but NaN", "doclock_active_leases * 0 / 0", ""},
	} {
		if err := r.check(d, target{Expr: c.expr, LegendFormat: c.legend}); err == nil {
			t.Errorf("%s: no fault was found in %s", c.fault, c.expr)
		} else {
			t.Logf("%s: %v", c.fault, err)
		}
	}
}

// check evaluates an expression as Grafana would have it evaluated.
func (r *recording) check(d dashboard, shown target) error {
	expr := d.filled(shown.Expr)
	if rest := regexp.MustCompile(`\$\w+`).FindString(expr); rest != "" {
		return fmt.Errorf("no variable %s", rest)
	}
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return err
	}
	for name := range selected(parsed) {
		if !r.names[name] {
			return fmt.Errorf("no metric %s", name)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	defer engine.Close()
	query, err := engine.NewRangeQuery(context.Background(), r, nil, expr, start.Add(10*time.Minute), start.Add((scrapes-1)*interval), time.Minute)
	if err != nil {
		return err
	}
	defer query.Close()
	matrix, err := query.Exec(context.Background()).Matrix()
	if err != nil {
		return err
	}
	return found(matrix, shown.LegendFormat)
}

var inLegend = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// found reports what is missing in a result.
func found(matrix promql.Matrix, legend string) error {
	if len(matrix) == 0 {
		return errors.New("no series")
	}
	some := false
	for _, series := range matrix {
		for _, m := range inLegend.FindAllStringSubmatch(legend, -1) {
			if series.Metric.Get(m[1]) == "" {
				return fmt.Errorf("the series %s has no label %s", series.Metric, m[1])
			}
		}
		some = some || slices.ContainsFunc(series.Floats, func(p promql.FPoint) bool { return p.F != 0 && !math.IsNaN(p.F) })
	}
	if !some {
		return errors.New("all values are 0 or none")
	}
	return nil
}

// filled has the values of the variables: those of a scrape each 15 s, and all
// collections and tags.
func (d dashboard) filled(expr string) string {
	pairs := []string{"$__rate_interval", "1m", "$__range", "10m"}
	for _, v := range d.Templating.List {
		pairs = append(pairs, `"$`+v.Name+`"`, `"`+v.AllValue+`"`)
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}

// names are the metrics of an expression.
func names(t *testing.T, expr string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return selected(parsed)
}

func selected(expr parser.Expr) map[string]bool {
	all := map[string]bool{}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			for _, m := range s.LabelMatchers {
				if m.Name == model.MetricNameLabel {
					all[m.Value] = true
				}
			}
		}
		return nil
	})
	return all
}

// family is a metric's name without what a histogram's series add.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}
