"""Asks the Python reader. See ../t/023_clients.pl for the arguments and what is printed."""

import os
import sys

from bloomfilter_reader import Answer, FileChangedError, Filter, FormatError

LETTERS = {Answer.NO: "n", Answer.MAYBE: "m", Answer.ASK: "a"}
MAKERS = {
    "open": Filter.open,
    "bytes": lambda line: Filter(bytes.fromhex(line)),
    "hex": Filter.from_hex,
    "copy": lambda line: Filter.from_copy(bytes.fromhex(line)),
}


def lines(path):
    """The lines of a file."""
    with open(path, encoding="ascii") as file:
        return file.read().split("\n")[:-1]


def answers(make, names, value):
    """A letter for each name, or "refused"."""
    try:
        taken = make(value)
    except FormatError:
        return "refused"
    with taken:
        for name in names[:5]:
            assert taken.might_contain(name) == (taken.check(name) is not Answer.NO)
            assert (name in taken) == taken.might_contain(name)
        return "".join([LETTERS[taken.check(name)] for name in names])


def raises(kinds, call, *arguments):
    """Whether a call raises one of the exceptions."""
    try:
        call(*arguments)
    except kinds:
        return True
    return False


class Misleading(str):
    """A str whose methods say something else."""

    def encode(self, *_):
        return b"nobody"

    lower = isascii = __contains__ = encode


def misuse(path):
    """What must be an error, and what must not change an answer, on a file with the item "ada"."""
    taken = Filter.open(path)
    facts = {"answer": taken.check("ada") is Answer.MAYBE}
    facts["subclass"] = taken.check(Misleading("ada")) is Answer.MAYBE
    facts["item"] = all(raises(TypeError, taken.check, item) for item in (None, b"ada", 1, ["ada"]))
    facts["truth"] = raises(TypeError, bool, taken.check("ada"))
    os.rename(path, path + ".old")
    facts["renamed"] = taken.check("ada") is Answer.MAYBE
    with open(path + ".old", "r+b") as file:
        file.write(b"\1")
    os.utime(path + ".old", (0, 0))
    facts["changed"] = raises(FileChangedError, taken.check, "ada")
    os.truncate(path + ".old", 20)
    facts["truncated"] = raises(FileChangedError, taken.check, "ada")
    taken.close()
    facts["closed"] = raises(ValueError, taken.check, "ada")
    return facts


def main(mode, *arguments):
    """Prints what was asked for."""
    if mode == "misuse":
        print("\n".join("%s: %s" % (fact, "right" if right else "WRONG")
                        for fact, right in misuse(*arguments).items()))
        return
    if mode == "peak":
        print(Filter.open(*arguments).check("ada").value, *lines("/proc/self/status"), sep="\n")
        return
    names = [bytes.fromhex(name).decode("utf-8", "surrogatepass") for name in lines(arguments[0])]
    for value in arguments[1:] if mode == "open" else lines(arguments[1]):
        print(answers(MAKERS[mode], names, value))


main(*sys.argv[1:])
