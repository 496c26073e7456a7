//go:build unix && !linux

package main

import "errors"

func mountSmall(string, int64) (func() error, error) { return nil, errors.ErrUnsupported }
