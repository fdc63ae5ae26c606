// SPDX-License-Identifier: PostgreSQL
// Copyright (c) 2026, the bloomfilter developers
//
// Reads exported values of the PostgreSQL type bloomfilter, without PostgreSQL.
//
//   import { Answer, Filter } from 'bloomfilter-reader';
//
//   const taken = Filter.open('taken.bin');
//   if (taken.check(name) === Answer.NO) {
//     // definitely not in the value
//   } else {
//     // maybe: ask the server
//   }
//
// "No" is said of the value, so of the moment at which it was taken. It is never said for want of
// knowledge: bytes that are no value throw a FormatError, and for an item whose key only the server
// knows the answer is Answer.ASK. The bytes are described in docs/format.md of the extension. The
// types are in bloomfilter-reader.d.ts.

import { createHash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const HEADER_BYTES = 16;
const VERSION = 1;
const MAX_HASHES = 32;
const MIN_LOG2_CHUNK_BITS = 6;
const MAX_LOG2_CHUNK_BITS = 13;
const MAX_VALUE_BITS = 2 ** 31;

const SLICE_BITS = 13;
const SLICES_FIRST = 7;
const SLICES_FURTHER = 9;

// What comes before the value in a file that COPY wrote: signature, flags, length of the extension,
// number of columns. Then the length of the value, the value, and the trailer.
const COPY_HEAD = Buffer.from('5047434f50590aff0d0a0000000000000000000001', 'hex');
const COPY_BEFORE = COPY_HEAD.length + 4;
const COPY_TRAILER = Buffer.from('ffff', 'hex');

// The canaries of normalization "none", one for each encoding of a database.
const UTF8_CANARY = 0xe896d102;
const NONE_CANARIES = new Set([
  0xb663ac63, 0x4593d9d1, 0x43528f11, 0x3a3611c3, 0x931f5ef5, 0xcd8770e4, UTF8_CANARY, 0x658e0977,
  0xab4ed2e3, 0x93b754a9, 0x95ec2529, 0x4f6fd886, 0x5fe893fe, 0xdeeaa82d, 0x1fb34317, 0xa6ae3a53,
  0xf695e423, 0xc20e7bfa, 0xefffe715, 0xeae9b87f, 0x2b2ad125, 0x41dcda9f, 0x0e05abaf, 0xc0591401,
  0xb7da2194, 0xf17d1fbb, 0xea802ca4, 0x0755225b, 0x907d15ca, 0x22b81943, 0x337e7a44, 0xf1cf54c0,
  0x7de22437, 0x4172545f, 0xd3e4c4c7,
]);

// What a value says about an item.
export const Answer = Object.freeze({
  NO: 'definitely not',
  MAYBE: 'maybe',
  ASK: 'ask the server',
});

// The bytes are not a value, or not of a version that this module knows.
export class FormatError extends Error {
  name = 'FormatError';
}

// The file was written to after it was opened, so its bits may be those of another value.
export class FileChangedError extends Error {
  name = 'FileChangedError';
}

const isAscii = (item) => !/[^\0-\x7f]/.test(item);

// A string of JavaScript may have half a surrogate pair. It has no UTF-8: Buffer would write U+FFFD
// instead, which is another name.
const isWellFormed = (item) => !/\p{Surrogate}/u.test(item);

// The key of an item as UTF-8 under each normalization, or null where only the server knows it.

// The item itself. In an encoding other than UTF8 only ASCII has the bytes that it has here.
function keyOfNone(item, canary) {
  if (!isAscii(item) && (canary !== UTF8_CANARY || !isWellFormed(item))) return null;
  return Buffer.from(item, 'utf8');
}

// A-Z made a-z. What lower() makes of other letters depends on the server's locale.
function keyOfLower(item) {
  return isAscii(item) ? Buffer.from(item.toLowerCase(), 'latin1') : null;
}

// By the number in the header: the name, the last four bytes of the header, and the key. Values of
// any other number open too, and every answer is ASK: their keys are the server's. Such a number
// may come with a mark and a canary of rules that are not known here.
const NORMALIZATIONS = new Map([
  [0, { name: 'none', mark: 0, key: keyOfNone }],
  [1, { name: 'lower', mark: 0, key: keyOfLower }],
]);

const refuse = (reason) => {
  throw new FormatError(`not a filter value: ${reason}`);
};

// md5 of the pieces one after another. Throws where Node has no MD5 (FIPS).
function md5(...pieces) {
  const hash = createHash('md5');
  for (const piece of pieces) hash.update(piece);
  return hash.digest();
}

// The 13 bits of a digest that begin with bit `first`. Bit 1 is the most significant.
function slice(digest, first) {
  const byte = (first - 1) >> 3;
  const three = (digest[byte] << 16) | (digest[byte + 1] << 8) | digest[byte + 2];
  return (three >> (24 - SLICE_BITS - ((first - 1) & 7))) & (2 ** SLICE_BITS - 1);
}

// The chunk of n: floor(u * n / 2^37), where u is bits 1-17 of the digest followed by bits 109-128.
// The product may take more than the 53 bits that a number holds exactly, so it is taken in two
// parts. Each has at most 45 bits.
function chunkOf(digest, n) {
  const high = (digest[0] << 9) | (digest[1] << 1) | (digest[2] >> 7);
  const low = ((digest[13] & 15) << 16) | (digest[14] << 8) | digest[15];
  return Math.floor((high * n + Math.floor((low * n) / 2 ** 20)) / 2 ** 17);
}

// Bytes of the caller, who must not change them.
class Memory {
  #bytes;

  constructor(data) {
    if (!ArrayBuffer.isView(data)) throw new TypeError('a filter value is a Buffer or Uint8Array');
    this.#bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    this.size = this.#bytes.length;
  }

  // A buffer that was handed to another thread has no bytes any more; none of them would be set.
  read(offset, length) {
    if (this.#bytes?.length !== this.size) throw new Error('the bytes of the filter are gone');
    return this.#bytes.subarray(offset, offset + length);
  }

  close() {
    this.#bytes = null;
  }
}

// A file of which only what is asked for is read. Throws a FileChangedError once it was written to.
class File {
  #fd;
  #status;

  constructor(path) {
    this.#fd = openSync(path, 'r');
    this.#status = fstatSync(this.#fd, { bigint: true });
    this.size = Number(this.#status.size);
  }

  read(offset, length) {
    // The number of a closed file may be that of another one by now.
    if (this.#fd === null) throw new Error('the filter is closed');
    const bytes = Buffer.allocUnsafe(length);
    const got = readSync(this.#fd, bytes, 0, length, offset);
    // After the read: what was written before it is seen. Not the time of the last change of
    // status: renaming another file over this one changes it.
    const status = fstatSync(this.#fd, { bigint: true });
    for (const field of ['dev', 'ino', 'size', 'mtimeNs'])
      if (status[field] !== this.#status[field])
        throw new FileChangedError(
          'the file of the filter was changed after it was opened: write a new value to another ' +
            'file and rename that one',
        );
    return bytes.subarray(0, got);
  }

  close() {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

// Where the value starts in a file that COPY wrote, and its length.
function copied(source) {
  const size = source.size - COPY_BEFORE - COPY_TRAILER.length;
  const head = source.read(0, COPY_BEFORE);
  if (
    size < 0 ||
    !head.subarray(0, -4).equals(COPY_HEAD) ||
    head.readUInt32BE(COPY_HEAD.length) !== size ||
    !source.read(COPY_BEFORE + size, COPY_TRAILER.length).equals(COPY_TRAILER)
  )
    refuse('not a COPY of one row with one column');
  return [COPY_BEFORE, size];
}

// A filter value. Never changes.
export class Filter {
  #source;
  #firstChunk;
  #canary;
  #key;

  // A value in memory, which is not copied: a Buffer or another view. These bytes must not change.
  // Throws a FormatError.
  constructor(value) {
    if (value instanceof Place) {
      this.#start(value.source, value.start, value.size);
    } else {
      const source = new Memory(value);
      this.#start(source, 0, source.size);
    }
    Object.freeze(this);
  }

  // A value in a file, which is not loaded: a check reads at most 1 KiB, without a promise, since
  // that takes microseconds. The file has the value alone, or is what COPY ... WITH BINARY wrote of
  // it. Throws a FormatError, and what node:fs throws.
  //
  // To replace the value write it to another file and rename that one, and open it anew.
  static open(path) {
    const source = new File(path);
    try {
      const isCopied = source.read(0, 1)[0] === COPY_HEAD[0];
      return new Filter(new Place(source, ...(isCopied ? copied(source) : [0, source.size])));
    } catch (error) {
      source.close();
      throw error;
    }
  }

  // A value in its text form, which is hex after \x. Throws a FormatError.
  static fromHex(text) {
    if (typeof text !== 'string') throw new TypeError('the text form of a filter is a string');
    if (!text.startsWith('\\x')) refuse('its text form begins with \\x');
    const bytes = Buffer.from(text.slice(2), 'hex');
    // Buffer stops at the first character that is not hex.
    if (bytes.length * 2 !== text.length - 2) refuse('its text form is not hex');
    return new Filter(bytes);
  }

  // The bytes of a file that COPY ... WITH BINARY wrote of one value. Throws a FormatError.
  static fromCopy(file) {
    const source = new Memory(file);
    return new Filter(new Place(source, ...copied(source)));
  }

  // Takes the value that is at `start` of a source. Throws a FormatError.
  #start(source, start, size) {
    const header = source.read(start, HEADER_BYTES);
    if (size < HEADER_BYTES || header.length !== HEADER_BYTES)
      refuse('it is too short to hold a header');
    const [version, k, log2ChunkBits, code] = header;
    const chunks = header.readUInt32BE(4);
    const canary = header.readUInt32BE(8);
    if (version !== VERSION) refuse('it has another version of the format');
    if (k < 1 || k > MAX_HASHES) refuse('its k is out of range');
    if (log2ChunkBits < MIN_LOG2_CHUNK_BITS || log2ChunkBits > MAX_LOG2_CHUNK_BITS)
      refuse('its chunk size is out of range');
    const chunkBits = 2 ** log2ChunkBits;
    if (chunks < 1 || chunks * chunkBits > MAX_VALUE_BITS)
      refuse('its number of chunks is out of range');
    const normalization = NORMALIZATIONS.get(code);
    if (normalization) {
      if (header.readUInt32BE(12) !== normalization.mark) refuse('its reserved bytes are not zero');
      if (NONE_CANARIES.has(canary) !== (normalization.name === 'none'))
        refuse('its canary does not belong to its normalization');
    }
    if (size !== HEADER_BYTES + (chunks * chunkBits) / 8)
      refuse('its length is not what its header says');
    md5(''); // without MD5 there is nothing to be read
    this.normalization = normalization ? normalization.name : `number ${code}`;
    this.k = k;
    this.chunkBits = chunkBits;
    this.chunks = chunks;
    this.#canary = canary;
    this.#key = normalization?.key;
    this.#source = source;
    this.#firstChunk = start + HEADER_BYTES;
  }

  // What the value says about an item, a string as the server would get it. NO: it is definitely
  // not in the value. MAYBE: it might be. ASK: only the server knows, since its key depends on the
  // server, or it is no text that the server could hold (a NUL, half a surrogate pair). Throws a
  // TypeError for anything else than a string.
  check(item) {
    if (typeof item !== 'string') throw new TypeError('an item is a string');
    if (!this.#key || item.includes('\0')) return Answer.ASK;
    const key = this.#key(item, this.#canary);
    if (key === null) return Answer.ASK;
    return this.#has(key) ? Answer.MAYBE : Answer.NO;
  }

  // False only if the item is definitely not in the value.
  mightContain(item) {
    return this.check(item) !== Answer.NO;
  }

  // Whether all bits of a key are set.
  #has(key) {
    let digest = md5(key);
    const chunkBytes = this.chunkBits / 8;
    const offset = this.#firstChunk + chunkOf(digest, this.chunks) * chunkBytes;
    const bits = this.#source.read(offset, chunkBytes);
    if (bits.length !== chunkBytes)
      throw new FormatError('the value was cut off after it was opened');
    let first = 18;
    for (let i = 0; i < this.k; ++i) {
      const nth = i - SLICES_FIRST;
      if (nth >= 0 && nth % SLICES_FURTHER === 0) {
        digest = md5(`${nth / SLICES_FURTHER + 1}:`, key);
        first = 1;
      }
      const position = (slice(digest, first) * this.chunkBits) >> SLICE_BITS;
      if ((bits[position >> 3] & (0x80 >> (position & 7))) === 0) return false;
      first += SLICE_BITS;
    }
    return true;
  }

  // Closes the file. A check afterwards throws.
  close() {
    this.#source.close();
  }
}

// A value in a part of a source.
class Place {
  constructor(source, start, size) {
    Object.assign(this, { source, start, size });
  }
}
