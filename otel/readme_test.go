package otel

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// The README has a row for each metric and each attribute of a span that the story records, and no other. It has the
// values of the labels, too.
func TestReadmeHasTheTables(t *testing.T) {
	r, readme, recorded := newRig(t), page(t, "README.md"), map[string]bool{}
	has := func(beginning, text string) (line string) {
		recorded[beginning] = true
		_, rest, _ := strings.Cut(readme, "\n"+beginning)
		line, _, _ = strings.Cut(rest, "\n")
		if !strings.Contains(line, text) {
			t.Errorf("README.md has no row %q with %q", beginning, text)
		}
		return line
	}
	values := []string{"network", "not_acquired", "_OTHER"}
	for _, e := range errorTypes {
		values = append(values, e.name)
	}
	r.observe(story()...)
	for _, s := range r.series() {
		kind, labels := "histogram", []string{"doclock.tag", "doclock.outcome", "error.type"}
		if sum, ok := s.metric.Data.(metricdata.Sum[int64]); ok {
			kind, labels = map[bool]string{true: "counter", false: "up-down counter"}[sum.IsMonotonic], labels[:1]
		}
		if s.metric.Name == "doclock.dropped_events" {
			labels = nil
		}
		has(fmt.Sprintf("| `%s` | %s, `%s` | ", s.metric.Name, kind, s.metric.Unit), strings.TrimSuffix(s.metric.Description, ".")+" |")
		for _, a := range s.labels.ToSlice() {
			if key := string(a.Key); !strings.HasPrefix(key, "db.") && !slices.Contains(labels, key) {
				t.Errorf("README.md doesn't say that %s has the label %s", s.metric.Name, key)
			}
		}
	}
	others := map[string]string{"acquire": "| a hold's: ", "hold": "| an acquire's: "}
	for _, s := range r.ended() {
		values = append(values, attr(s, outcomeKey))
		of, _, _ := strings.Cut(s.Name(), " ")
		for _, a := range s.Attributes() {
			row := "| `" + string(a.Key) + "` | " + strings.ToLower(a.Value.Type().String()) + " "
			switch {
			case strings.HasPrefix(string(a.Key), "db."):
			case strings.Contains(has(row, "|"), others[of]):
				t.Errorf("README.md says that only the other spans have %s: %s has it", a.Key, s.Name())
			}
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
	suffixes := map[string]string{"counter": "_total", "histogram": "_seconds"}
	for _, m := range regexp.MustCompile("(?m)^\\| `(doclock\\.[a-z_.]+)` \\| ([a-z -]+), `").FindAllStringSubmatch(readme, -1) {
		name := strings.ReplaceAll(m[1], ".", "_") + suffixes[m[2]]
		known[name] = true
		if !strings.Contains(dashboard, name) {
			t.Errorf("dashboard.json doesn't have %s", name)
		}
		if strings.Contains(alerts, name) && !strings.Contains(operations, name) {
			t.Errorf("docs/operations.md doesn't have %s", name)
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
