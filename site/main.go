//go:build js

// Command site is the playground's program: it reads one request, runs it, and reports what it finds as it goes.
package main

import (
	"encoding/json"
	"os"
	"syscall/js"

	"firstbit/play"
)

func main() {
	send := func(kind string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			kind, text = "error", []byte(`"`+err.Error()+`"`)
		}
		js.Global().Call("firstbitReport", kind, string(text))
	}
	request := js.Global().Get("firstbitRequest").String()
	if err := play.Run([]byte(request), os.TempDir(), send); err != nil {
		send("error", err.Error())
	}
}
