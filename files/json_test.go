package files

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type inner struct {
	Width int      `json:"width"`
	High  []string `json:"high,omitempty"`
}

type outer struct {
	Steps int             `json:"steps"`
	Rate  float64         `json:"rate"`
	Model inner           `json:"model"`
	Free  map[string]int  `json:"free"`
	Raw   json.RawMessage `json:"raw"`
	List  []inner         `json:"list"`
	Ptr   *inner          `json:"ptr"`
}

func TestJSON(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{}`, ""},
		{`{"steps":3,"model":{"width":4,"high":["a","a"]},"free":{"a":1,"A":2},"raw":{"steps":1,"Steps":2},"list":[{"width":1},{"width":2}],"ptr":{"width":1}}`, ""},
		{`[]`, "array: must be an object"},
		{`{}}`, "invalid character '}' after top-level value"},
		{`{} {}`, "invalid character '{' after top-level value"},
		{`{"steps":3,"steps":4}`, `field "steps": is there twice`},
		{`{"steps":3,"st\u0065ps":4}`, `field "steps": is there twice`},
		{`{"Steps":3}`, `no field "Steps": must be "steps"`},
		{"{\"\u017fteps\":3}", `no field "ſteps": must be "steps"`}, // a long s folds to s
		{`{"model":{"width":1,"width":2}}`, `field "width" in model: is there twice`},
		{`{"model":{"Width":1}}`, `no field "Width" in model: must be "width"`},
		{`{"model":{"depth":1}}`, `no field "depth" in model: must be one of high, width`},
		{`{"free":{"a":1,"a":2}}`, `field "a" in free: is there twice`},
		{`{"raw":{"a":1,"a":2}}`, `field "a" in raw: is there twice`},
		{`{"list":[{"width":1,"width":1}]}`, `field "width" in list: is there twice`},
		{`{"ptr":{"WIDTH":1}}`, `no field "WIDTH" in ptr: must be "width"`},
		{`{"steps":1.5}`, "steps: number 1.5: must be a whole number that is not too large"},
		{`{"steps":1e99}`, "steps: number 1e99: must be a whole number that is not too large"},
		{`{"model":3}`, "model: number: must be an object"},
		{`{"model":{"high":"x"}}`, "model.high: string: must be a list"},
		{`{"ptr":null,"raw":null,"free":null}`, ""},
		{`{"model":{"width":null}}`, "model.width: null: must be a whole number"},
		{`null`, ""},
		{``, "unexpected end of JSON input"},
		{strings.Repeat(`{"raw":`, 20000), "exceeded max depth"},
	} {
		err := JSON([]byte(tt.text), new(outer), false)
		if tt.want == "" {
			require.NoError(t, err, tt.text)
			continue
		}
		require.ErrorContains(t, err, tt.want, tt.text)
		require.NotContains(t, err.Error(), "\n")
	}
	var o outer
	require.NoError(t, JSON([]byte(`{"steps":3,"more":{"x":1}}`), &o, true))
	require.Equal(t, 3, o.Steps)
	require.EqualError(t, JSON([]byte(`{"STEPS":3}`), &o, true), `no field "STEPS": must be "steps"`)
	require.EqualError(t, JSON([]byte(`{"more":{"x":1,"x":2}}`), &o, true), `field "x" in more: is there twice`)
}
