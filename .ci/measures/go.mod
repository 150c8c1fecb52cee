module example.com/mcp/measures

go 1.25
