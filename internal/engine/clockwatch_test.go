package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const quarter = 125 * time.Millisecond

var dawn = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// watched is a server and a machine whose clocks a test turns.
type watched struct {
	clockwatch
	server     time.Time
	mono, wall time.Duration
}

func newWatched() *watched { return &watched{server: dawn} }

// pass lets time pass everywhere.
func (w *watched) pass(d time.Duration) {
	w.server, w.mono, w.wall = w.server.Add(d), w.mono+d, w.wall+d
}

func (w *watched) read() Reading { return Reading{Mono: w.mono, Wall: dawn.Add(w.wall)} }

// ask is a command that takes so long before and after the look at the clock.
func (w *watched) ask(there, back time.Duration) time.Duration {
	sent := w.read()
	w.pass(there)
	now := w.server.Truncate(time.Millisecond)
	w.pass(back)
	return w.see(now, sent, w.read(), quarter)
}

// A jump by more than a quarter of the tolerance is reported once, with its size, and
// what this machine's clocks do is not the server's jump.
func TestClockJumps(t *testing.T) {
	const quick, slow = time.Millisecond, 5 * time.Second
	for name, c := range map[string]struct {
		turn        func(*watched)
		there, back time.Duration
		want        time.Duration // give or take the time of the commands
	}{
		"none":                       {func(*watched) {}, quick, quick, 0},
		"a quarter forward":          {func(w *watched) { w.server = w.server.Add(quarter) }, quick, quick, 0},
		"a quarter back":             {func(w *watched) { w.server = w.server.Add(-quarter) }, quick, quick, 0},
		"forward":                    {func(w *watched) { w.server = w.server.Add(time.Second) }, quick, quick, time.Second},
		"back":                       {func(w *watched) { w.server = w.server.Add(-time.Second) }, quick, quick, -time.Second},
		"forward, by a slow request": {func(w *watched) { w.server = w.server.Add(time.Second) }, slow, quick, time.Second},
		"forward, by a slow reply":   {func(w *watched) { w.server = w.server.Add(time.Second) }, quick, slow, 0},
		"back, by a slow request":    {func(w *watched) { w.server = w.server.Add(-time.Second) }, slow, quick, 0},
		"this machine is suspended":  {func(w *watched) { w.pass(time.Hour); w.mono -= time.Hour }, quick, quick, 0},
		"its wall clock is set":      {func(w *watched) { w.wall += time.Hour }, quick, quick, 0},
		"its wall clock is set back": {func(w *watched) { w.wall -= time.Hour }, quick, quick, 0},
		"clocks drift apart": {func(w *watched) {
			for range 1000 { // 90 ppm
				w.pass(time.Minute)
				w.server = w.server.Add(5400 * time.Microsecond)
				if jump := w.ask(quick, quick); jump != 0 {
					t.Errorf("a drift is a jump of %v", jump)
				}
			}
		}, quick, quick, 0},
		"small steps": {func(w *watched) {
			for range 3 {
				w.server = w.server.Add(quarter / 4)
				_ = w.ask(quick, quick)
			}
			w.server = w.server.Add(quarter / 2)
		}, quick, quick, quarter * 5 / 4},
	} {
		w := newWatched()
		for range 3 {
			if jump := w.ask(quick, quick); jump != 0 {
				t.Errorf("%s: %v at first", name, jump)
			}
		}
		c.turn(w)
		if got := w.ask(c.there, c.back); (c.want == 0) != (got == 0) || (got-c.want).Abs() > 10*time.Millisecond {
			t.Errorf("%s: a jump of %v, want %v", name, got, c.want)
		}
		for range 100 {
			w.pass(time.Minute)
			if jump := w.ask(quick, quick); jump != 0 && c.there+c.back < slow {
				t.Errorf("%s: reported again: %v", name, jump)
			}
		}
	}
}

// Servers with different clocks that answer in turn are reported once a minute.
func TestClockJumpsAreFew(t *testing.T) {
	w, n := newWatched(), 0
	for i := range 600 {
		w.server = w.server.Add(time.Duration(1-2*(i%2)) * time.Second)
		if w.ask(0, time.Millisecond) != 0 {
			n++
		}
		w.pass(time.Second)
	}
	if n < 9 || n > 11 {
		t.Errorf("%d reports in ten minutes", n)
	}
}

// Whatever the delays are, clocks that run, that drift by up to 100 ppm and that differ by less than
// a quarter of the tolerance don't jump.
func TestNoFalseClockJumps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWatched()
		delay := rapid.Int64Range(0, int64(20*time.Second))
		ppm := rapid.Int64Range(-99, 99).Draw(t, "ppm")
		other := time.Duration(rapid.Int64Range(-int64(quarter), int64(quarter)).Draw(t, "other"))
		for range rapid.IntRange(1, 50).Draw(t, "commands") {
			pause := time.Duration(delay.Draw(t, "pause"))
			w.pass(pause)
			w.server = w.server.Add(pause / 1_000_000 * time.Duration(ppm))
			there, back := time.Duration(delay.Draw(t, "there")), time.Duration(delay.Draw(t, "back"))
			if rapid.Bool().Draw(t, "short") {
				there, back = there/10_000, back/10_000
			}
			member := other * time.Duration(rapid.IntRange(0, 1).Draw(t, "member"))
			w.server = w.server.Add(member)
			jump := w.ask(there, back)
			w.server = w.server.Add(-member)
			if jump != 0 {
				t.Fatalf("a jump of %v", jump)
			}
		}
	})
}
