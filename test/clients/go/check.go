// Asks the Go reader. See ../../t/023_clients.pl for the arguments and what is printed.
package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	reader "bloomfilterreader"
)

var letters = map[reader.Answer]byte{reader.No: 'n', reader.Maybe: 'm', reader.Ask: 'a'}

var makers = map[string]func(string) (*reader.Filter, error){
	"open":  reader.Open,
	"bytes": func(line string) (*reader.Filter, error) { return reader.New(decode(line)) },
	"hex":   reader.FromHex,
	"copy":  func(line string) (*reader.Filter, error) { return reader.FromCopy(decode(line)) },
}

// must ends the program with an error, if there is one.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// lines is the lines of a file.
func lines(path string) []string {
	text, err := os.ReadFile(path)
	must(err)
	all := strings.Split(string(text), "\n")
	return all[:len(all)-1]
}

// decode is the bytes that hex says.
func decode(line string) []byte {
	decoded, err := hex.DecodeString(line)
	must(err)
	return decoded
}

// answers is a letter for each name, or "refused".
func answers(open func(string) (*reader.Filter, error), names []string, value string) string {
	taken, err := open(value)
	var format reader.FormatError
	if errors.As(err, &format) {
		return "refused"
	}
	must(err)
	defer taken.Close()
	var result bytes.Buffer
	for _, name := range names {
		answer, err := taken.Check(name)
		must(err)
		if taken.MightContain(name) != (answer != reader.No) {
			panic("MightContain")
		}
		result.WriteByte(letters[answer])
	}
	return result.String()
}

// misuse prints what must be an error, and what must not change an answer, on a file with the item
// "ada".
func misuse(path string) {
	taken, err := reader.Open(path)
	must(err)
	say := func(fact string, want reader.Answer, wantError bool) {
		answer, err := taken.Check("ada")
		word := "right"
		if answer != want || (err != nil) != wantError || !taken.MightContain("ada") {
			word = "WRONG"
		}
		fmt.Printf("%s: %s\n", fact, word)
	}
	say("answer", reader.Maybe, false)
	must(os.Rename(path, path+".old"))
	say("renamed", reader.Maybe, false)
	file, err := os.OpenFile(path+".old", os.O_WRONLY, 0)
	must(err)
	_, err = file.Write([]byte{1})
	must(err)
	must(file.Close())
	must(os.Chtimes(path+".old", time.Unix(0, 0), time.Unix(0, 0)))
	say("changed", reader.Ask, true)
	must(os.Truncate(path+".old", 20))
	say("truncated", reader.Ask, true)
	must(taken.Close())
	say("closed", reader.Ask, true)
	taken = &reader.Filter{}
	say("zero", reader.Ask, false)
}

func main() {
	mode, rest := os.Args[1], os.Args[2:]
	if mode == "peak" {
		taken, err := reader.Open(rest[0])
		must(err)
		answer, err := taken.Check("ada")
		must(err)
		fmt.Println(answer, strings.Join(lines("/proc/self/status"), "\n"))
		return
	}
	if mode == "misuse" {
		misuse(rest[0])
		return
	}
	var names []string
	for _, name := range lines(rest[0]) {
		names = append(names, string(decode(name)))
	}
	values := rest[1:]
	if mode != "open" {
		values = lines(rest[1])
	}
	for _, value := range values {
		fmt.Println(answers(makers[mode], names, value))
	}
}
