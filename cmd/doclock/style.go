package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// A style is an SGR attribute of a terminal.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// colours reports whether w is a terminal that shows colours.
func colours(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// styled is a text in a style, if on.
func styled(on bool, s style, text string) string {
	if !on || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// cell is a text of others on one line of a table.
func cell(s string) string { return strings.ReplaceAll(printable(s), "\n", `\n`) }

// short is a duration as people read it: 8s, 12m, 3h05m, 2d04h.
func short(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -max(d, -math.MaxInt64)
	}
	switch s := int64(d / time.Second); {
	case s < 60:
		return fmt.Sprintf("%s%ds", sign, s)
	case s < 3600:
		return fmt.Sprintf("%s%dm%02ds", sign, s/60, s%60)
	case s < 24*3600:
		return fmt.Sprintf("%s%dh%02dm", sign, s/3600, s/60%60)
	default:
		return fmt.Sprintf("%s%dd%02dh", sign, s/86400, s/3600%24)
	}
}
