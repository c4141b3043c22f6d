package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart has horizontal bars: a group for each subject, and in it a bar for each
// series. With one series, ours have their own colour.
type chart struct {
	file, title, axis string
	kase              string
	series            []series
	only              []string // subjects; nil for all
}

// series is one bar of each subject, or none if it has no value.
type series struct {
	name  string
	with  []extra
	kase  string // instead of the chart's
	value func(*result) float64
}

func millis(p int) func(*result) float64 {
	return func(r *result) float64 { return micros(percentile(r.latencies(), p)) / 1000 }
}

func speed(r *result) float64    { return r.of(round.perSecond).mid }
func commands(r *result) float64 { return r.of(round.perOp).mid }

func field(key string) func(*result) float64 {
	return func(r *result) float64 { return r.number(key) }
}

var charts = []chart{
	{"pair.svg", "Acquiring and releasing a lock without contention", "milliseconds, median (less is better)", "pair",
		[]series{{value: millis(50)}}, nil},
	{"rmw.svg", "Read, change and write one document under a lock that nobody else wants", "milliseconds, median (less is better)", "rmw",
		[]series{{value: millis(50)}}, nil},
	{"commands.svg", "The work that one command makes for the server, beside a plain findOneAndUpdate {$inc}", "processor time of the server, as a multiple of the plain command's, median (less is better)", "commands",
		[]series{{value: field("server_cpu_over_plain")}}, nil},
	{"hot.svg", "Many goroutines of one process change one document, under a lock", "changes per second (more is better)", "hot64",
		[]series{{name: "4 goroutines", kase: "hot4", value: speed}, {name: "64 goroutines", value: speed}, {name: "1,000 goroutines", kase: "hot1000", value: speed}}, nil},
	{"hot-commands.svg", "What 64 goroutines that change one document send to the servers", "commands per change (less is better)", "hot64",
		[]series{{value: commands}}, nil},
	{"processes.svg", "4 processes of 16 goroutines change one document, under a lock", "changes per second (more is better)", "processes",
		[]series{{value: speed}}, nil},
	{"readers.svg", "32 goroutines hold one document's lock for 2 ms: 95% readers, 5% writers", "locks held per second (more is better)", "readers",
		[]series{{value: speed}}, nil},
	{"readers-wait.svg", "How long the writers among them wait for the lock", "milliseconds (less is better)", "readers",
		[]series{{name: "median", value: field("write_wait_p50_ms")}, {name: "99th percentile", value: field("write_wait_p99_ms")}}, nil},
	{"handoff.svg", "From the release in one process to the grant in another that waits", "milliseconds (less is better)", "handoff",
		[]series{{name: "median", value: millis(50)}, {name: "99th percentile", value: millis(99)}}, nil},
	{"idle.svg", "Waiting for a lock that nobody releases", "commands sent by all waiters of one process (less is better)", "idle",
		[]series{{name: "1 waiter", with: []extra{{"waiters", 1}}, value: field("commands")}, {name: "10 waiters", with: []extra{{"waiters", 10}}, value: field("commands")},
			{name: "100 waiters", with: []extra{{"waiters", 100}}, value: field("commands")}}, nil},
	{"growth-entries.svg", "Taking a reader's lock beside other live readers", "milliseconds, median (less is better)", "growth",
		[]series{growing(0, 1, "alone"), growing(10, 1, "beside 10"), growing(100, 1, "beside 100"), growing(1000, 1, "beside 1,000")}, nil},
	{"growth-size.svg", "Taking a lock that lives in a larger document", "milliseconds, median (less is better)", "growth",
		[]series{growing(0, 1, "1 KB"), growing(0, 20, "20 KB"), growing(0, 200, "200 KB")}, []string{"plain", crowdedSubject}},
	{"claim.svg", "Workers of 4 processes claim the documents of a queue by priority", "documents claimed and finished per second (more is better)", "claim",
		[]series{{value: speed}}, nil},
	{"claim-commands.svg", "What these workers send for a claim, without the final write", "commands per claim (less is better)", "claim",
		[]series{{value: commands}}, nil},
	{"takeover.svg", "The holder of a 2 s lock is killed: how long the next one waits", "milliseconds, median (less is better; much less than 2,000 is unsafe)", "takeover",
		[]series{{value: millis(50)}}, nil},
}

// networkCharts have a bar for each latency.
func networkCharts(latencies []time.Duration) (all []chart) {
	for _, c := range []chart{
		{"network-pair.svg", "Acquiring and releasing a lock over a network", "milliseconds, median (less is better)", "pair", []series{{value: millis(50)}}, nil},
		{"network-rmw.svg", "Read, change and write one document under a lock over a network", "milliseconds, median (less is better)", "rmw", []series{{value: millis(50)}}, nil},
		{"network-hot.svg", "64 goroutines change one document under a lock, over a network", "changes per second (more is better)", "hot64", []series{{value: speed}}, nil},
		{"network-handoff.svg", "From the release in one process to the grant in another, over a network", "milliseconds, median (less is better)", "handoff", []series{{value: millis(50)}}, nil},
		{"network-claim.svg", "Workers of 4 processes claim the documents of a queue, over a network", "documents claimed and finished per second (more is better)", "claim", []series{{value: speed}}, nil},
	} {
		one, value := c.kase, c.series[0].value
		c.series = nil
		for _, d := range latencies {
			c.kase = onNetwork(one, d)
			c.series = append(c.series, series{name: fmt.Sprintf("round trip %v", d), kase: c.kase, value: value})
		}
		all = append(all, c)
	}
	return all
}

func growing(entries, kb int, name string) series {
	return series{name: name, with: []extra{{"live_entries", entries}, {"document_kb", kb}}, value: millis(50)}
}

var (
	ours   = color.RGBA{0x1f, 0x5f, 0x9f, 0xff}
	theirs = color.RGBA{0xb0, 0xb8, 0xc0, 0xff}
	shades = []color.Color{color.RGBA{0x9e, 0xc5, 0xe8, 0xff}, color.RGBA{0x4a, 0x8f, 0xc9, 0xff}, color.RGBA{0x1f, 0x5f, 0x9f, 0xff}, color.RGBA{0x0c, 0x2f, 0x55, 0xff}}
)

// plots draws a chart for each case of the run.
func plots(b *bench, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range slices.Concat(charts, networkCharts(b.latencies)) {
		if err := c.draw(b, dir); err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
	}
	return nil
}

func (c chart) draw(b *bench, dir string) error {
	var names []string // bottom up
	for _, r := range b.results {
		if r.kase == c.kase && !slices.Contains(names, r.subject) && (c.only == nil || slices.Contains(c.only, r.subject)) {
			names = append(names, r.subject)
		}
	}
	slices.Reverse(names)
	if len(names) == 0 {
		return nil
	}
	p := plot.New()
	p.Title.Text, p.Title.TextStyle.Font.Size, p.Title.Padding = c.title, 13, 8
	p.X.Label.Text, p.X.Min = c.axis, 0
	p.Legend.Top = true
	p.NominalY(names...)
	width := vg.Points(40 / float64(len(c.series)+1))
	most := 0.0
	for i, s := range c.series {
		values := make(plotter.Values, len(names))
		labels := plotter.XYLabels{}
		for j, name := range names {
			kase := c.kase
			if s.kase != "" {
				kase = s.kase
			}
			if r := b.find(kase, name, s.with...); r != nil {
				values[j] = s.value(r)
				labels.XYs = append(labels.XYs, plotter.XY{X: values[j], Y: float64(j)})
				labels.Labels = append(labels.Labels, " "+number(values[j]))
			}
		}
		most = max(most, slices.Max(values))
		// The first series is the topmost bar of its group.
		offset := width * vg.Length(float64(len(c.series)-1)/2-float64(i))
		if err := c.bars(p, s, values, names, width, offset, i); err != nil {
			return err
		}
		written, err := plotter.NewLabels(labels)
		if err != nil {
			return err
		}
		for k := range written.TextStyle {
			written.TextStyle[k].Font.Size, written.TextStyle[k].YAlign = 8, text.YCenter
		}
		written.Offset.Y = offset + 2
		p.Add(written)
	}
	if most == 0 { // nothing was measured
		return nil
	}
	p.X.Max = most * 1.12
	if len(c.series) > 1 { // room for the legend
		p.X.Max *= 1.2
	}
	height := vg.Length(len(names))*(width*vg.Length(len(c.series))+10) + 100
	canvas, err := draw.NewFormattedCanvas(760, height, "svg")
	if err != nil {
		return err
	}
	p.Draw(draw.Crop(draw.New(canvas), 40, -20, 5, -5))
	file, err := os.Create(filepath.Join(dir, c.file))
	if err != nil {
		return err
	}
	_, err = canvas.WriteTo(file)
	return errors.Join(err, file.Close())
}

// bars adds a series. If it is the only one, ours have their own colour.
func (c chart) bars(p *plot.Plot, s series, values plotter.Values, names []string, width, offset vg.Length, i int) error {
	add := func(shown plotter.Values, fill color.Color) error {
		bars, err := plotter.NewBarChart(shown, width)
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Offset, bars.Color, bars.LineStyle.Width = true, offset, fill, 0
		p.Add(bars)
		if s.name != "" {
			p.Legend.Add(s.name, bars)
		}
		return nil
	}
	if len(c.series) > 1 {
		return add(values, shades[i%len(shades)])
	}
	own, other := make(plotter.Values, len(values)), make(plotter.Values, len(values))
	for j, v := range values {
		if strings.HasPrefix(names[j], "doclock") || c.kase == "commands" && ownCommand(names[j]) {
			own[j] = v
		} else {
			other[j] = v
		}
	}
	if err := add(other, theirs); err != nil {
		return err
	}
	return add(own, ours)
}
