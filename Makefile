.PHONY: site report report-assets asm docs help test matrix mutants check arch fuzz attack golden learn precision routes stories scores bench parity notebooks

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST)

test: ## the tests
	go test ./...

matrix: ## tests in their exhaustive forms: all layouts with all precisions, every fault, every state
	go test ./run ./verify ./train ./parallel ./experiments ./scripts/mutants -timeout 60m -matrix
	go test ./cmd/firstbit -run Recipe -timeout 60m -matrix

mutants: ## change the product in a hundred places, one at a time, and rewrite the table of the tests that catch it
	go run ./scripts/mutants

check: ## vet, staticcheck, gofmt, the assembly against its generators, the race detector, the search for fused instructions
	scripts/check.sh

arch: ## the same bits natively, on four architectures under qemu-user, and as wasm under Node; builds for macOS and Windows
	scripts/arch.sh

asm: ## write the assembly of kernel, libm, lowp and reduce from the generators in scripts/asm
	go -C scripts/asm run .

fuzz: ## every fuzz target for ten seconds
	scripts/fuzz.sh 10s

attack: ## damaged files, second processes, kills, signals and full disks; the seed is printed, SEED=n draws the same again
	go run ./scripts/attack $(if $(SEED),-seed $(SEED))

golden: ## rewrite the golden fingerprints and the outputs and tables of README.md and docs/
	go test ./run -run Golden -rewrite
	go test ./parity -run 'TestParity$$' -rewrite
	go test ./cmd/firstbit -run TestDocs -rewrite

parity: ## make the reference files of parity/testdata again, and load what firstbit writes in transformers
	scripts/parity.sh

docs: ## run every command of README.md and docs/
	scripts/docs.sh

notebooks: ## execute the lessons, compare what they print, and try what they suggest; scripts/notebooks.sh --rewrite takes the new outputs
	scripts/notebooks.sh

report: ## test the page of firstbit report in headless Chromium; SHOTS=DIR leaves screenshots there
	scripts/report.sh

site: ## build the playground into site/dist, for any static server, and test it; SHOTS=DIR leaves screenshots, CAUSES=all runs the whole catalog
	scripts/site.sh --test

report-assets: ## take what the pages embed from the npm registry
	scripts/report-assets.sh

learn: ## train the hybrid, attention alone and Mamba alone; rewrite the table in docs/model.md
	scripts/learn.sh

precision: ## train in every precision; rewrite docs/precision.md and its plot
	scripts/precision.sh

stories: ## tell every cause on every layout and in every precision; rewrite the table in docs/precisions.md
	scripts/stories.sh

routes: ## flip one bit under every circumstance that route sweeps; rewrite the tables in docs/routes.md
	scripts/routes.sh

scores: ## score diff and the comparers of docs/comparers over the packs of all causes; rewrite the table in docs/fixtures.md
	scripts/scores.sh

bench: ## run the benchmarks and rewrite docs/cost.md
	scripts/bench.sh
