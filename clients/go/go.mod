module bloomfilterreader

go 1.19
