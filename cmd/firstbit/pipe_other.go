//go:build !unix

package main

// reportBrokenPipes is for systems that have the signal.
func reportBrokenPipes() {}
