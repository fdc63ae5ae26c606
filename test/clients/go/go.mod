module check

go 1.19

require bloomfilterreader v0.0.0

replace bloomfilterreader => ../../../clients/go
