module github.com/pawl-go/pawl

go 1.26.0
