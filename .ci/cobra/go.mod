// It is compiled together with the code of the guide: bash .ci/run cobra
module example.com/mcp/commands

go 1.25

require (
	example.com/mcp v0.0.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
)

require github.com/inconshreveable/mousetrap v1.1.0 // indirect

replace example.com/mcp => ../..
