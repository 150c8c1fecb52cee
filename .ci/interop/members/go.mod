module example.com/mcp/interop/members

go 1.25

require example.com/mcp v0.0.0

replace example.com/mcp => ../../..
