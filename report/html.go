package report

import (
	"bytes"
	"embed"
	"encoding/json"
	"strings"
)

//go:embed assets
var assets embed.FS

func asset(name string) string {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// HTML is the page as one file that needs nothing else: style, drawing and data are in it.
func (page *Page) HTML() ([]byte, error) {
	data, err := json.Marshal(page) // in which < is written as an escape, so that no text of a run ends the element
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(strings.NewReplacer(
		"/*STYLE*/", asset("uplot.css")+asset("page.css"),
		"/*LICENCE*/", asset("uplot.LICENSE"),
		"/*CHART*/", asset("uplot.js"),
		"/*DRAW*/", asset("draw.js"),
		"/*DATA*/", string(data),
	).Replace(asset("page.html")))
	return b.Bytes(), nil
}
