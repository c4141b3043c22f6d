package otel

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// The README has a row for each metric and each attribute of a span that the story records, and no other. It has the
// values of the labels, too.
func TestReadmeHasTheTables(t *testing.T) {
	r, readme, recorded := newRig(t), page(t, "README.md"), map[string]bool{}
	has := func(row string, texts ...string) {
		recorded[row] = true
		_, rest, _ := strings.Cut(readme, "\n"+row)
		line, _, _ := strings.Cut(rest, "\n")
		for _, text := range texts {
			if !strings.Contains(line, text) {
				t.Errorf("README.md has no row %q with %q", row, text)
			}
		}
	}
	values := []string{"network", "not_acquired", "_OTHER"}
	for _, e := range errorTypes {
		values = append(values, e.name)
	}
	r.observe(story()...)
	for _, s := range r.series() {
		kind, suffix := "histogram", "_seconds"
		switch sum, ok := s.metric.Data.(metricdata.Sum[int64]); {
		case ok && sum.IsMonotonic:
			kind, suffix = "counter", "_total"
		case ok:
			kind, suffix = "up-down counter", ""
		}
		name := s.metric.Name
		row := fmt.Sprintf("| `%s` `%s%s` | %s | `%s` ", name, strings.ReplaceAll(name, ".", "_"), suffix, kind, s.metric.Unit)
		has(row, "| "+strings.TrimSuffix(s.metric.Description, ".")+" |")
		for _, a := range s.labels.ToSlice() {
			if !strings.HasPrefix(string(a.Key), "db.") {
				has(row, "`"+string(a.Key)+"`")
			}
		}
	}
	for _, s := range r.ended() {
		values = append(values, attr(s, outcomeKey))
		of, _, _ := strings.Cut(s.Name(), " ")
		for _, a := range s.Attributes() {
			has("| `"+string(a.Key)+"` | ", of, "| "+strings.ToLower(a.Value.Type().String())+" |")
		}
		for _, e := range s.Events() {
			values = append(values, e.Name)
		}
	}
	for _, value := range values {
		if !strings.Contains(readme, "`"+value+"`") {
			t.Errorf("README.md doesn't have `%s`", value)
		}
	}
	if n := strings.Count(readme, "\n| `"); n != len(recorded) {
		t.Errorf("README.md has %d rows, want %d", n, len(recorded))
	}
}

// Each metric that the dashboard, an alert or the operator's page asks for is one that Prometheus gets. The dashboard has
// all of them, and the page says what to do at each alert.
func TestTheDashboardAndTheAlertsNameTheMetrics(t *testing.T) {
	readme, dashboard, alerts, operations := page(t, "README.md"), page(t, "dashboard.json"), page(t, "alerts.yaml"), page(t, "../docs/operations.md")
	known := map[string]bool{"doclock_tag": true, "doclock_outcome": true}
	for _, m := range regexp.MustCompile("(?m)^\\| `doclock\\.[a-z_.]+` `([a-z_]+)` ").FindAllStringSubmatch(readme, -1) {
		known[m[1]] = true
		if !strings.Contains(dashboard, m[1]) {
			t.Errorf("dashboard.json doesn't have %s", m[1])
		}
		if strings.Contains(alerts, m[1]) && !strings.Contains(operations, m[1]) {
			t.Errorf("docs/operations.md doesn't have %s", m[1])
		}
	}
	series := regexp.MustCompile(`_seconds_(bucket|count|sum)$`)
	for _, name := range regexp.MustCompile(`doclock_[a-z_]+`).FindAllString(dashboard+alerts+operations, -1) {
		if !known[series.ReplaceAllString(name, "_seconds")] {
			t.Errorf("there is no metric %s", name)
		}
	}
	if !json.Valid([]byte(dashboard)) {
		t.Error("dashboard.json is no JSON")
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
