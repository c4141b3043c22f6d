//go:build !unix

package main

import "os"

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func surviveBrokenPipes() {}

func suspensions(bool) (suspensions <-chan os.Signal, stop func()) { return nil, func() {} }
