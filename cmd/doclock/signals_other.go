//go:build !unix

package main

import "os"

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func suspensions(bool) (suspensions <-chan os.Signal, stop func()) { return nil, func() {} }
