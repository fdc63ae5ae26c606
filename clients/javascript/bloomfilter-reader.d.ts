// The types of bloomfilter-reader.js, which says what everything does.

export declare const Answer: {
  readonly NO: 'definitely not';
  readonly MAYBE: 'maybe';
  readonly ASK: 'ask the server';
};
export type Answer = (typeof Answer)[keyof typeof Answer];

export declare class FormatError extends Error {}
export declare class FileChangedError extends Error {}

export declare class Filter {
  constructor(value: ArrayBufferView);
  static open(path: string | Uint8Array | URL): Filter;
  static fromHex(text: string): Filter;
  static fromCopy(file: ArrayBufferView): Filter;
  readonly normalization: string;
  readonly k: number;
  readonly chunkBits: number;
  readonly chunks: number;
  check(item: string): Answer;
  mightContain(item: string): boolean;
  close(): void;
}
