// SPDX-License-Identifier: PostgreSQL
// Copyright (c) 2026, the bloomfilter developers

// Package bloomfilterreader reads exported values of the PostgreSQL type bloomfilter, without
// PostgreSQL.
//
//	taken, err := bloomfilterreader.Open("taken.bin")
//	...
//	answer, err := taken.Check(name)
//	if answer == bloomfilterreader.No {
//		// definitely not in the value
//	} else {
//		// maybe: ask the server
//	}
//
// "No" is said of the value, so of the moment at which it was taken. It is never said for want of
// knowledge: bytes that are no value are a FormatError, and for an item whose key only the server
// knows the answer is Ask. The bytes are described in docs/format.md of the extension.
package bloomfilterreader

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	headerBytes      = 16
	formatVersion    = 1
	maxHashes        = 32
	minLog2ChunkBits = 6
	maxLog2ChunkBits = 13
	maxValueBits     = 1 << 31

	sliceBits     = 13
	slicesFirst   = 7
	slicesFurther = 9

	// What comes before the value in a file that COPY wrote: signature, flags, length of the
	// extension, number of columns. Then the length of the value, the value, and the trailer.
	copyHead    = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x01"
	copyBefore  = len(copyHead) + 4
	copyTrailer = "\xff\xff"

	utf8Canary = 0xe896d102
)

// The canaries of normalization "none", one for each encoding of a database.
var noneCanaries = map[uint32]bool{
	0xb663ac63: true, 0x4593d9d1: true, 0x43528f11: true, 0x3a3611c3: true, 0x931f5ef5: true,
	0xcd8770e4: true, utf8Canary: true, 0x658e0977: true, 0xab4ed2e3: true, 0x93b754a9: true,
	0x95ec2529: true, 0x4f6fd886: true, 0x5fe893fe: true, 0xdeeaa82d: true, 0x1fb34317: true,
	0xa6ae3a53: true, 0xf695e423: true, 0xc20e7bfa: true, 0xefffe715: true, 0xeae9b87f: true,
	0x2b2ad125: true, 0x41dcda9f: true, 0x0e05abaf: true, 0xc0591401: true, 0xb7da2194: true,
	0xf17d1fbb: true, 0xea802ca4: true, 0x0755225b: true, 0x907d15ca: true, 0x22b81943: true,
	0x337e7a44: true, 0xf1cf54c0: true, 0x7de22437: true, 0x4172545f: true, 0xd3e4c4c7: true,
}

// Answer is what a value says about an item. One that nobody set is Ask.
type Answer int

const (
	Ask   Answer = iota // only the server knows
	Maybe               // the item might be in the value
	No                  // the item is definitely not in the value
)

// String is the answer in words.
func (a Answer) String() string {
	switch a {
	case No:
		return "definitely not"
	case Maybe:
		return "maybe"
	}
	return "ask the server"
}

// FormatError says why bytes are not a value, or not of a version that this package knows.
type FormatError string

func (e FormatError) Error() string { return "not a filter value: " + string(e) }

// ErrFileChanged: the file was written to after it was opened, so its bits may be those of another
// value.
var ErrFileChanged = errors.New("the file of the filter was changed after it was opened: write a " +
	"new value to another file and rename that one")

// A normalization gives the key of an item, which is valid UTF-8 without NUL, or false where only
// the server knows it.
type normalization struct {
	name string
	mark uint32 // the last four bytes of the header
	key  func(item string, canary uint32) ([]byte, bool)
}

// By the number in the header. Values of any other number open too, and every answer is Ask: their
// keys are the server's. Such a number may come with a mark and a canary of rules that are not
// known here.
var normalizations = map[byte]normalization{
	0: {"none", 0, keyOfNone},
	1: {"lower", 0, keyOfLower},
}

// The item itself. In an encoding other than UTF8 only ASCII has the bytes that it has here.
func keyOfNone(item string, canary uint32) ([]byte, bool) {
	return []byte(item), canary == utf8Canary || isASCII(item)
}

// A-Z made a-z. What lower() makes of other letters depends on the server's locale.
func keyOfLower(item string, _ uint32) ([]byte, bool) {
	if !isASCII(item) {
		return nil, false
	}
	key := []byte(item)
	for i, c := range key {
		if 'A' <= c && c <= 'Z' {
			key[i] = c | 0x20
		}
	}
	return key, true
}

func isASCII(item string) bool {
	for i := 0; i < len(item); i++ {
		if item[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// A source is where a value lies.
type source interface {
	io.ReaderAt
	io.Closer
}

// The caller's memory.
type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// A file, of which only what is asked for is read. An error once it was written to.
type file struct {
	*os.File
	opened os.FileInfo
}

// ReadAt reads, and then makes sure that nobody had written before.
func (f file) ReadAt(to []byte, offset int64) (int, error) {
	n, err := f.File.ReadAt(to, offset)
	if now, failed := f.Stat(); failed != nil {
		return 0, failed
	} else if !os.SameFile(now, f.opened) || now.Size() != f.opened.Size() ||
		!now.ModTime().Equal(f.opened.ModTime()) {
		return 0, ErrFileChanged
	}
	return n, err
}

// Filter is a filter value. It never changes, and goroutines may share it. The zero Filter answers
// Ask.
type Filter struct {
	source        source
	firstChunk    int64
	normalization string
	key           func(item string, canary uint32) ([]byte, bool)
	canary        uint32
	k             int
	log2ChunkBits int
	chunks        uint32
}

// New reads a value in memory, which is not copied and must not change.
func New(value []byte) (*Filter, error) {
	return start(memory{bytes.NewReader(value)}, 0, int64(len(value)))
}

// Open reads a value in a file, which is not loaded: a check reads at most 1 KiB. The file has the
// value alone, or is what COPY ... WITH BINARY wrote of it.
//
// To replace the value write it to another file and rename that one, and open it anew.
func Open(path string) (*Filter, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	filter, err := fromFile(opened)
	if err != nil {
		opened.Close()
	}
	return filter, err
}

func fromFile(opened *os.File) (*Filter, error) {
	status, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	source := file{opened, status}
	first := []byte{0}
	if _, err := source.ReadAt(first, 0); err != nil && err != io.EOF {
		return nil, err
	}
	if first[0] == copyHead[0] {
		return copied(source, status.Size())
	}
	return start(source, 0, status.Size())
}

// FromHex reads a value in its text form, which is hex after \x.
func FromHex(text string) (*Filter, error) {
	if !strings.HasPrefix(text, `\x`) {
		return nil, FormatError(`its text form begins with \x`)
	}
	value, err := hex.DecodeString(text[2:])
	if err != nil {
		return nil, FormatError("its text form is not hex")
	}
	return New(value)
}

// FromCopy reads the bytes of a file that COPY ... WITH BINARY wrote of one value.
func FromCopy(file []byte) (*Filter, error) {
	return copied(memory{bytes.NewReader(file)}, int64(len(file)))
}

// copied takes the value out of a file that COPY wrote.
func copied(source source, fileSize int64) (*Filter, error) {
	const refusal = FormatError("not a COPY of one row with one column")
	size := fileSize - int64(copyBefore) - int64(len(copyTrailer))
	if size < 0 {
		return nil, refusal
	}
	head := make([]byte, copyBefore)
	trailer := make([]byte, len(copyTrailer))
	if err := readWhole(source, head, 0); err != nil {
		return nil, err
	}
	if err := readWhole(source, trailer, int64(copyBefore)+size); err != nil {
		return nil, err
	}
	if string(head[:len(copyHead)]) != copyHead || string(trailer) != copyTrailer ||
		int64(binary.BigEndian.Uint32(head[len(copyHead):])) != size {
		return nil, refusal
	}
	return start(source, int64(copyBefore), size)
}

// readWhole fills a buffer, or fails. A reader may say io.EOF at the end of what it has read.
func readWhole(from io.ReaderAt, to []byte, offset int64) error {
	n, err := from.ReadAt(to, offset)
	if n == len(to) {
		return nil
	}
	if err == io.EOF {
		return FormatError("it ends too early")
	}
	return err
}

// start takes the value of a size that is at an offset of a source.
func start(source source, offset, size int64) (*Filter, error) {
	if size < headerBytes {
		return nil, FormatError("it is too short to hold a header")
	}
	header := make([]byte, headerBytes)
	if err := readWhole(source, header, offset); err != nil {
		return nil, err
	}
	k, log2ChunkBits := int(header[1]), int(header[2])
	chunks := binary.BigEndian.Uint32(header[4:])
	canary := binary.BigEndian.Uint32(header[8:])
	normalization, known := normalizations[header[3]]
	switch {
	case header[0] != formatVersion:
		return nil, FormatError("it has another version of the format")
	case k < 1 || k > maxHashes:
		return nil, FormatError("its k is out of range")
	case log2ChunkBits < minLog2ChunkBits || log2ChunkBits > maxLog2ChunkBits:
		return nil, FormatError("its chunk size is out of range")
	case chunks < 1 || uint64(chunks)<<log2ChunkBits > maxValueBits:
		return nil, FormatError("its number of chunks is out of range")
	case known && binary.BigEndian.Uint32(header[12:]) != normalization.mark:
		return nil, FormatError("its reserved bytes are not zero")
	case known && noneCanaries[canary] != (normalization.name == "none"):
		return nil, FormatError("its canary does not belong to its normalization")
	case size != headerBytes+int64(chunks)<<log2ChunkBits>>3:
		return nil, FormatError("its length is not what its header says")
	}
	if !known {
		normalization.name = fmt.Sprintf("number %d", header[3])
	}
	return &Filter{source, offset + headerBytes, normalization.name, normalization.key, canary, k,
		log2ChunkBits, chunks}, nil
}

// Normalization is the name of what is done to an item before it is hashed.
func (f *Filter) Normalization() string { return f.normalization }

// K is the number of bits that an item sets.
func (f *Filter) K() int { return f.k }

// ChunkBits is the number of bits in a chunk.
func (f *Filter) ChunkBits() int { return 1 << f.log2ChunkBits }

// Chunks is the number of chunks.
func (f *Filter) Chunks() int { return int(f.chunks) }

// Check says what the value tells about an item, a string as the server would get it, in UTF-8. It
// is Ask if its key depends on the server, or if it is no text that the server could hold (a NUL,
// bytes that are not UTF-8), and with every error.
func (f *Filter) Check(item string) (Answer, error) {
	if f.key == nil || strings.IndexByte(item, 0) >= 0 || !utf8.ValidString(item) {
		return Ask, nil
	}
	key, known := f.key(item, f.canary)
	if !known {
		return Ask, nil
	}
	if has, err := f.has(key); err != nil {
		return Ask, err
	} else if has {
		return Maybe, nil
	}
	return No, nil
}

// MightContain is false only if the item is definitely not in the value.
func (f *Filter) MightContain(item string) bool {
	answer, _ := f.Check(item)
	return answer != No
}

// has tells whether all bits of a key are set.
func (f *Filter) has(key []byte) (bool, error) {
	digest := md5.Sum(key)
	high := uint64(digest[0])<<9 | uint64(digest[1])<<1 | uint64(digest[2])>>7
	low := uint64(digest[13]&15)<<16 | uint64(digest[14])<<8 | uint64(digest[15])
	// At most 62 bits, since chunks times 64 are at most 2^31.
	chunk := (high<<20 | low) * uint64(f.chunks) >> 37
	bits := make([]byte, 1<<f.log2ChunkBits>>3)
	if err := readWhole(f.source, bits, f.firstChunk+int64(chunk)*int64(len(bits))); err != nil {
		return false, err
	}
	first := 18
	for i := 0; i < f.k; i++ {
		nth := i - slicesFirst
		if nth >= 0 && nth%slicesFurther == 0 {
			digest = md5.Sum(append([]byte(fmt.Sprintf("%d:", nth/slicesFurther+1)), key...))
			first = 1
		}
		position := slice(&digest, first) >> (sliceBits - f.log2ChunkBits)
		if bits[position>>3]&(0x80>>(position&7)) == 0 {
			return false, nil
		}
		first += sliceBits
	}
	return true, nil
}

// slice is the 13 bits of a digest that begin with bit `first`. Bit 1 is the most significant.
func slice(digest *[md5.Size]byte, first int) uint {
	at := (first - 1) >> 3
	three := uint(digest[at])<<16 | uint(digest[at+1])<<8 | uint(digest[at+2])
	return three >> (24 - sliceBits - (first-1)&7) & (1<<sliceBits - 1)
}

// Close closes the file. A check afterwards is an error.
func (f *Filter) Close() error {
	if f.source == nil {
		return nil
	}
	return f.source.Close()
}
