module github.com/yuin/goldmark-highlighting/v2

go 1.26.0
