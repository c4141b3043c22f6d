package main

import (
	"image/color"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// charts are those of the pages, by the benchmark's name.
var charts = map[string]struct {
	title, unit, file string
	scale             float64
}{
	"Pair":  {"ms for an acquire and a release, nobody contends", "sec/op", "pair.svg", 1000},
	"Hot64": {"changes a second by 64 goroutines on one document", "ops/s", "hot.svg", 1},
}

// drawAll draws a chart of each case that has one and was run: the median of each subject's rounds, as a bar.
func drawAll(all []*benchfmt.Result, dir string) error {
	for of, c := range charts {
		var names []string
		rounds := map[string][]float64{}
		for _, line := range all {
			kase, subject, _ := strings.Cut(string(line.Name), "/subject=")
			if value, ok := line.Value(c.unit); ok && kase == of {
				if rounds[subject] == nil {
					names = append(names, subject)
				}
				rounds[subject] = append(rounds[subject], c.scale*value)
			}
		}
		if len(names) == 0 {
			continue
		}
		slices.Reverse(names) // the first one is on top
		var medians plotter.Values
		for _, name := range names {
			sample := benchmath.NewSample(rounds[name], &benchmath.DefaultThresholds)
			medians = append(medians, benchmath.AssumeNothing.Summary(sample, 0.95).Center)
		}
		bars, err := plotter.NewBarChart(medians, vg.Points(16))
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, color.RGBA{0x2b, 0x6c, 0xb0, 0xff}, 0
		p := plot.New()
		p.Title.Text, p.X.Min = c.title, 0
		p.Add(plotter.NewGrid(), bars)
		p.NominalY(names...)
		if err := p.Save(16*vg.Centimeter, vg.Length(1.5+0.9*float64(len(names)))*vg.Centimeter, filepath.Join(dir, c.file)); err != nil {
			return err
		}
	}
	return nil
}
