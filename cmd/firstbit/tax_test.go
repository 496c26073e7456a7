package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"firstbit/tax"
)

func TestTax(t *testing.T) {
	code, stdout, stderr := firstbit(t, "tax", "--preset", "tiny", "--set", "batch=8", "--set", "model.pattern=*-", "--pairs", "6", "--runs", "3", "--threads", "1", "--gpus", "1000", "--days", "30", "--json")
	require.Zero(t, code, stderr)
	var r struct {
		Percent  *float64 `json:"tax_percent"`
		Upper    *float64 `json:"upper_95"`
		Baseline string
		Pairs    int
		Forms    []struct{ Name string }
		Lines    []struct {
			Name  string
			Forms []struct{ Form string }
		}
		Days *gpuDays `json:"gpu_days"`
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, 6, r.Pairs)
	require.InDelta(t, 300**r.Percent, r.Days.Median, 1e-6)
	require.InDelta(t, 300**r.Upper, r.Days.Upper, 1e-6)
	require.NotEmpty(t, r.Baseline)
	require.NotEmpty(t, r.Lines[0].Forms)
	require.Equal(t, 1, strings.Count(stdout, "\n"))
}

func TestTaxPage(t *testing.T) {
	f := taxFlags{gpus: 1024, days: 60}
	var out strings.Builder
	require.NoError(t, f.print(&out, &tax.Result{Percent: 1.5, Lower: 1, Upper: 2, Baseline: "work stealing", Pairs: 30, Threads: 2,
		Forms: []tax.Form{{Name: "work stealing", Threads: 2, Millis: 20, Estimate: tax.Estimate{Percent: -1.5, Lower: -2, Upper: -1}, States: 20, Runs: 20}},
		Lines: []tax.Line{{Name: "an epilogue", Forms: []tax.LineForm{{Name: "atomic", Micros: 100}, {Name: "in turn", Micros: 150, Estimate: tax.Estimate{Percent: 50, Lower: 40, Upper: 60}}}}}}))
	require.Equal(t, `tax of determinism: +1.50 %, from +1.00 to +2.00 with 95 %, over 30 pairs on 2 threads
beside the fastest nondeterministic step: work stealing
of 1024 GPUs for 60 days: 921.6 GPU-days, at most 1228.8 with 95 %

nondeterministic steps that were tried, beside the deterministic one
  form           threads  ms     beside  95 %          different states
  work stealing  2        20.00  -1.5 %  -2.0 to -1.0  20 of 20

kernels, of all Calls of a step, on 2 threads
  what         form     µs   beside the first  95 %
  an epilogue  atomic   100                    
               in turn  150  +50.0 %           +40.0 to +60.0
`, out.String())
}
