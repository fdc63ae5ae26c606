// Asks the JavaScript reader. See ../t/023_clients.pl for the arguments and what is printed.
import assert from 'node:assert';
import { closeSync, openSync, readFileSync, renameSync, truncateSync } from 'node:fs';
import { utimesSync, writeSync } from 'node:fs';
import { Answer, FileChangedError, Filter, FormatError } from 'bloomfilter-reader';

const LETTERS = { [Answer.NO]: 'n', [Answer.MAYBE]: 'm', [Answer.ASK]: 'a' };
const MAKERS = {
  open: (path) => Filter.open(path),
  bytes: (line) => new Filter(Buffer.from(line, 'hex')),
  hex: (line) => Filter.fromHex(line),
  copy: (line) => Filter.fromCopy(new Uint8Array(Buffer.from(line, 'hex'))),
};

// The lines of a file.
const lines = (path) => readFileSync(path, 'latin1').split('\n').slice(0, -1);

// A name from the hex of its UTF-8, in which a surrogate may stand alone.
function decode(hex) {
  const bytes = Buffer.from(hex, 'hex');
  const name = bytes.toString('utf8');
  if (Buffer.from(name, 'utf8').equals(bytes)) return name;
  return hex
    .split(/(ed[ab].[89ab].)/)
    .map((part, i) => {
      const [, second, third] = Buffer.from(part, 'hex');
      return i % 2
        ? String.fromCharCode(0xd000 | ((second & 63) << 6) | (third & 63))
        : Buffer.from(part, 'hex').toString('utf8');
    })
    .join('');
}

// A letter for each name, or "refused".
function answers(make, names, value) {
  let taken;
  try {
    taken = make(value);
  } catch (error) {
    if (error instanceof FormatError) return 'refused';
    throw error;
  }
  for (const name of names.slice(0, 5))
    assert.equal(taken.mightContain(name), taken.check(name) !== Answer.NO);
  const letters = names.map((name) => LETTERS[taken.check(name)]).join('');
  taken.close();
  return letters;
}

// Whether a call throws that kind of error.
function throws(kind, call) {
  try {
    call();
  } catch (error) {
    return error instanceof kind;
  }
  return false;
}

// What must be an error, and what must not change an answer, on a file with the item "ada".
function misuse(path) {
  const facts = {};
  const taken = Filter.open(path);
  const bytes = new Uint8Array(readFileSync(path));
  const inMemory = Filter.fromCopy(bytes);
  facts.answer = taken.check('ada') === Answer.MAYBE && inMemory.check('ada') === Answer.MAYBE;
  facts.item = [null, undefined, 1, Buffer.from('ada'), ['ada'], new String('ada')].every((item) =>
    throws(TypeError, () => taken.check(item)),
  );
  facts.frozen = throws(TypeError, () => (taken.k = 32));
  renameSync(path, path + '.old');
  facts.renamed = taken.check('ada') === Answer.MAYBE;
  const fd = openSync(path + '.old', 'r+');
  writeSync(fd, Buffer.from([1]), 0, 1, 0);
  closeSync(fd);
  utimesSync(path + '.old', 0, 0);
  facts.changed = throws(FileChangedError, () => taken.check('ada'));
  truncateSync(path + '.old', 20);
  facts.truncated = throws(FileChangedError, () => taken.check('ada'));
  taken.close();
  // another file gets the number of the closed one
  const other = openSync('/dev/zero', 'r');
  facts.closed = throws(Error, () => taken.check('ada'));
  closeSync(other);
  structuredClone(bytes, { transfer: [bytes.buffer] });
  facts.transferred = throws(Error, () => inMemory.check('ada'));
  return facts;
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'peak') {
  console.log(Filter.open(rest[0]).check('ada'), readFileSync('/proc/self/status', 'latin1'));
} else if (mode === 'misuse') {
  for (const [fact, right] of Object.entries(misuse(...rest)))
    console.log(`${fact}: ${right ? 'right' : 'WRONG'}`);
} else {
  const names = lines(rest[0]).map(decode);
  for (const value of mode === 'open' ? rest.slice(1) : lines(rest[1]))
    console.log(answers(MAKERS[mode], names, value));
}
